package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

var ctx = context.Background()

// scaleRounds multiplies what random tests do.
func scaleRounds(n int) int { return tally.Rounds(n, 15) }

// hangTimeout is how long something may take that hangs if it is wrong.
func hangTimeout() time.Duration { return eventually.Limit() }

// hangContext returns a context that ends when something hangs.
func hangContext(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(ctx, hangTimeout())
	t.Cleanup(cancel)
	return c
}

func testSeed(t *testing.T) uint64 { return tally.Seed(t, "./watch") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkRefused(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// openMemory opens a store in memory, which is closed with the test.
func openMemory(t testing.TB, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, cleave.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

// sharedStore is a store of two that tests share: to open one takes long. It is never closed.
var sharedStore = sync.OnceValues(func() (*cleave.DB, error) { return cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4}) })

var keyspaceCount atomic.Int64

// newKeyspaceAndHub returns a new keyspace of the common store, and a hub.
func newKeyspaceAndHub(t testing.TB, kind cleave.Kind) (*cleave.Keyspace, *Hub) {
	t.Helper()
	db, err := sharedStore()
	must(t, err)
	return createKeyspace(t, db, fmt.Sprint("space", keyspaceCount.Add(1)), kind), New(db)
}

func createKeyspace(t testing.TB, db *cleave.DB, name string, kind cleave.Kind) *cleave.Keyspace {
	t.Helper()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: kind})
	must(t, err)
	return ks
}

func watchAll(t testing.TB, h *Hub, ks *cleave.Keyspace, o Options) *Watcher {
	t.Helper()
	w, err := h.Watch(Target{Keyspace: ks}, o)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func numberKey(i int) []byte { return fmt.Appendf(nil, "%04d", i) }

// mirror is a copy made of events.
type mirror struct {
	texts  map[string]string
	hashes map[string]map[string]string
	// versions are the newest that were reported, of keys.
	versions map[string]uint64
}

func newMirror() *mirror {
	return &mirror{texts: map[string]string{}, hashes: map[string]map[string]string{}, versions: map[string]uint64{}}
}

func (m *mirror) clone() *mirror {
	c := newMirror()
	c.texts = maps.Clone(m.texts)
	for key, h := range m.hashes {
		c.hashes[key] = maps.Clone(h)
	}
	return c
}

// apply takes an event in. It returns an error if a key goes back in time.
func (m *mirror) apply(e Event) error {
	key := string(e.Key)
	if e.Field != nil {
		switch {
		case e.Kind == Deleted:
			delete(m.hashes[key], string(e.Field))
		case e.Kind == Set:
			if m.hashes[key] == nil {
				m.hashes[key] = map[string]string{}
			}
			m.hashes[key][string(e.Field)] = string(e.Item.Value)
		}
		return nil
	}
	switch e.Kind {
	case Reset:
		clear(m.texts)
		clear(m.hashes)
	case Deleted:
		delete(m.texts, key)
		delete(m.hashes, key)
	case Set, Created:
		if e.Item.Version != 0 && e.Item.Version < m.versions[key] {
			return fmt.Errorf("version %d of %s is told after %d", e.Item.Version, key, m.versions[key])
		}
		m.versions[key] = e.Item.Version
		delete(m.texts, key)
		switch {
		case e.Item.Value != nil:
			delete(m.hashes, key)
			m.texts[key] = string(e.Item.Value)
		case e.Kind == Created:
			m.hashes[key] = map[string]string{}
		}
	}
	return nil
}

// restrictTo returns what a target has of a mirror.
func (m *mirror) restrictTo(t *Target) *mirror {
	c := m.clone()
	maps.DeleteFunc(c.texts, func(key, _ string) bool { return !t.hasKey([]byte(key)) })
	maps.DeleteFunc(c.hashes, func(key string, _ map[string]string) bool { return !t.hasKey([]byte(key)) })
	return c
}

// diffFrom returns how a mirror differs from another, or nothing.
func (m *mirror) diffFrom(other *mirror) (text string) {
	all := m.clone()
	maps.Copy(all.texts, other.texts)
	maps.Copy(all.hashes, other.hashes)
	for key := range all.texts {
		mine, ok1 := m.texts[key]
		theirs, ok2 := other.texts[key]
		if mine != theirs || ok1 != ok2 {
			text += fmt.Sprintf("%s is %q, and not %q. ", key, mine, theirs)
		}
	}
	for key := range all.hashes {
		if !maps.Equal(m.hashes[key], other.hashes[key]) || (m.hashes[key] == nil) != (other.hashes[key] == nil) {
			text += fmt.Sprintf("%s is %v, and not %v. ", key, m.hashes[key], other.hashes[key])
		}
	}
	return text[:min(len(text), 400)]
}

// readAll returns what a keyspace has, and its place in the feed.
func readAll(t testing.TB, ks *cleave.Keyspace) (*mirror, cleave.Cursor) {
	t.Helper()
	m := newMirror()
	var at cleave.Cursor
	must(t, ks.DB().View(ctx, func(tx *cleave.Txn) (err error) {
		for item, err := range tx.Scan(ks, cleave.ScanOptions{}) {
			must(t, err)
			if item.Value != nil {
				m.texts[string(item.Key)] = string(item.Value)
				continue
			}
			h := map[string]string{}
			fields, err := tx.HGetAll(ks, item.Key)
			must(t, err)
			for _, f := range fields {
				h[string(f.Name)] = string(f.Value)
			}
			m.hashes[string(item.Key)] = h
		}
		at, err = tx.Cursor()
		return err
	}))
	return m, at
}

// checkGoroutines fails the test if it leaves goroutines behind.
func checkGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if eventually.Within(hangTimeout(), func() bool { return runtime.NumGoroutine() <= before }) {
			return
		}
		stacks := make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if bytes.Contains(stacks, []byte("cleave/watch")) {
			t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks)
		}
	})
}

// writeRandom does something to one of some keys at random.
func writeRandom(ks *cleave.Keyspace, rng *rand.Rand, keys int) error {
	key := numberKey(rng.IntN(keys))
	var err error
	switch rng.IntN(8) {
	case 0, 1:
		_, err = ks.Delete(ctx, key)
	case 2, 3, 4:
		err = ks.Set(ctx, key, fmt.Append(nil, rng.Uint32()))
	case 5, 6:
		_, err = ks.HSet(ctx, key, cleave.Field{Name: fmt.Appendf(nil, "f%d", rng.IntN(4)), Value: fmt.Append(nil, rng.Uint32())}, cleave.Field{Name: []byte("g"), Value: []byte("x")})
	case 7:
		_, err = ks.HDel(ctx, key, []byte("g"), fmt.Appendf(nil, "f%d", rng.IntN(4)))
	}
	if errors.Is(err, cleave.ErrWrongType) {
		return nil
	}
	return err
}
