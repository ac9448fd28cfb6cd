// Package tracing answers one question: how does a trace collector learn of what took
// long in a server?
//
// A Tracer sends spans to an OpenTelemetry collector, by OTLP over HTTP: of requests of
// operators, of jobs, and of requests of clients that did not go the short way, which are
// transactions and what is in the slow log.
//
// Promises: a nil Tracer does nothing and costs nothing, so that a server without a
// collector is as fast as if this package did not exist. No request waits for a collector:
// what it does not take in time is dropped. Neither keys nor values are sent.
//
// The choice: requests that go the short way have no span. At a million of them a second
// spans would be the work, and a figure says as much.
//
// The limit: spans of clients' requests have no parent, as Redis clients do not say in
// which trace they ask.
package tracing
