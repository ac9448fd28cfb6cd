// Package stats counts what a server does: requests, errors, bytes, how long commands take, and which requests took
// long.
//
// [Counters] are what INFO reports, [Slowlog] are the requests that took long, and [LatencyMonitor] are the longest
// times of each second. All may be used by several goroutines.
package stats
