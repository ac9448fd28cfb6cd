// Package admin answers one question: how does an operator see what a server does, and
// change it safely, over HTTP?
//
// It serves the API that package api describes, on a *cleave.DB and a running
// *serve.Server, with /metrics, /livez and /readyz beside it. One table (routes.go) has
// every path with its types: it makes the handlers, what they refuse, and the OpenAPI
// document.
//
// # Promises
//
//   - A GET changes nothing. Whatever changes something is a POST, needs the token, and
//     is in the audit log before it is begun and when it is done.
//   - An action is planned before it is made. With ?dry_run=true the plan is the answer and
//     nothing is changed.
//   - A field or a parameter that is not known is refused: a misspelt dry_run must not act.
//   - Values are never shown, and keys only where they are asked for or bound a shard.
//   - Only requests that name the server as it is known are answered, so that a page which
//     makes its own name mean this machine learns nothing.
//
// # Choices
//
// Reads need no token if the listener is on loopback: every user of the machine may look.
// Elsewhere everything does but /livez, /readyz and the first page. A second token is for
// reading alone. Metrics are read anew for each request, from the typed figures that the store
// has: client_golang checks and writes them, and keeps none. Health has connections of its own
// (listener.go): a service manager must not take a server with many visitors for a dead one.
//
// # Limits
//
// Sizes of shards are looked up at most once a second, and lists of some things are as
// old. There is one token that changes something: its holders differ only in
// what clients claim. Jobs of backups end with the server.
package admin
