// Package acl answers one question: may this client do that?
//
// A [Table] has users. Each has passwords, commands that it may use, and patterns of
// keys and channels that it may use them on, given by the rules of Redis' ACL SETUSER:
// "on >secret ~app:* +@read -keys". A user is a value that is replaced as a whole, so a
// check takes no lock, and connections that are open go by the newest rules.
//
// # Promises
//
//   - Rules that are wrong change nothing.
//   - Passwords are kept as SHA-256 alone, and compared in constant time.
//
// # Limits
//
// There are no selectors, the second permissions of Redis 7, and no rules for the first
// argument of a command.
package acl
