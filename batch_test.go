package cleave

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
)

// Each of these is known when the write is added. It is said at once, with the
// write and its key, and nothing of the batch happens.
func TestABadWriteIsRefusedWhenItIsAdded(t *testing.T) {
	db, other := openSmall(t, 1), openSmall(t, 1)
	ks, gone := db.Default(), rangeSpace(t, db, "gone")
	must(t, db.DropKeyspace(ctx, "gone"))
	key, longKey := []byte("k"), make([]byte, command.MaxKeyBytes+1)
	longValue := make([]byte, command.MaxValueBytes+1)
	for what, c := range map[string]struct {
		add  func(b *Batch)
		want error
		says string
	}{
		"a long key":                {func(b *Batch) { b.Set(ks, longKey, nil) }, ErrTooLarge, "…"},
		"a long key of Delete":      {func(b *Batch) { b.Delete(ks, longKey) }, ErrTooLarge, "16384"},
		"a long value":              {func(b *Batch) { b.Set(ks, key, longValue) }, ErrTooLarge, "value"},
		"a long field":              {func(b *Batch) { b.HSet(ks, key, Field{Name: longKey}) }, ErrTooLarge, "field"},
		"a long value of a field":   {func(b *Batch) { b.HSet(ks, key, Field{Value: longValue}) }, ErrTooLarge, "value"},
		"a long field of HDel":      {func(b *Batch) { b.HDel(ks, key, longKey) }, ErrTooLarge, "field"},
		"a long field of HAdd":      {func(b *Batch) { b.HAdd(ks, key, longKey, 1) }, ErrTooLarge, "field"},
		"no fields":                 {func(b *Batch) { b.HSet(ks, key) }, ErrOptions, "fields"},
		"no fields of HDel":         {func(b *Batch) { b.HDel(ks, key) }, ErrOptions, "fields"},
		"two conditions":            {func(b *Batch) { b.SetWith(ks, key, nil, SetOptions{IfAbsent: true, IfPresent: true}) }, ErrOptions, "one of"},
		"a negative TTL":            {func(b *Batch) { b.SetWith(ks, key, nil, SetOptions{TTL: -1}) }, ErrOptions, "TTL"},
		"a request of a write":      {func(b *Batch) { b.SetWith(ks, key, nil, SetOptions{Request: db.NewRequestID()}) }, ErrOptions, "Batch.Request"},
		"a keyspace that is gone":   {func(b *Batch) { b.Add(gone, key, 1) }, ErrNoKeyspace, "gone"},
		"a keyspace of another DB":  {func(b *Batch) { b.Set(other.Default(), key, nil) }, ErrOptions, "another DB"},
		"more keys than are taken":  {func(b *Batch) { addMany(b, ks, command.MaxTxnKeys) }, ErrTooLarge, "keys in a transaction"},
		"more bytes than are taken": {func(b *Batch) { b.Set(ks, key, longValue[1:]) }, ErrTooLarge, "transaction of"},
	} {
		t.Run(what, func(t *testing.T) {
			var b Batch
			b.Set(ks, []byte("before"), nil)
			must(t, b.Err())
			c.add(&b)
			checkRefused(t, "Err", b.Err(), c.want, c.says, "write ", "key ")
			n := b.Len()
			b.Set(ks, []byte("after"), nil)
			if b.Len() != n {
				t.Error("a batch that is refused takes more")
			}
			checkRefused(t, "Write", db.Write(ctx, &b), c.want, c.says)
			if page, err := ks.ScanPage(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 {
				t.Errorf("%d keys, %v: something was written", len(page.Items), err)
			}
			b.Reset()
			must(t, b.Err())
		})
	}
	var b Batch
	checkRefused(t, "no batch", db.Write(ctx, nil), ErrOptions)
	b.Set(ks, key, nil)
	checkRefused(t, "the wrong DB", other.Write(ctx, &b), ErrOptions, "another DB", `"k"`)
	var empty Batch
	must(t, db.Write(ctx, &empty))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, b := range []*Batch{&b, &empty} {
		if err := db.Write(ended, b); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
			t.Errorf("with an ended context: %v", err)
		}
	}
	mustClose(t, db)
	checkRefused(t, "a closed DB", db.Write(ctx, &b), ErrClosed)
}

