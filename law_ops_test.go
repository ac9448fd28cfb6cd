package cleave

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// Keys that are prefixes of each other, with the bytes that positions escape.
// Some share a hash tag, so that a transaction on several stores finds two.
var (
	lawKeys   = []string{"", "{t}", "{t}a", "{t}a\x00", "{t}a\x00\x01", "{t}a\x01", "{t}b", "{t}\xff", "{t}\xff\xff", "q", "\x00", "z\x00"}
	lawFields = []string{"", "f", "f\x00\x01", "g", "\xff"}
	lawValues = []string{"", "x", "5", "-3", "007", "9223372036854775807", "-9223372036854775808"}
)

func lawKey(t *rapid.T) []byte { return []byte(rapid.SampledFrom(lawKeys).Draw(t, "key")) }

func lawField(t *rapid.T) []byte { return []byte(rapid.SampledFrom(lawFields).Draw(t, "field")) }

func lawValue(t *rapid.T) []byte {
	if rapid.IntRange(0, 19).Draw(t, "large") == 0 {
		return bytes.Repeat([]byte("v"), rapid.IntRange(1000, 90_000).Draw(t, "bytes")) // more than a segment has
	}
	return []byte(rapid.SampledFrom(lawValues).Draw(t, "value"))
}

func lawTTL(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(1, 30_000).Draw(t, "µs")) * time.Microsecond
}

func lawFieldValues(t *rapid.T) (fields []Field) {
	for range rapid.IntRange(1, 4).Draw(t, "fields") {
		fields = append(fields, Field{Name: lawField(t), Value: lawValue(t)})
	}
	return fields
}

// agree compares an answer with the model's.
func agree[T comparable](t *rapid.T, what string, got T, err error, want T, wantErr error) {
	t.Helper()
	if !errors.Is(err, wantErr) || wantErr == nil && (err != nil || got != want) {
		t.Fatalf("%s: %.40v, %v; the model says %.40v, %v", what, got, err, want, wantErr)
	}
}

func sameField(a, b Field) bool {
	return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value)
}

func lawSetOptions(t *rapid.T) (o SetOptions) {
	switch rapid.IntRange(0, 5).Draw(t, "condition") {
	case 0:
		o.IfAbsent = true
	case 1:
		o.IfPresent = true
	}
	switch rapid.IntRange(0, 3).Draw(t, "ttl") {
	case 0:
		o.TTL = lawTTL(t)
	case 1:
		o.KeepTTL = true
	}
	return o
}

