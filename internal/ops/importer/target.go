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

// writeChunk brings a part into the target, and counts it when it is acknowledged.
func (r *importRun) writeChunk(ctx context.Context, p *chunk) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sent, err := r.sendItems(ctx, p.items)
	if err != nil {
		return err
	}
	for i, cmds := range sent {
		if cmds == nil {
			if p.items[i].isFirst {
				p.gone++ // it has expired on the way; a key once, whatever pieces it has
			}
		} else if err := firstError(cmds); err != nil {
			r.recordRefusal(&p.items[i], err)
		} else {
			r.countCopied(&p.items[i])
		}
	}
	r.report.Keys += p.keys
	r.report.Gone += p.gone
	r.report.Strings += p.strings
	r.report.Hashes += p.hashes
	for kind, n := range p.skipped {
		r.report.Skipped[kind] += n
	}
	for _, l := range p.leftOut {
		r.report.addLeftOut(l.why, formatKey(l.key))
		if l.failure != "" {
			r.recordFailure(formatKey(l.key), l.failure)
		}
	}
	return nil
}

// sendItems brings items into the target until it has taken each, or refused it for what it is.
// What is sent twice is the same as sent once.
func (r *importRun) sendItems(ctx context.Context, items []item) ([][]*redis.Cmd, error) {
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		sent, err := r.trySend(ctx, items)
		if err == nil || !isTemporary(err) || time.Since(began) > r.retryTimeout {
			return sent, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// trySend sends items once. A refusal that is not about one of them alone is an error.
func (r *importRun) trySend(ctx context.Context, items []item) ([][]*redis.Cmd, error) {
	sent := make([][]*redis.Cmd, len(items))
	if len(items) == 0 {
		return sent, nil
	}
	now := time.Now()
	_, err := r.target.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range items {
			sent[i] = queueWrite(ctx, pipe, &items[i], now)
		}
		return nil
	})
	if err != nil && !isReplyError(err) {
		return nil, err
	}
	for i, cmds := range sent {
		if err := firstError(cmds); err != nil && !isKeyError(err) {
			return nil, newRefusalError(&items[i], err)
		}
	}
	return sent, nil
}

// queueWrite writes an item. It returns nil if it has expired.
func queueWrite(ctx context.Context, pipe redis.Pipeliner, i *item, now time.Time) (sent []*redis.Cmd) {
	ms, expired := i.remainingMS(now)
	if expired {
		return nil
	}
	do := func(words ...any) { sent = append(sent, pipe.Do(ctx, words...)) }
	set := []any{"HSET", i.key}
	for _, f := range i.fields {
		set = append(set, f)
	}
	switch {
	case i.drop:
		do("DEL", i.key)
	case i.fields == nil && ms > 0:
		do("SET", i.key, i.value, "PX", ms)
	case i.fields == nil:
		do("SET", i.key, i.value)
	case !i.isFirst && ms == 0:
		do(set...)
	default: // the old value goes and the new one comes, with its lifetime, in one step
		do("MULTI")
		if i.isFirst {
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

// firstError is the first error among answers, also of those inside of an EXEC.
func firstError(cmds []*redis.Cmd) error {
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

// countCopied counts an item.
func (r *importRun) countCopied(i *item) {
	r.report.Bytes += i.sizeBytes()
	switch {
	case i.drop:
		r.report.Hashes-- // its first piece was counted
	case i.fields == nil:
		r.report.Strings++
	case i.isFirst:
		r.report.Hashes++
	}
}

// recordRefusal notes that the target has refused an item; a key once, whatever pieces it has.
func (r *importRun) recordRefusal(i *item, err error) {
	if !i.isFirst {
		if r.refusedKey == i.key {
			return
		}
		r.report.Hashes-- // its first piece was counted
	}
	r.refusedKey = i.key
	why, _, _ := strings.Cut(err.Error(), ":")
	r.report.addLeftOut("that the target refuses: "+why, i.formatName())
	r.recordFailure(i.formatName(), err.Error())
}

// recordFailure records why a key was left out that is of a type that is served.
func (r *importRun) recordFailure(name, why string) {
	r.report.Failed++
	if len(r.report.Failures) < maxListedFailures {
		r.report.Failures = append(slices.Clip(r.report.Failures), fmt.Sprintf(`"%s": %s`, name, why))
	}
}

// keyErrorPrefixes are how the refusals begin that are about a key, or about what it holds. Any
// other may be about the target, and to take one of those for a fault of a key would leave
// out every key behind it.
var keyErrorPrefixes = []string{
	"WRONGTYPE ",
	"ERR too large",
	"ERR too many commands in MULTI",
	"ERR string exceeds maximum allowed size",
	"ERR invalid expire time",
	"ERR an index refuses the row",
	"ERR another row has the same entry in a unique index",
}

// remedy is what to do about a refusal.
type remedy struct {
	contains    string // a part of it
	advice      string
	isTemporary bool // by itself, in a while
}

// remedies are those of refusals that are about the target. The first match counts.
var remedies = []remedy{
	{contains: "disk is full", advice: "make room on its disk"},
	{contains: "MISCONF ", advice: "see what is wrong with its disk"},
	{contains: "no more files", advice: "see who has them open there"},
	{contains: "OOM ", advice: "delete keys there, or raise its maxmemory"},
	{contains: "READONLY ", advice: "name a server that takes writes"},
	{contains: "NOAUTH ", advice: "name a user who may write there"},
	{contains: "WRONGPASS ", advice: "name a user who may write there"},
	{contains: "NOPERM ", advice: "name a user who may write there"},
	{contains: "overloaded", advice: "wait until it has less to do", isTemporary: true},
	{contains: "BUSY ", advice: "wait until it has less to do", isTemporary: true},
	{contains: "TXNABORT ", advice: "wait until others write less to the same keys", isTemporary: true},
	{contains: "LOADING ", advice: "wait until it has read its data", isTemporary: true},
	{contains: "", advice: "see what is wrong with it"},
}

// isReplyError reports whether an error is a reply of the server, and not one of the connection.
func isReplyError(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// isKeyError reports whether a refusal is about one key, and others may fare better.
func isKeyError(err error) bool {
	return slices.ContainsFunc(keyErrorPrefixes, func(said string) bool { return strings.HasPrefix(err.Error(), said) })
}

// refusalError is an answer of the target that is not about one key.
type refusalError struct {
	key string // what was to be written
	err error
	remedy
}

// newRefusalError makes a refusal of what was answered to an item.
func newRefusalError(i *item, err error) *refusalError {
	at := slices.IndexFunc(remedies, func(r remedy) bool { return strings.Contains(err.Error(), r.contains) })
	return &refusalError{i.formatName(), err, remedies[at]}
}

// Error has the answer, and what to do.
func (r *refusalError) Error() string {
	return fmt.Sprintf(`it refused the key "%s": %v: %s`, r.key, r.err, r.advice)
}

// Unwrap returns the answer.
func (r *refusalError) Unwrap() error { return r.err }

// isTemporary reports whether the target may take the same in a while.
func isTemporary(err error) bool {
	var r *refusalError
	return errors.As(err, &r) && r.isTemporary
}
