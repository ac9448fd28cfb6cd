package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// What is held in memory at a time.
const (
	// maxChunkBytes is how much is read before it is handed on.
	maxChunkBytes = 8 << 20
	// smallHashFields is how many fields are read at once; more come in pieces of so many.
	smallHashFields = 64
)

// item is a key to be written: a string, or a piece of a hash.
type item struct {
	key   string
	value string
	// fields are names and values in turn; nil for a string.
	fields []string
	// isFirst reports whether it is the first piece, which replaces what was there.
	isFirst bool
	// drop removes the earlier pieces of a hash that turned out to be over a limit.
	drop bool
	lifetime
}

// lifetime is how long a key had to live when it was asked for. A Duration holds no more than
// 292 years, and a lifetime may be longer.
type lifetime struct {
	ms         int64
	measuredAt time.Time // zero if it does not expire
}

// remainingMS is what of it is left, 0 if it does not expire.
func (l lifetime) remainingMS(now time.Time) (ms int64, expired bool) {
	if l.measuredAt.IsZero() {
		return 0, false
	}
	ms = l.ms - now.Sub(l.measuredAt).Milliseconds()
	return ms, ms <= 0
}

func (i *item) sizeBytes() int64 {
	n := len(i.key) + len(i.value)
	for _, f := range i.fields {
		n += len(f)
	}
	return int64(n)
}

// formatName is the key as text for a report.
func (i *item) formatName() string { return formatKey(i.key) }

// formatKey is a key as text for people: escaped, and cut if it is long.
func formatKey(key string) string {
	if len(key) > 60 {
		return api.Key(key[:60]).String() + "…"
	}
	return api.Key(key).String()
}

// chunk is a piece of a page of the walk, with what was met in it.
type chunk struct {
	items []item
	bytes int64
	// keys were met, skipped by type, gone meanwhile.
	keys, gone int64
	skipped    map[string]int64
	// leftOutKey are keys that are over a limit, or of a type that is not served.
	leftOut []leftOutKey
	// strings and hashes are counts of a dry run, which reads no values.
	strings, hashes int64
	// endsPage reports whether the page ends with it, and next where the next begins.
	endsPage   bool
	nextCursor uint64
}

// leftOutKey is a key that is not copied.
type leftOutKey struct {
	key, why string
	// failure is what of it is over a limit; "" for a key of a type that is not served.
	failure string
}

// skipKey leaves out a key of a type that is not served.
func (p *chunk) skipKey(key, kind string) {
	p.skipped[kind]++
	p.leftOut = append(p.leftOut, leftOutKey{key: key, why: "of type " + kind + ", which is not served"})
}

// rejectKey leaves out a key that is over a limit.
func (p *chunk) rejectKey(key string, over *sizeLimit, bytes int64) {
	p.leftOut = append(p.leftOut, leftOutKey{key, over.explainLeftOut(), over.formatFailure(bytes)})
}

