package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// write brings a part into the target, and counts it when it is acknowledged.
func (r *run) write(ctx context.Context, p *part) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sent := make([][]*redis.Cmd, len(p.items))
	now := time.Now()
	if len(p.items) > 0 {
		_, err := r.target.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range p.items {
				sent[i] = put(ctx, pipe, &p.items[i], now)
			}
			return nil
		})
		if err != nil && !answer(err) {
			return err
		}
	}
	for i, cmds := range sent {
		if cmds == nil {
			p.gone++ // it has expired on the way
			continue
		}
		if err := outcome(cmds); err != nil && fatal(err) {
			return err
		} else if err != nil {
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

// put writes an item. It returns nil if it has expired.
func put(ctx context.Context, pipe redis.Pipeliner, i *item, now time.Time) (sent []*redis.Cmd) {
	ms := int64(0)
	if !i.until.IsZero() {
		if ms = i.until.Sub(now).Milliseconds(); ms <= 0 {
			return nil
		}
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
	case !i.first:
		do(set...)
	default: // the old value goes and the new one comes, with its lifetime, in one step
		do("MULTI")
		do("DEL", i.key)
		do(set...)
		if ms > 0 {
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
		name := i.key
		if len(name) > 60 {
			name = name[:60] + "…"
		}
		r.report.Failures = append(slices.Clip(r.report.Failures), fmt.Sprintf("%q: %v", name, err))
	}
}

// answer tells that an error is what the server says, and not one of the connection.
func answer(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// fatal tells that no other key would fare better: stop, and go on when it is put right.
func fatal(err error) bool {
	if !answer(err) {
		return true
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return slices.Contains([]string{"OOM", "MISCONF", "NOAUTH", "NOPERM", "LOADING", "READONLY", "WRONGPASS"}, word)
}
