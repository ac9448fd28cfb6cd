package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/config"
	"github.com/cleavekv/cleave/internal/spans"
)

// newTracer makes what tells a collector of spans. It is nil if there is none.
func newTracer(ctx context.Context, c *config.Config, errOut io.Writer) (*spans.Tracer, error) {
	return spans.New(ctx, spans.Options{Endpoint: c.Text("otlp-endpoint"), Version: versionNumber(), Complain: sparing(errOut, complainEvery)})
}

// complainEvery is how often it is said that a collector cannot be reached: it may be
// away for days.
const complainEvery = time.Minute

// sparing says what is wrong, but not all the time.
func sparing(errOut io.Writer, every time.Duration) func(error) {
	var mu sync.Mutex
	var next time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(next) {
			next = now.Add(every)
			fmt.Fprintf(errOut, "cleave: spans are lost: %v\n", err)
		}
	}
}

// closeTracer sends what is left, but does not wait long for a collector that is away.
func closeTracer(t *spans.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = t.Close(ctx) // nobody is there to be told
}