// readSource walks the source and hands on parts.
func (r *importRun) readSource(ctx context.Context, parts chan<- chunk) error {
	for cursor := r.state.Cursor; ; {
		keys, next, err := r.source.Scan(ctx, cursor, r.Match, r.Page).Result()
		if err != nil {
			return err
		}
		p := &chunk{skipped: map[string]int64{}, keys: int64(len(keys))}
		send := func() error {
			select {
			case parts <- *p:
				*p = chunk{skipped: map[string]int64{}}
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := r.readPage(ctx, keys, p, send); err != nil {
			return err
		}
		p.endsPage, p.nextCursor = true, next
		if err := send(); err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}

// measuredKey is a key with what decides how it is read.
type measuredKey struct {
	key  string
	size int64 // bytes of a string, fields of a hash
	lifetime
}

// readPage reads the values of a page.
func (r *importRun) readPage(ctx context.Context, keys []string, p *chunk, send func() error) error {
	if len(keys) == 0 {
		return nil
	}
	texts, hashes, err := r.classifyKeys(ctx, keys, p)
	if err != nil || r.DryRun {
		return err
	}
	if err := r.readStrings(ctx, texts, p, send); err != nil {
		return err
	}
	return r.readHashes(ctx, hashes, p, send)
}

// classifyKeys asks for types, lifetimes and sizes.
func (r *importRun) classifyKeys(ctx context.Context, keys []string, p *chunk) (texts, hashes []measuredKey, err error) {
	types, ttls := make([]*redis.StatusCmd, len(keys)), make([]*redis.Cmd, len(keys))
	now := time.Now()
	_, err = r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, k := range keys {
			types[i], ttls[i] = pipe.Type(ctx, k), pipe.Do(ctx, "PTTL", k)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i, k := range keys {
		if int64(len(k)) > keyLimit.maxBytes {
			p.rejectKey(k, &keyLimit, int64(len(k)))
			continue
		}
		s := measuredKey{key: k}
		ms, err := ttls[i].Int64()
		if err != nil {
			return nil, nil, err
		}
		if ms >= 0 { // 0 in its last millisecond, below if it has none
			s.lifetime = lifetime{ms, now}
		}
		switch kind := types[i].Val(); kind {
		case "string":
			texts = append(texts, s)
		case "hash":
			hashes = append(hashes, s)
		case "none":
			p.gone++
		default:
			p.skipKey(k, kind)
		}
	}
	if err := r.measureSizes(ctx, texts, hashes); err != nil {
		return nil, nil, err
	}
	texts = slices.DeleteFunc(texts, func(t measuredKey) bool {
		over := t.size > valueLimit.maxBytes
		if over {
			p.rejectKey(t.key, &valueLimit, t.size)
		}
		return over
	})
	if r.DryRun {
		p.strings, p.hashes = int64(len(texts)), int64(len(hashes))
		return nil, nil, r.skipHyperLogLogs(ctx, texts, p)
	}
	return texts, hashes, nil
}

// measureSizes asks how large they are.
func (r *importRun) measureSizes(ctx context.Context, texts, hashes []measuredKey) error {
	var sizes []*redis.IntCmd
	_, err := r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, t := range texts {
			sizes = append(sizes, pipe.StrLen(ctx, t.key))
		}
		for _, h := range hashes {
			sizes = append(sizes, pipe.HLen(ctx, h.key))
		}
		return nil
	})
	if err != nil && !isKeyChanged(err) {
		return err
	}
	for i := range texts {
		texts[i].size = sizes[i].Val()
	}
	for i := range hashes {
		hashes[i].size = sizes[len(texts)+i].Val()
	}
	return nil
}

// readStrings reads as many at once as fit.
func (r *importRun) readStrings(ctx context.Context, texts []measuredKey, p *chunk, send func() error) error {
	for len(texts) > 0 {
		n, bytes := 0, int64(0)
		for n < len(texts) && (n == 0 || bytes+texts[n].size <= maxChunkBytes) {
			bytes += texts[n].size
			n++
		}
		cmds := make([]*redis.StringCmd, n)
		_, err := r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range n {
				cmds[i] = pipe.Get(ctx, texts[i].key)
			}
			return nil
		})
		if err != nil && !isKeyChanged(err) {
			return err
		}
		for i, c := range cmds {
			switch n := int64(len(c.Val())); {
			case c.Err() != nil:
				p.gone++
				continue
			case n > valueLimit.maxBytes: // it has grown since it was measured
				p.rejectKey(texts[i].key, &valueLimit, n)
				continue
			case isHyperLogLog(c.Val(), n):
				p.skipKey(texts[i].key, hyperLogLogType)
				continue
			}
			if err := p.appendItem(item{key: texts[i].key, value: c.Val(), isFirst: true, lifetime: texts[i].lifetime}, send); err != nil {
				return err
			}
		}
		texts = texts[n:]
	}
	return nil
}

// readHashes reads small ones together and large ones in pieces.
func (r *importRun) readHashes(ctx context.Context, hashes []measuredKey, p *chunk, send func() error) error {
	var small []measuredKey
	for _, h := range hashes {
		switch {
		case h.size == 0:
			p.gone++
		case h.size <= smallHashFields:
			small = append(small, h)
		default:
			if err := r.readLargeHash(ctx, h, p, send); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(small, smallHashFields) {
		if err := r.readSmallHashes(ctx, some, p, send); err != nil {
			return err
		}
	}
	return nil
}

func (r *importRun) readSmallHashes(ctx context.Context, hashes []measuredKey, p *chunk, send func() error) error {
	cmds := make([]*redis.MapStringStringCmd, len(hashes))
	_, err := r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, h := range hashes {
			cmds[i] = pipe.HGetAll(ctx, h.key)
		}
		return nil
	})
	if err != nil && !isKeyChanged(err) {
		return err
	}
	for i, c := range cmds {
		if c.Err() != nil || len(c.Val()) == 0 {
			p.gone++
			continue
		}
		var fields []string
		for name, value := range c.Val() {
			fields = append(fields, name, value)
		}
		if over, n := findOversizedField(fields); over != nil {
			p.rejectKey(hashes[i].key, over, n)
			continue
		}
		if err := p.appendFields(&item{key: hashes[i].key, isFirst: true, lifetime: hashes[i].lifetime}, fields, send); err != nil {
			return err
		}
	}
	return nil
}

