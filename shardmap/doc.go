// Package shardmap answers one question: how do many goroutines share a map
// in one process without waiting for each other?
package shardmap