func addMany(b *Batch, ks *Keyspace, n int) {
	for i := range n {
		b.Set(ks, numberKey(i), nil)
	}
}

func TestTheLargestBatchIsWritten(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "s")
	var b Batch
	addMany(&b, ks, command.MaxTxnKeys)
	must(t, db.Write(ctx, &b))
	n := 0
	for _, err := range ks.Scan(ctx, ScanOptions{KeysOnly: true}) {
		must(t, err)
		n++
	}
	if n != command.MaxTxnKeys || b.Len() != n {
		t.Errorf("%d keys of a batch of %d", n, b.Len())
	}
}

func TestABatchOverSeveralStoresIsOne(t *testing.T) {
	db := openSmall(t, 3)
	ks := db.Default()
	keys := keyPerStore(db)
	b := Batch{Request: db.NewRequestID()}
	for _, key := range keys {
		b.Add(ks, key, 1)
	}
	must(t, db.Write(ctx, &b))
	must(t, db.Write(ctx, &b)) // it was executed before
	b.Request = RequestID{}
	b.Add(ks, keys[1], 1)
	b.SetWith(ks, keys[2], nil, SetOptions{IfAbsent: true})
	checkRefused(t, "Write", db.Write(ctx, &b), ErrNotStored, "write 5", fmt.Sprintf("%q", keys[2]))
	b.Reset()
	b.HSet(ks, keys[1], Field{})
	b.Set(ks, keys[2], nil)
	checkRefused(t, "Write", db.Write(ctx, &b), ErrWrongType, "write 1", fmt.Sprintf("%q", keys[1]))
	values, err := ks.GetMany(ctx, keys...)
	must(t, err)
	for i := range keys {
		if string(values[i]) != "1" {
			t.Errorf("key %d is %q", i, values[i])
		}
	}
	if n, err := ks.Delete(ctx, keys[1], keys[2], []byte("none")); n != 2 || err != nil {
		t.Errorf("Delete: %d, %v", n, err)
	}
}

// A reader that sees one write of a batch sees all of it.
func TestABatchAppearsAtOnce(t *testing.T) {
	db := openSmall(t, 1)
	a, z := rangeSpace(t, db, "a"), rangeSpace(t, db, "z")
	var wg sync.WaitGroup
	rounds := scaleRounds(200)
	for w := range 2 {
		wg.Go(func() {
			var b Batch
			for i := range rounds {
				b.Reset()
				value := fmt.Appendf(nil, "%d of %d", i, w)
				b.Set(a, []byte("k"), value)
				b.Delete(a, []byte("other"))
				b.HSet(z, []byte("h"), Field{[]byte("f"), value})
				must(t, db.Write(ctx, &b))
			}
		})
	}
	for range rounds {
		must(t, db.View(ctx, func(tx *Txn) error {
			got, err := tx.Get(a, []byte("k"))
			also, err2 := tx.HGet(z, []byte("h"), []byte("f"))
			if err = errors.Join(err, err2); err != nil && !errors.Is(err, ErrNotFound) || string(got) != string(also) {
				t.Errorf("one is %q, the other %q: %v", got, also, err)
			}
			return nil
		}))
	}
	wg.Wait()
}

