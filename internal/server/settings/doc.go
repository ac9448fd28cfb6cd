// Package settings holds the settings of a server that clients read and change with CONFIG.
//
// A [Table] has the values, and refuses those that are none or would have no effect. What follows from a change is
// the business of the server that has the table.
package settings
