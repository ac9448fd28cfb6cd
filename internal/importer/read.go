package importer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// What is held in memory at a time.
const (
	// partBytes is how much is read before it is handed on.
	partBytes = 8 << 20
	// smallHash is how many fields are read at once; more come in pieces of so many.
	smallHash = 64
)

// item is a key to be written: a string, or a piece of a hash.
type item struct {
	key   string
	value string
	// fields are names and values in turn; nil for a string.
	fields []string
	// first tells that it is the first piece, which replaces what was there.
	first bool
	life
}

// life is how long a key had to live when it was asked for. A Duration holds no more than
// 292 years, and a lifetime may be longer.
type life struct {
	ms    int64
	asked time.Time // zero if it does not expire
}

// left is what of it is left, 0 if it does not expire.
func (l life) left(now time.Time) (ms int64, expired bool) {
	if l.asked.IsZero() {
		return 0, false
	}
	ms = l.ms - now.Sub(l.asked).Milliseconds()
	return ms, ms <= 0
}

func (i *item) bytes() int64 {
	n := len(i.key) + len(i.value)
	for _, f := range i.fields {
		n += len(f)
	}
	return int64(n)
}

// name is the key as it is told: one may be long.
func (i *item) name() string {
	if len(i.key) > 60 {
		return i.key[:60] + "…"
	}
	return i.key
}

// part is a piece of a page of the walk, with what was met in it.
type part struct {
	items []item
	bytes int64
	// keys were met, skipped by type, gone meanwhile.
	keys, gone int64
	skipped    map[string]int64
	// strings and hashes are counts of a dry run, which reads no values.
	strings, hashes int64
	// ends tells that the page ends with it, and next where the next begins.
	ends bool
	next uint64
}

// read walks the source and hands on parts.
func (r *run) read(ctx context.Context, parts chan<- part) error {
	for cursor := r.state.Cursor; ; {
		keys, next, err := r.source.Scan(ctx, cursor, r.Match, r.Page).Result()
		if err != nil {
			return err
		}
		p := &part{skipped: map[string]int64{}, keys: int64(len(keys))}
		send := func() error {
			select {
			case parts <- *p:
				*p = part{skipped: map[string]int64{}}
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := r.readPage(ctx, keys, p, send); err != nil {
			return err
		}
		p.ends, p.next = true, next
		if err := send(); err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}

// sized is a key with what decides how it is read.
type sized struct {
	key  string
	size int64 // bytes of a string, fields of a hash
	life
}

// readPage reads the values of a page.
func (r *run) readPage(ctx context.Context, keys []string, p *part, send func() error) error {
	if len(keys) == 0 {
		return nil
	}
	texts, hashes, err := r.sort(ctx, keys, p)
	if err != nil || r.DryRun {
		return err
	}
	if err := r.readStrings(ctx, texts, p, send); err != nil {
		return err
	}
	return r.readHashes(ctx, hashes, p, send)
}

// sort asks for types, lifetimes and sizes.
func (r *run) sort(ctx context.Context, keys []string, p *part) (texts, hashes []sized, err error) {
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
		s := sized{key: k}
		ms, err := ttls[i].Int64()
		if err != nil {
			return nil, nil, err
		}
		if ms >= 0 { // 0 in its last millisecond, below if it has none
			s.life = life{ms, now}
		}
		switch kind := types[i].Val(); kind {
		case "string":
			texts = append(texts, s)
		case "hash":
			hashes = append(hashes, s)
		case "none":
			p.gone++
		default:
			p.skipped[kind]++
		}
	}
	if r.DryRun {
		p.strings, p.hashes = int64(len(texts)), int64(len(hashes))
		return nil, nil, nil
	}
	return texts, hashes, r.measure(ctx, texts, hashes)
}

// measure asks how large they are.
func (r *run) measure(ctx context.Context, texts, hashes []sized) error {
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
	if err != nil && !changed(err) {
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
func (r *run) readStrings(ctx context.Context, texts []sized, p *part, send func() error) error {
	for len(texts) > 0 {
		n, bytes := 0, int64(0)
		for n < len(texts) && (n == 0 || bytes+texts[n].size <= partBytes) {
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
		if err != nil && !changed(err) {
			return err
		}
		for i, c := range cmds {
			if c.Err() != nil {
				p.gone++
				continue
			}
			if err := p.add(item{key: texts[i].key, value: c.Val(), first: true, life: texts[i].life}, send); err != nil {
				return err
			}
		}
		texts = texts[n:]
	}
	return nil
}

// readHashes reads small ones together and large ones in pieces.
func (r *run) readHashes(ctx context.Context, hashes []sized, p *part, send func() error) error {
	var small []sized
	for _, h := range hashes {
		switch {
		case h.size == 0:
			p.gone++
		case h.size <= smallHash:
			small = append(small, h)
		default:
			if err := r.readLargeHash(ctx, h, p, send); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(small, smallHash) {
		if err := r.readSmallHashes(ctx, some, p, send); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readSmallHashes(ctx context.Context, hashes []sized, p *part, send func() error) error {
	cmds := make([]*redis.MapStringStringCmd, len(hashes))
	_, err := r.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, h := range hashes {
			cmds[i] = pipe.HGetAll(ctx, h.key)
		}
		return nil
	})
	if err != nil && !changed(err) {
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
		if err := p.add(item{key: hashes[i].key, fields: fields, first: true, life: hashes[i].life}, send); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readLargeHash(ctx context.Context, h sized, p *part, send func() error) error {
	i := item{key: h.key, first: true, life: h.life}
	for cursor := uint64(0); ; {
		fields, next, err := r.source.HScan(ctx, h.key, cursor, "", smallHash).Result()
		if err != nil && !changed(err) {
			return err
		}
		if err != nil || next == 0 && i.first && len(fields) == 0 {
			p.gone++
			return nil
		}
		if i.fields = fields; len(fields) > 0 { // a page may be empty
			if err := p.add(i, send); err != nil {
				return err
			}
			i.first = false
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// add puts an item into the part, and hands the part on when it is full.
func (p *part) add(i item, send func() error) error {
	p.items = append(p.items, i)
	if p.bytes += i.bytes(); p.bytes < partBytes {
		return nil
	}
	return send()
}

// changed tells that a key is not any more what it was, or is none.
func changed(err error) bool {
	return errors.Is(err, redis.Nil) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}
