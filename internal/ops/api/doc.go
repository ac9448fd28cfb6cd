// Package api answers one question: what do a server and its operators say to each other
// over HTTP?
//
// It has the requests and answers of /api/v1 as plain structs, the form of errors, and a
// Client. The server (package admin) and the command line are both made of it, so neither
// can mean something else by a name.
//
// # Promises
//
//   - Names in JSON and codes of errors do not change within v1; new ones may be added, so
//     a reader leaves alone what it does not know. A server refuses fields that it does not
//     know: what was misspelt must not be left out in silence.
//   - Bytes of keys are written in one form that loses nothing and shows nothing hostile:
//     see Key.
//   - Durations are seconds, sizes are bytes, times are RFC 3339; the name says which.
//   - A GET changes nothing. Whatever changes something is a POST to a noun and a verb, or the
//     DELETE of what a query names, has a form that only returns what it would do
//     (?dry_run=true), and needs a token.
//
// The limit: a list comes in pages of at most MaxPage, each of its own moment. What changes
// between two pages may be missed.
package api
