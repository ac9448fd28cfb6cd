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

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// The variables of OpenTelemetry that name a collector. The library reads them, and others
// that go with them, such as those for headers.
const (
	EnvEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	EnvTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// Options specify where spans go.
type Options struct {
	// Endpoint is the URL of a collector, such as http://127.0.0.1:4318; spans go to
	// /v1/traces below it. Default what the environment says; if that says nothing, there
	// are no spans.
	Endpoint string
	// Version is that of the server.
	Version string
	// OnError is called when spans could not be sent. Default none.
	OnError func(error)
}

// Tracer sends spans. A nil one does not.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// New returns a Tracer, nil if there is no collector. It does not connect yet.
func New(ctx context.Context, o Options) (*Tracer, error) {
	var options []otlptracehttp.Option
	switch {
	case o.Endpoint != "":
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimRight(o.Endpoint, "/")+"/v1/traces"))
	case os.Getenv(EnvEndpoint) == "" && os.Getenv(EnvTracesEndpoint) == "":
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about := resource.NewSchemaless(attribute.String("service.name", "cleave"), attribute.String("service.version", o.Version))
	if o.OnError != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(o.OnError))
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/cleavekv/cleave")}, nil
}

// Close sends what is left, and waits for that until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// StartRequest begins the span of a request of an operator. route is the path of the table, and
// the span is part of the trace that the request names. end takes the status.
func (t *Tracer) StartRequest(r *http.Request, route string) (_ *http.Request, end func(status int)) {
	if t == nil {
		return r, func(int) {}
	}
	ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route)))
	return r.WithContext(ctx), func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
		span.End()
	}
}

// Observer is for serve.Options: it gets requests of clients. It is nil if there
// is no Tracer.
func (t *Tracer) Observer() func(api.ObservedRequest) {
	if t == nil {
		return nil
	}
	return t.sendRequestSpan
}

func (t *Tracer) sendRequestSpan(o api.ObservedRequest) {
	took := time.Duration(o.Seconds * float64(time.Second))
	attributes := []attribute.KeyValue{
		attribute.String("db.system.name", "cleave"), attribute.String("db.operation.name", o.Command), attribute.String("cleave.way", o.Kind),
		attribute.Int("cleave.arguments", o.Arguments), attribute.Int("cleave.requests", o.Requests),
	}
	if o.Group != 0 {
		attributes = append(attributes, attribute.Int64("cleave.shard", int64(o.Shard)), attribute.Int64("cleave.group", int64(o.Group)))
	}
	name := o.Command
	if name == "" {
		name = "unknown"
	}
	_, span := t.tracer.Start(context.Background(), name, trace.WithTimestamp(o.Time.Add(-took)), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(o.Time))
}

// SendJob sends the span of a job that has ended.
func (t *Tracer) SendJob(j api.Job) {
	if t == nil || j.Ended == nil {
		return
	}
	_, span := t.tracer.Start(context.Background(), "job "+j.Kind, trace.WithTimestamp(j.Created), trace.WithAttributes(
		attribute.String("cleave.job.id", j.ID), attribute.String("cleave.job.state", j.State), attribute.String("cleave.job.parent", j.Parent),
		attribute.Int64("cleave.shard", int64(j.Shard)), attribute.Int64("cleave.job.from", int64(j.From)), attribute.Int64("cleave.job.to", int64(j.To)),
		attribute.Int64("cleave.job.bytes", int64(j.Bytes)), attribute.Float64("cleave.job.pause_seconds", j.PauseTotalSeconds)))
	if j.State != api.JobDone {
		span.SetStatus(codes.Error, j.Why)
	}
	span.End(trace.WithTimestamp(*j.Ended))
}