// A retry with the same request does nothing, also after a restart; after Reset
// it is another request.
func TestABatchWithARequestIsWrittenOnce(t *testing.T) {
	o := memoryOptions(1)
	db := mustOpen(t, o)
	b := Batch{Request: db.NewRequestID()}
	fill := func() {
		b.Add(db.Default(), []byte("n"), 5)
		b.HAdd(db.Default(), []byte("h"), []byte("f"), 5)
	}
	fill()
	must(t, db.Write(ctx, &b))
	must(t, db.Write(ctx, &b))
	mustClose(t, db)
	db = mustOpen(t, o)
	defer db.Close()
	again := Batch{Request: b.Request}
	again.Add(db.Default(), []byte("n"), 5)
	again.HAdd(db.Default(), []byte("h"), []byte("f"), 5)
	must(t, db.Write(ctx, &again))
	check := func(want string) {
		t.Helper()
		n, err := db.Default().Get(ctx, []byte("n"))
		f, err2 := db.Default().HGet(ctx, []byte("h"), []byte("f"))
		if errors.Join(err, err2) != nil || string(n) != want || string(f) != want {
			t.Errorf("%s and %s, %v: want %s", n, f, errors.Join(err, err2), want)
		}
	}
	check("5")
	b.Reset()
	if b.Request != (RequestID{}) || b.Len() != 0 {
		t.Errorf("Reset leaves %d writes of request %x", b.Len(), b.Request)
	}
	fill()
	must(t, db.Write(ctx, &b))
	check("10")
	b = Batch{Request: RequestID{1}}
	fill()
	checkRefused(t, "an old request", db.Write(ctx, &b), ErrRequestOld)
}

// openIdle opens a store in memory that does nothing by itself.
func openIdle(t testing.TB) *DB {
	o := memoryOptions(1)
	o.HousekeepInterval = -1
	db := mustOpen(t, o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// waitQueued returns when so many commands wait in the first store.
func waitQueued(t testing.TB, db *DB, n int) {
	t.Helper()
	waitUntil(t, "commands wait", func() bool { return db.Metrics().Stores[0].QueueDepth >= n })
}

// A caller that leaves before the answer may use the batch for something else at
// once: what was sent stays what it was.
func TestABatchThatWasLeftMayBeReused(t *testing.T) {
	db := openIdle(t)
	ks := rangeSpace(t, db, "s")
	var b Batch
	fill := func(round string) {
		for i := range 20 {
			b.Set(ks, fmt.Appendf(nil, "%s/%d", round, i), []byte(round))
			b.HSet(ks, fmt.Appendf(nil, "%s-hash/%d", round, i), Field{[]byte(round), []byte(round)})
		}
	}
	fill("warm")
	must(t, db.Write(ctx, &b))
	b.Reset()
	release := blockGroup(t, db.node.StoreHosts()[0].GroupHosts()[0])
	c, cancel := context.WithCancel(ctx)
	fill("left")
	go func() {
		waitQueued(t, db, 1)
		cancel()
	}()
	checkRefused(t, "Write", db.Write(c, &b), ErrUnknown)
	b.Reset()
	fill("next")
	next := make(chan error, 1)
	go func() { next <- db.Write(ctx, &b) }()
	waitQueued(t, db, 2)
	release()
	must(t, <-next)
	n := map[string]int{}
	for item, err := range ks.Scan(ctx, ScanOptions{}) {
		must(t, err)
		round, _, _ := strings.Cut(string(item.Key), "/")
		n[round]++
		value := item.Value
		if value == nil {
			round = strings.TrimSuffix(round, "-hash")
			value, err = ks.HGet(ctx, item.Key, []byte(round))
			must(t, err)
		}
		if string(value) != round {
			t.Errorf("%s is %s", item.Key, value)
		}
	}
	for _, round := range []string{"warm", "left", "next"} {
		if n[round] != 20 || n[round+"-hash"] != 20 {
			t.Errorf("%v: want 20 of each", n)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	db := openSmall(b, 1)
	ks := db.Default()
	const size = 1000
	keys := make([][]byte, size)
	for i := range keys {
		keys[i] = numberKey(i)
	}
	value := make([]byte, 100)
	b.Run("how=batch", func(b *testing.B) {
		var batch Batch
		b.ReportAllocs()
		for b.Loop() {
			batch.Reset()
			for _, key := range keys {
				batch.Set(ks, key, value)
			}
			must(b, db.Write(ctx, &batch))
		}
	})
	b.Run("how=update", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(b, db.Update(ctx, func(tx *Txn) error {
				for _, key := range keys {
					must(b, tx.Set(ks, key, value))
				}
				return nil
			}))
		}
	})
}
