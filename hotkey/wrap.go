package hotkey

import (
	"context"
	"time"
)

// Wrap returns a call of a client that the detector watches: one of Options.Sample is
// measured, whatever comes of it, and all are passed on.
func Wrap[K ~string, V any](d *Detector, call func(context.Context, K) (V, error)) func(context.Context, K) (V, error) {
	return func(ctx context.Context, key K) (V, error) {
		if !d.Sampled() {
			return call(ctx, key)
		}
		defer d.since(string(key), d.o.Now())
		return call(ctx, key)
	}
}

// Time runs f, and measures it if it is chosen.
func (d *Detector) Time(key string, f func()) {
	if d.Sampled() {
		defer d.since(key, d.o.Now())
	}
	f()
}

func (d *Detector) since(key string, start time.Time) { d.Record(key, d.o.Now().Sub(start)) }