func (r *importRun) readLargeHash(ctx context.Context, h measuredKey, p *chunk, send func() error) error {
	i := item{key: h.key, isFirst: true, lifetime: h.lifetime}
	for cursor := uint64(0); ; {
		fields, next, err := r.source.HScan(ctx, h.key, cursor, "", smallHashFields).Result()
		if err != nil && !isKeyChanged(err) {
			return err
		}
		if err != nil || next == 0 && i.isFirst && len(fields) == 0 {
			p.gone++
			return nil
		}
		if over, n := findOversizedField(fields); over != nil {
			p.rejectKey(h.key, over, n)
			if i.isFirst {
				return nil
			}
			i.fields, i.drop = nil, true
			return p.appendItem(i, send)
		}
		if err := p.appendFields(&i, fields, send); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// appendFields puts fields of a hash into the part, in pieces of no more than maxChunkBytes or one
// field: one request with all of them could be larger than the target reads. i is the piece
// that comes next.
func (p *chunk) appendFields(i *item, fields []string, send func() error) error {
	for len(fields) > 0 { // a page may be empty
		n, bytes := 0, 0
		for n < len(fields) && (n == 0 || bytes+len(fields[n])+len(fields[n+1]) <= maxChunkBytes) {
			bytes += len(fields[n]) + len(fields[n+1])
			n += 2
		}
		i.fields, fields = fields[:n], fields[n:]
		if err := p.appendItem(*i, send); err != nil {
			return err
		}
		i.isFirst = false
	}
	return nil
}

// appendItem puts an item into the part, and hands the part on when it is full.
func (p *chunk) appendItem(i item, send func() error) error {
	p.items = append(p.items, i)
	if p.bytes += i.sizeBytes(); p.bytes < maxChunkBytes {
		return nil
	}
	return send()
}

// isKeyChanged reports whether the error is that a key is no longer what it was, or is gone.
func isKeyChanged(err error) bool {
	return errors.Is(err, redis.Nil) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// sizeLimit is one of Cleave that Redis does not have. A request over it makes a server close the
// connection, because it does not read what is behind: so it is not sent.
type sizeLimit struct {
	subject  string
	maxBytes int64
}

var (
	keyLimit        = sizeLimit{"a name", command.MaxKeyBytes}
	valueLimit      = sizeLimit{"a value", command.MaxValueBytes}
	fieldLimit      = sizeLimit{"a field's name", command.MaxKeyBytes}
	fieldValueLimit = sizeLimit{"a field's value", command.MaxValueBytes}
)

// explainLeftOut is the reason to leave out a key, the same for each that is over the limit.
func (l *sizeLimit) explainLeftOut() string {
	return fmt.Sprintf("with %s over %s", l.subject, output.Bytes(l.maxBytes))
}

// formatFailure is the reason with the size of one.
func (l *sizeLimit) formatFailure(bytes int64) string {
	return fmt.Sprintf("too large: %s of %d bytes, at most %d", l.subject, bytes, l.maxBytes)
}

// findOversizedField returns the limit that one of the fields is over, and its size; nil if none is.
func findOversizedField(fields []string) (over *sizeLimit, bytes int64) {
	for i := 0; i+1 < len(fields); i += 2 {
		if n := int64(len(fields[i])); n > fieldLimit.maxBytes {
			return &fieldLimit, n
		}
		if n := int64(len(fields[i+1])); n > fieldValueLimit.maxBytes {
			return &fieldValueLimit, n
		}
	}
	return nil, 0
}

// hyperLogLogType is a type that Redis keeps in strings: TYPE returns string, and PFCOUNT knows it by its
// first bytes. Cleave has none of the commands that give these bytes a meaning.
const hyperLogLogType = "hyperloglog"

const (
	hllHeaderBytes = 16
	// hllDenseBytes is the size of one with all of its 16,384 registers of six bits.
	hllDenseBytes = hllHeaderBytes + 16384*6/8
)

// isHyperLogLog reports whether a string of so many bytes, of which at least the first 16 are
// given, is one by the rules of Redis: its magic, dense with all registers or sparse, and no bits
// in what is reserved.
func isHyperLogLog(head string, size int64) bool {
	if size < hllHeaderBytes || len(head) < hllHeaderBytes || !strings.HasPrefix(head, "HYLL") || head[5:8] != "\x00\x00\x00" {
		return false
	}
	dense, sparse := head[4] == 0, head[4] == 1
	return sparse || dense && size == hllDenseBytes
}

// skipHyperLogLogs finds the HyperLogLogs of a dry run, which reads no values.
func (r *importRun) skipHyperLogLogs(ctx context.Context, texts []measuredKey, p *chunk) error {
	heads := make([]*redis.StringCmd, len(texts))
	_, err := r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, t := range texts {
			heads[i] = pipe.GetRange(ctx, t.key, 0, hllHeaderBytes-1)
		}
		return nil
	})
	if err != nil && !isKeyChanged(err) {
		return err
	}
	for i, c := range heads {
		if c.Err() == nil && isHyperLogLog(c.Val(), texts[i].size) {
			p.strings--
			p.skipKey(texts[i].key, hyperLogLogType)
		}
	}
	return nil
}
