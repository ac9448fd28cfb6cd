package importer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// write brings a part into the target, and counts it when it is acknowledged.
func (r *run) write(ctx context.Context, p *part) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sent, err := r.send(ctx, p.items)
	if err != nil {
		return err
	}
	for i, cmds := range sent {
		if cmds == nil {
			if p.items[i].first {
				p.gone++ // it has expired on the way; a key once, whatever pieces it has
			}
		} else if err := outcome(cmds); err != nil {
			r.fail(&p.items[i], err)
		} else {
			r.copied(&p.items[i])
		}
	}
	r.report.Keys += p.keys
	r.report.Gone += p.gone
	r.report.Strings += p.strings
	r.report.Hashes += p.hashes
	for kind, n := range p.skipped {
		r.report.Skipped[kind] += n
	}
	return nil
}

// send brings items into the target until it has taken each, or refused it for what it is.
// What is sent twice is the same as sent once.
func (r *run) send(ctx context.Context, items []item) ([][]*redis.Cmd, error) {
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		sent, err := r.try(ctx, items)
		if err == nil || !passes(err) || time.Since(began) > r.patience {
			return sent, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try sends items once. A refusal that is not about one of them alone is an error.
func (r *run) try(ctx context.Context, items []item) ([][]*redis.Cmd, error) {
	sent := make([][]*redis.Cmd, len(items))
	if len(items) == 0 {
		return sent, nil
	}
	now := time.Now()
	_, err := r.target.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range items {
			sent[i] = put(ctx, pipe, &items[i], now)
		}
		return nil
	})
	if err != nil && !answer(err) {
		return nil, err
	}
	for i, cmds := range sent {
		if err := outcome(cmds); err != nil && !ofKey(err) {
			return nil, refused(&items[i], err)
		}
	}
	return sent, nil
}

// put writes an item. It returns nil if it has expired.
func put(ctx context.Context, pipe redis.Pipeliner, i *item, now time.Time) (sent []*redis.Cmd) {
	ms, expired := i.left(now)
	if expired {
		return nil
	}
	do := func(words ...any) { sent = append(sent, pipe.Do(ctx, words...)) }
	set := []any{"HSET", i.key}
	for _, f := range i.fields {
		set = append(set, f)
	}
	switch {
	case i.fields == nil && ms > 0:
		do("SET", i.key, i.value, "PX", ms)
	case i.fields == nil:
		do("SET", i.key, i.value)
	case !i.first && ms == 0:
		do(set...)
	default: // the old value goes and the new one comes, with its lifetime, in one step
		do("MULTI")
		if i.first {
			do("DEL", i.key)
		}
		do(set...)
		if ms > 0 { // with each piece: where the hash has expired since the last, this one makes another
			do("PEXPIRE", i.key, ms)
		}
		do("EXEC")
	}
	return sent
}

// outcome is the first error among answers, also of those inside of an EXEC.
func outcome(cmds []*redis.Cmd) error {
	for _, c := range cmds {
		if err := c.Err(); err != nil {
			return err
		}
		answers, _ := c.Val().([]any)
		for _, a := range answers {
			if err, ok := a.(error); ok {
				return err
			}
		}
	}
	return nil
}

// copied counts an item.
func (r *run) copied(i *item) {
	r.report.Bytes += i.bytes()
	switch {
	case i.fields == nil:
		r.report.Strings++
	case i.first:
		r.report.Hashes++
	}
}

// fail notes that the target has refused an item; a key once, whatever pieces it has.
func (r *run) fail(i *item, err error) {
	if !i.first {
		if r.failing == i.key {
			return
		}
		r.report.Hashes-- // its first piece was counted
	}
	r.failing = i.key
	r.report.Failed++
	if len(r.report.Failures) < maxFailures {
		r.report.Failures = append(slices.Clip(r.report.Failures), fmt.Sprintf("%q: %v", i.name(), err))
	}
}
