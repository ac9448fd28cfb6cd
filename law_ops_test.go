package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/key"
)

// operations are what a keyspace and a transaction both can do.
type operations interface {
	Get(key []byte) ([]byte, error)
	GetMany(keys ...[]byte) ([][]byte, error)
	Item(key []byte) (Item, error)
	Exists(key []byte) (bool, error)
	SetWith(key, value []byte, o SetOptions) error
	Delete(keys ...[]byte) (int, error)
	AddWith(key []byte, delta int64, o AddOptions) (int64, error)
	Expire(key []byte, after time.Duration) (bool, error)
	Persist(key []byte) (bool, error)
	HGet(key, name []byte) ([]byte, error)
	HGetAll(key []byte) ([]Field, error)
	HLen(key []byte) (int, error)
	HScan(key, after []byte, limit int) ([]Field, []byte, error)
	HSet(key []byte, fields ...Field) (int, error)
	HDel(key []byte, names ...[]byte) (int, error)
	HAdd(key, name []byte, delta int64) (int64, error)
	Scan(o ScanOptions) ([]Item, error)
}

// keyspaceOps are those of a keyspace.
type keyspaceOps struct{ ks *Keyspace }

func (d keyspaceOps) Get(key []byte) ([]byte, error)           { return d.ks.Get(ctx, key) }
func (d keyspaceOps) GetMany(keys ...[]byte) ([][]byte, error) { return d.ks.GetMany(ctx, keys...) }
func (d keyspaceOps) Item(key []byte) (Item, error)            { return d.ks.Item(ctx, key) }
func (d keyspaceOps) Exists(key []byte) (bool, error)          { return d.ks.Exists(ctx, key) }
func (d keyspaceOps) SetWith(key, value []byte, o SetOptions) error {
	if o == (SetOptions{}) {
		return d.ks.Set(ctx, key, value)
	}
	_, err := d.ks.SetWith(ctx, key, value, o)
	return err
}
func (d keyspaceOps) Delete(keys ...[]byte) (int, error) { return d.ks.Delete(ctx, keys...) }
func (d keyspaceOps) AddWith(key []byte, delta int64, o AddOptions) (int64, error) {
	if o == (AddOptions{}) {
		return d.ks.Add(ctx, key, delta)
	}
	return d.ks.AddWith(ctx, key, delta, o)
}
func (d keyspaceOps) Expire(key []byte, after time.Duration) (bool, error) {
	return d.ks.Expire(ctx, key, after)
}
func (d keyspaceOps) Persist(key []byte) (bool, error)      { return d.ks.Persist(ctx, key) }
func (d keyspaceOps) HGet(key, name []byte) ([]byte, error) { return d.ks.HGet(ctx, key, name) }
func (d keyspaceOps) HGetAll(key []byte) ([]Field, error)   { return d.ks.HGetAll(ctx, key) }
func (d keyspaceOps) HLen(key []byte) (int, error)          { return d.ks.HLen(ctx, key) }
func (d keyspaceOps) HScan(key, after []byte, limit int) ([]Field, []byte, error) {
	return d.ks.HScanPage(ctx, key, after, limit)
}
func (d keyspaceOps) HSet(key []byte, fields ...Field) (int, error) {
	return d.ks.HSet(ctx, key, fields...)
}
func (d keyspaceOps) HDel(key []byte, names ...[]byte) (int, error) {
	return d.ks.HDel(ctx, key, names...)
}
func (d keyspaceOps) HAdd(key, name []byte, delta int64) (int64, error) {
	return d.ks.HAdd(ctx, key, name, delta)
}
func (d keyspaceOps) Scan(o ScanOptions) (items []Item, err error) {
	for item, err := range d.ks.Scan(ctx, o) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// txnOps are those of a transaction.
type txnOps struct {
	tx *Txn
	ks *Keyspace
}

func (d txnOps) Get(key []byte) ([]byte, error)           { return d.tx.Get(d.ks, key) }
func (d txnOps) GetMany(keys ...[]byte) ([][]byte, error) { return d.tx.GetMany(d.ks, keys...) }
func (d txnOps) Item(key []byte) (Item, error)            { return d.tx.Item(d.ks, key) }
func (d txnOps) Exists(key []byte) (bool, error)          { return d.tx.Exists(d.ks, key) }
func (d txnOps) SetWith(key, value []byte, o SetOptions) error {
	return d.tx.SetWith(d.ks, key, value, o)
}
func (d txnOps) Delete(keys ...[]byte) (int, error) { return d.tx.Delete(d.ks, keys...) }
func (d txnOps) AddWith(key []byte, delta int64, o AddOptions) (int64, error) {
	return d.tx.AddWith(d.ks, key, delta, o)
}
func (d txnOps) Expire(key []byte, after time.Duration) (bool, error) {
	return d.tx.Expire(d.ks, key, after)
}
func (d txnOps) Persist(key []byte) (bool, error)      { return d.tx.Persist(d.ks, key) }
func (d txnOps) HGet(key, name []byte) ([]byte, error) { return d.tx.HGet(d.ks, key, name) }
func (d txnOps) HGetAll(key []byte) ([]Field, error)   { return d.tx.HGetAll(d.ks, key) }
func (d txnOps) HLen(key []byte) (int, error)          { return d.tx.HLen(d.ks, key) }
func (d txnOps) HScan(key, after []byte, limit int) ([]Field, []byte, error) {
	return d.tx.HScanPage(d.ks, key, after, limit)
}
func (d txnOps) HSet(key []byte, fields ...Field) (int, error) {
	return d.tx.HSet(d.ks, key, fields...)
}
func (d txnOps) HDel(key []byte, names ...[]byte) (int, error) { return d.tx.HDel(d.ks, key, names...) }
func (d txnOps) HAdd(key, name []byte, delta int64) (int64, error) {
	return d.tx.HAdd(d.ks, key, name, delta)
}
func (d txnOps) Scan(o ScanOptions) (items []Item, err error) {
	for item, err := range d.tx.Scan(d.ks, o) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// What can be done to a keyspace can be done in a transaction, with the same
// arguments, and what writes in a batch. What is left out has its reason here.
func TestKeyspacesTransactionsAndBatchesReadAlike(t *testing.T) {
	keyspace, txn, batch := reflect.TypeFor[*Keyspace](), reflect.TypeFor[*Txn](), reflect.TypeFor[*Batch]()
	notInTxn := []string{
		"Name", "Options", "DB", "After", // of the keyspace itself
		"Locate",   // of the map, which no transaction sees another state of
		"Dropped",  // something to wait for, which a transaction does not
		"AddOnce",  // a transaction has no request
		"ScanPage", // a transaction has one state anyway: Scan
		// Of memory, not of data.
		"Pin", "PinFields", "Unpin", "UnpinFields", "CacheMetrics",
	}
	writes := []string{"Set", "SetWith", "Delete", "Add", "AddWith", "Expire", "Persist", "HSet", "HDel", "HAdd"}
	for i := range keyspace.NumMethod() {
		m := keyspace.Method(i)
		if slices.Contains(notInTxn, m.Name) {
			continue
		}
		checkSameArguments(t, "Txn", m, txn)
		if slices.Contains(writes, m.Name) {
			checkSameArguments(t, "Batch", m, batch)
		}
	}
}

// checkSameArguments compares the arguments behind the context and behind the keyspace.
func checkSameArguments(t *testing.T, what string, m reflect.Method, in reflect.Type) {
	other, ok := in.MethodByName(m.Name)
	if !ok {
		t.Errorf("a %s lacks %s", what, m.Name)
		return
	}
	if m.Type.NumIn() != other.Type.NumIn() || m.Type.IsVariadic() != other.Type.IsVariadic() {
		t.Errorf("%s.%s is %v, that of a keyspace %v", what, m.Name, other.Type, m.Type)
		return
	}
	for i := 2; i < m.Type.NumIn(); i++ {
		if m.Type.In(i) != other.Type.In(i) {
			t.Errorf("%s.%s is %v, that of a keyspace %v", what, m.Name, other.Type, m.Type)
		}
	}
}

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

// checkAgrees compares an answer with the model's.
func checkAgrees[T comparable](t *rapid.T, what string, got T, err error, want T, wantErr error) {
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
		o.After = ks.keyspace.AppendPosition(nil, lawKey(t))
	}
	if rapid.Bool().Draw(t, "limited") {
		o.Limit = rapid.IntRange(1, 6).Draw(t, "limit")
	}
	return o
}

// compareScan scans both.
func (l *law) compareScan(t *rapid.T, s operations, ks *Keyspace, m *model, o ScanOptions) {
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
		it := m.liveItem(want[i])
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
	l.compareScan(t, keyspaceOps{ks}, ks, m, o)
	for key, it := range m.items {
		if !it.hash {
			continue
		}
		got, err := ks.HGetAll(ctx, []byte(key))
		want, wantErr := m.hgetall(key)
		checkAgrees(t, "hgetall of "+key, slices.EqualFunc(got, want, sameField), err, true, wantErr)
	}
}

// readItem reads a key with its version, which grows if anything was written.
func (l *law) readItem(t *rapid.T, ks *Keyspace, m *model) {
	key := lawKey(t)
	c := drawContext(t)
	got, err := ks.Item(c, key)
	if c.Err() != nil {
		checkAgrees(t, "item", 0, err, 0, context.Canceled)
		return
	}
	want, wantErr := m.get(string(key))
	checkAgrees(t, "item", string(got.Value), err, want, wantErr)
	if err == nil {
		l.recordVersion(t, ks, key, got.Version)
	}
}

// recordVersion notes a version of a key.
func (l *law) recordVersion(t *rapid.T, ks *Keyspace, key []byte, version uint64) {
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
	checkAgrees(t, "set if version", 0, err, 0, m.set(string(key), "cas", o, same))
	if err == nil {
		if got <= version || got <= l.versions[at] {
			t.Fatalf("version %d follows %d", got, max(version, l.versions[at]))
		}
		l.versions[at] = got
	} else {
		l.did.Add("conflicts met", 1)
	}
}

// readPages reads everything page by page.
func (l *law) readPages(t *rapid.T, ks *Keyspace, m *model) {
	o := lawScan(t, ks)
	o.After, o.Limit = nil, rapid.IntRange(1, 4).Draw(t, "size")
	want := m.scan(ks, o)
	for {
		page, err := ks.ScanPage(ctx, o)
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

// runUpdate does several operations in a transaction, which may give up.
func (l *law) runUpdate(t *rapid.T, ks *Keyspace, m *model) {
	if !l.inOneStore(ks) {
		return
	}
	giveUp := rapid.IntRange(0, 4).Draw(t, "giveUp") == 0
	steps := rapid.IntRange(1, 8).Draw(t, "steps")
	var copied *model
	err := l.db.Update(ctx, func(tx *Txn) error {
		copied = m.clone() // it may run again: entries of an index are on other stores
		for range steps {
			l.step(t, txnOps{tx, ks}, ks, copied)
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

// runView sees one state while others write.
func (l *law) runView(t *rapid.T, ks *Keyspace, m *model) {
	if !l.inOneStore(ks) {
		return
	}
	before := m.clone()
	err := l.db.View(ctx, func(tx *Txn) error {
		if _, err := tx.Get(ks, []byte("none")); !errors.Is(err, ErrNotFound) { // takes the state
			t.Fatal(err)
		}
		l.step(t, keyspaceOps{ks}, ks, m)
		l.compareScan(t, txnOps{tx, ks}, ks, before, lawScan(t, ks))
		if err := tx.Set(ks, []byte("a"), nil); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("a write in a view: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A keyspace with a transactional index answers as one without, whatever is done and by
// which way, and the index is what the rows say at every moment.
func TestAStoreWithIndexesAnswersAsTheModelDoes(t *testing.T) {
	var did tally.Counts
	for range scaleRounds(1) {
		rapid.Check(t, func(t *rapid.T) {
			l := newLaw(t, true, &did)
			defer func() { _ = l.db.Close() }()
			t.Repeat(l.actions())
		})
	}
	did.Log(t, "restarts", "transactions", "keyspaces dropped", "keys expired", "batches", "batches refused", "batches repeated", "entries compared")
}

// extractAll is a function that makes entries of all that a row has.
func extractAll(r IndexRow) (entries []IndexEntry, _ error) {
	if r.Value != nil {
		entries = append(entries, IndexEntry{key.Tuple{"value", string(r.Value[:min(len(r.Value), 2)])}, r.Value})
	}
	for _, f := range r.Fields {
		entries = append(entries, IndexEntry{key.Tuple{"field", string(f.Name), len(f.Value)}, f.Value})
	}
	return entries, nil
}

// openIndex makes the index of a keyspace, or declares it again.
func (l *law) openIndex(t *rapid.T, name string) {
	if !l.indexed {
		return
	}
	ks, err := l.db.Keyspace(name)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := l.db.OpenIndex(ctx, IndexOptions{Name: "all", Keyspace: ks, Function: "everything", Extract: extractAll})
	if err == nil {
		err = ix.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compareIndex compares an index with what the rows of the same moment say.
func (l *law) compareIndex(t *rapid.T, name string) {
	if !l.indexed {
		return
	}
	ix, err := l.db.Index(name, "all")
	if err == nil {
		var n int
		n, err = saysAsRows(l.db, ix, extractAll)
		l.did.Add("entries compared", n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// saysAsRows compares an index with what a function makes of the rows of the same moment,
// and returns how many entries the index has.
func saysAsRows(db *DB, ix *Index, f func(IndexRow) ([]IndexEntry, error)) (n int, err error) {
	err = db.View(ctx, func(tx *Txn) error {
		want, err := recomputeEntries(tx, ix.Keyspace(), f)
		if err != nil {
			return err
		}
		var got []string
		for item, err := range tx.ScanIndex(ix, IndexScanOptions{}) {
			if err != nil {
				return err
			}
			got = append(got, sayEntry(item.Entry, item.Key, item.Value))
		}
		if n = len(got); !slices.Equal(got, want) {
			return fmt.Errorf("index %s of %s has\n%q, its rows say\n%q", ix.Name(), ix.Keyspace().Name(), got, want)
		}
		return nil
	})
	return n, err
}

// recomputeEntries returns the entries that rows should have, in their order.
func recomputeEntries(tx *Txn, ks *Keyspace, f func(IndexRow) ([]IndexEntry, error)) ([]string, error) {
	type entry struct{ sorts, says string }
	var all []entry
	for item, err := range tx.Scan(ks, ScanOptions{}) {
		if err != nil {
			return nil, err
		}
		row := IndexRow{Key: item.Key, Value: item.Value, Expires: item.Expires}
		if item.Value == nil {
			if row.Fields, err = tx.HGetAll(ks, item.Key); err != nil {
				return nil, err
			}
		}
		made, err := f(row)
		if err != nil {
			return nil, err
		}
		for _, e := range made {
			sorts, err := key.Encode(key.Tuple{e.Entry, item.Key})
			if err != nil {
				return nil, err
			}
			t, _ := key.Decode(sorts)
			all = append(all, entry{string(sorts), sayEntry(t[0], item.Key, e.Value)})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.sorts, b.sorts) })
	var says []string
	for _, e := range all {
		says = append(says, e.says)
	}
	return says, nil
}

func sayEntry(entry any, row, value []byte) string {
	return fmt.Sprintf("%v %q %d %.10q", entry, row, len(value), value)
}
