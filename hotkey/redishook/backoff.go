package redishook

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey/backoff"
)

// Backoff lets the commands of a client wait as long as a Cleave server says that their key is throttled, and tries them again.
// It is a redis.Hook. Add it before other hooks, and set MaxRetries of the client as ever: go-redis does not retry such
// an answer itself.
//
// Pipelines and transactions are not tried again: part of a pipeline was executed. Their keys that
// were refused are noted, so that single commands wait.
type Backoff struct{ queue *backoff.Queue }

var _ redis.Hook = (*Backoff)(nil)

// NewBackoff returns a hook that lets callers wait in a queue.
func NewBackoff(q *backoff.Queue) (*Backoff, error) {
	if q == nil {
		return nil, fmt.Errorf("%w: no queue: make one with backoff.New", ErrOptions)
	}
	return &Backoff{q}, nil
}

// DialHook passes on: connections have no keys.
func (b *Backoff) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook tries a command again that was refused.
func (b *Backoff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		key, ok := Key(cmd)
		if !ok {
			return next(ctx, cmd)
		}
		err := b.queue.Do(ctx, key, func(ctx context.Context) error {
			cmd.SetErr(nil)
			return next(ctx, cmd)
		})
		if err != nil && cmd.Err() == nil {
			cmd.SetErr(err) // it was never sent
		}
		return err
	}
}

// ProcessPipelineHook notes which keys were refused.
func (b *Backoff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if key, ok := Key(cmd); ok && cmd.Err() != nil {
				b.queue.Note(key, cmd.Err())
			}
		}
		return err
	}
}