// lawScan draws bounds, also some that exclude everything.
func lawScan(t *rapid.T, ks *Keyspace) (o ScanOptions) {
	o.Reverse = rapid.Bool().Draw(t, "reverse")
	o.KeysOnly = rapid.IntRange(0, 4).Draw(t, "keysOnly") == 0
	if ks.Options().Kind == Range {
		switch rapid.IntRange(0, 3).Draw(t, "bounds") {
		case 0:
			o.Start, o.End = lawKey(t), lawKey(t)
		case 1:
			o.Start = lawKey(t)
		case 2:
			o.Prefix = lawKey(t)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "after") == 0 {
		o.After = ks.space.AppendPosition(nil, lawKey(t))
	}
	if rapid.Bool().Draw(t, "limited") {
		o.Limit = rapid.IntRange(1, 6).Draw(t, "limit")
	}
	return o
}

// compare scans both.
func (l *law) compare(t *rapid.T, s operations, ks *Keyspace, m *model, o ScanOptions) {
	t.Helper()
	items, err := s.Scan(o)
	if err != nil {
		t.Fatal(err)
	}
	want := m.scan(ks, o)
	if o.Limit > 0 && len(want) > o.Limit {
		want = want[:o.Limit]
	}
	l.compareItems(t, items, want, m, o)
}

func (l *law) compareItems(t *rapid.T, items []Item, want []string, m *model, o ScanOptions) {
	t.Helper()
	if len(items) != len(want) {
		t.Fatalf("scan %+v: %d keys, want %q", o, len(items), want)
	}
	for i, item := range items {
		it := m.live(want[i])
		expires := int64(0)
		if !item.Expires.IsZero() {
			expires = item.Expires.UnixMilli()
		}
		switch {
		case string(item.Key) != want[i]:
			t.Fatalf("scan %+v: key %d is %q, want %q of %q", o, i, item.Key, want[i], want)
		case (it.hash || o.KeysOnly) != (item.Value == nil) || item.Value != nil && string(item.Value) != it.value:
			t.Fatalf("scan: %q is %.20q, want %.20q", item.Key, item.Value, it.value)
		case expires != it.expires:
			t.Fatalf("scan: %q expires at %d, want %d", item.Key, expires, it.expires)
		}
	}
}

// compareAll compares all keys with all their fields.
func (l *law) compareAll(t *rapid.T, ks *Keyspace, m *model, o ScanOptions) {
	l.compare(t, direct{ks}, ks, m, o)
	for key, it := range m.items {
		if !it.hash {
			continue
		}
		got, err := ks.HGetAll(ctx, []byte(key))
		want, wantErr := m.hgetall(key)
		agree(t, "hgetall of "+key, slices.EqualFunc(got, want, sameField), err, true, wantErr)
	}
}

// item reads a key with its version, which grows if anything was written.
func (l *law) item(t *rapid.T, ks *Keyspace, m *model) {
	key := lawKey(t)
	c := drawn(t)
	got, err := ks.Item(c, key)
	if c.Err() != nil {
		agree(t, "item", 0, err, 0, context.Canceled)
		return
	}
	want, wantErr := m.get(string(key))
	agree(t, "item", string(got.Value), err, want, wantErr)
	if err == nil {
		l.grows(t, ks, key, got.Version)
	}
}

// grows notes a version of a key.
func (l *law) grows(t *rapid.T, ks *Keyspace, key []byte, version uint64) {
	at := ks.Name() + "/" + string(key)
	if version < l.versions[at] || version == 0 {
		t.Fatalf("version %d of %q after %d", version, key, l.versions[at])
	}
	l.versions[at] = version
}

func (l *law) ifVersion(t *rapid.T, ks *Keyspace, m *model) {
	key := lawKey(t)
	at := ks.Name() + "/" + string(key)
	version := uint64(0)
	item, err := ks.Item(ctx, key)
	switch {
	case err == nil:
		version = item.Version
	case errors.Is(err, ErrWrongType):
		return
	}
	same := rapid.Bool().Draw(t, "same")
	o := SetOptions{IfVersion: true, Version: version}
	if !same {
		o.Version += 1 + uint64(rapid.IntRange(0, 3).Draw(t, "off"))
	}
	got, err := ks.SetWith(ctx, key, []byte("cas"), o)
	agree(t, "set if version", 0, err, 0, m.set(string(key), "cas", o, same))
	if err == nil {
		if got <= version || got <= l.versions[at] {
			t.Fatalf("version %d follows %d", got, max(version, l.versions[at]))
		}
		l.versions[at] = got
	} else {
		l.did.Add("conflicts met", 1)
	}
}

// page reads everything page by page.
func (l *law) page(t *rapid.T, ks *Keyspace, m *model) {
	o := lawScan(t, ks)
	o.After, o.Limit = nil, rapid.IntRange(1, 4).Draw(t, "size")
	want := m.scan(ks, o)
	for {
		page, err := ks.Scan(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		n := min(o.Limit, len(want))
		l.compareItems(t, page.Items, want[:n], m, o)
		if want = want[n:]; (page.Next != nil) != (len(want) > 0) {
			t.Fatalf("%d keys follow, but the page says %x", len(want), page.Next)
		}
		if page.Next == nil {
			return
		}
		o.After = page.Next
	}
}

var errGiveUp = errors.New("give up")

// update does several operations in a transaction, which may give up.
func (l *law) update(t *rapid.T, ks *Keyspace, m *model) {
	if !l.inOneStore(ks) {
		return
	}
	giveUp := rapid.IntRange(0, 4).Draw(t, "giveUp") == 0
	steps := rapid.IntRange(1, 8).Draw(t, "steps")
	var copied *model
	err := l.db.Update(ctx, func(tx *Txn) error {
		copied = m.clone() // it may run again: entries of an index are on other stores
		for range steps {
			l.step(t, inTxn{tx, ks}, ks, copied)
		}
		if giveUp {
			return errGiveUp
		}
		return nil
	})
	if giveUp && !errors.Is(err, errGiveUp) || !giveUp && err != nil {
		t.Fatalf("update: %v", err)
	}
	l.did.Add("transactions", 1)
	if !giveUp {
		m.items = copied.items
	}
}

// inOneStore skips transactions that could meet keys of several stores.
func (l *law) inOneStore(ks *Keyspace) bool {
	return len(l.disks) == 1 || ks.Options().Kind == Range
}

// view sees one state while others write.
func (l *law) view(t *rapid.T, ks *Keyspace, m *model) {
	if !l.inOneStore(ks) {
		return
	}
	before := m.clone()
	err := l.db.View(ctx, func(tx *Txn) error {
		if _, err := tx.Get(ks, []byte("none")); !errors.Is(err, ErrNotFound) { // takes the state
			t.Fatal(err)
		}
		l.step(t, direct{ks}, ks, m)
		l.compare(t, inTxn{tx, ks}, ks, before, lawScan(t, ks))
		if err := tx.Set(ks, []byte("a"), nil); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("a write in a view: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
