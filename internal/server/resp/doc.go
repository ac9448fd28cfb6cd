// Package resp answers one question: where does one request of a Redis client end,
// and how is an answer to it written?
//
// It knows the bytes of RESP2 and RESP3 and nothing of what commands mean. A
// [Parser] finds requests in what was received so far, without copying them and
// without looking twice at what it has seen; the functions named Append… write
// replies. Neither does I/O.
//
// # Promises
//
//   - Memory follows what was received, never what a client declares: a request
//     that announces a million arguments costs nothing until they come.
//   - What a [Limits] allows is accepted and nothing else. The error texts are
//     those of Redis.
//   - However the bytes are cut into pieces, the same requests come out.
//
// The limit: a request is found whole or not at all, so its bytes wait in memory until the
// last of them is there.
package resp
