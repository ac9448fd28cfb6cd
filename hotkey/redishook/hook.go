package redishook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey"
)

// ErrOptions means that a hook cannot be made: the text says why.
var ErrOptions = errors.New("redishook: bad options")

// Options configure a [Hook]. The zero value works.
type Options struct {
	// MaxPipeline is the most commands of a pipeline that counts. Default 16; -1 leaves all
	// pipelines out.
	MaxPipeline int
	// Key returns the key that a command counts for, and whether it counts. Default [Key].
	Key func(redis.Cmder) (key string, ok bool)
	// Now is the clock that commands are measured with. Default time.Now.
	Now func() time.Time
}

// Hook reports the commands of a client to a detector. It is a redis.Hook, and may be added
// to any number of clients.
type Hook struct {
	d       *hotkey.Detector
	o       Options
	skipped atomic.Uint64
}

var _ redis.Hook = (*Hook)(nil)

// New returns a hook that reports to a detector.
func New(d *hotkey.Detector, o Options) (*Hook, error) {
	if d == nil {
		return nil, fmt.Errorf("%w: no detector: make one with hotkey.New", ErrOptions)
	}
	if o.MaxPipeline < -1 {
		return nil, fmt.Errorf("%w: MaxPipeline is %d: use a positive number, 0 for the default, or -1 for none", ErrOptions, o.MaxPipeline)
	}
	if o.MaxPipeline == 0 {
		o.MaxPipeline = 16
	}
	if o.Key == nil {
		o.Key = Key
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hook{d: d, o: o}, nil
}

// SkippedPipelines returns how many pipelines were chosen and left out as too long.
func (h *Hook) SkippedPipelines() uint64 { return h.skipped.Load() }

// DialHook passes on: connections have no keys.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook measures a command, if it is chosen.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !h.d.Sampled() {
			return next(ctx, cmd)
		}
		start := h.o.Now()
		err := next(ctx, cmd)
		if key, ok := h.o.Key(cmd); ok {
			h.d.Record(key, h.o.Now().Sub(start))
		}
		return err
	}
}

// ProcessPipelineHook measures a pipeline, or a transaction, if it is chosen, and gives
// its time to each key of it, once.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !h.d.Sampled() {
			return next(ctx, cmds)
		}
		if len(cmds) > h.o.MaxPipeline {
			h.skipped.Add(1)
			return next(ctx, cmds)
		}
		start := h.o.Now()
		err := next(ctx, cmds)
		took := h.o.Now().Sub(start)
		keys := make(map[string]bool, len(cmds))
		for _, cmd := range cmds {
			if isBlocking(cmd.Args()) {
				return err // the whole has waited for it
			}
			if key, ok := h.o.Key(cmd); ok {
				keys[key] = true
			}
		}
		for key := range keys {
			h.d.Record(key, took)
		}
		return err
	}
}
