package rowcache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// world is a store in small: one publisher, one applier, readers that fill in
// what they did not find. A key's value is its version, which only grows.
type world struct {
	table     *Cache
	published []atomic.Uint64 // version whose Publish has returned
	state     []atomic.Uint64 // version behind the log
}

// encodeVersion writes a version in a length that changes with it, so that rows
// are overwritten, moved, and get blocks of their own.
func encodeVersion(version uint64) []byte {
	sizes := [...]int{8, 8, 40, 8, 200, 90, 900}
	v := make([]byte, sizes[version%uint64(len(sizes))])
	for i := 0; i+8 <= len(v); i += 8 { // torn values would show
		binary.LittleEndian.PutUint64(v[i:], version)
	}
	return v
}

func decodeVersion(v []byte) (uint64, error) {
	version := binary.LittleEndian.Uint64(v)
	for i := 8; i+8 <= len(v); i += 8 {
		if other := binary.LittleEndian.Uint64(v[i:]); other != version {
			return 0, fmt.Errorf("version %d torn by %d", version, other)
		}
	}
	return version, nil
}

// readKey does what the store does, and returns an error if it saw an old version.
func (w *world) readKey(k int, buffer []byte) ([]byte, error) {
	key := fmt.Appendf(nil, "key %d", k)
	floor := w.published[k].Load()
	v, state := w.table.Get(key, buffer[:0])
	switch state {
	case Present:
		version, err := decodeVersion(v)
		if err == nil && version < floor {
			err = fmt.Errorf("key %d: version %d after %d was published", k, version, floor)
		}
		return v, err
	case Absent:
		if floor > 0 {
			return v, fmt.Errorf("key %d: absent after version %d was published", k, floor)
		}
		return v, nil
	}
	ticket := w.table.NewTicket(key)
	version := w.state[k].Load()
	if version < floor {
		// Unknown means applied, and the state was read after that.
		return v, fmt.Errorf("key %d: version %d was published, not known, and the state has %d", k, floor, version)
	}
	if version == 0 {
		w.table.Fill(ticket, key, nil, false)
	} else {
		w.table.Fill(ticket, key, encodeVersion(version), true)
	}
	return v, nil
}

// publishVersions publishes versions in generations and hands each generation to an
// applier, which lags behind.
func (w *world) publishVersions(rng *rand.Rand, generations, perGeneration int) {
	type change struct {
		key     int
		version uint64
	}
	sealed := make(chan []change, 3)
	var applier sync.WaitGroup
	applier.Go(func() {
		gen := uint64(0)
		for changes := range sealed {
			gen++
			for _, c := range changes {
				w.state[c.key].Store(c.version)
			}
			w.table.SetApplied(gen)
			if gen%4 == 0 {
				w.table.Trim()
			}
		}
	})
	for gen := 1; gen <= generations; gen++ {
		var changes []change
		for range perGeneration {
			k := rng.IntN(len(w.published))
			version := w.published[k].Load() + 1
			key := fmt.Appendf(nil, "key %d", k)
			w.table.Publish(uint64(gen), key, encodeVersion(version), false)
			w.published[k].Store(version)
			changes = append(changes, change{k, version})
		}
		sealed <- changes
	}
	close(sealed)
	applier.Wait()
}

func TestConcurrentReadersNeverSeeAnOldVersion(t *testing.T) {
	const keys, readers = 2000, 3
	generations := 30
	if testing.Short() {
		generations = 15
	}
	seed := rand.Uint64()
	w := &world{
		table:     New(Options{Bytes: 256 << 10, Stripes: 4}),
		published: make([]atomic.Uint64, keys), state: make([]atomic.Uint64, keys),
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(r)))
			var buffer []byte
			for n := 0; !stop.Load(); n++ {
				var err error
				// Half the reads go to few keys, which so stay known.
				if buffer, err = w.readKey(rng.IntN(keys)%(1+n%2*keys+50), buffer); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				if n%5000 == 0 {
					w.table.DropRange([]byte("key 1"), []byte("key 2"))
					w.table.Metrics()
				}
			}
		})
	}
	w.publishVersions(rand.New(rand.NewPCG(seed, 99)), generations, 1000)
	stop.Store(true)
	wg.Wait()
	m := w.table.Metrics()
	if m.Hits == 0 || m.Misses == 0 || m.Evictions == 0 {
		t.Fatalf("seed %d: nothing was tried: %+v", seed, m)
	}
	for i := range w.table.stripes {
		if err := w.table.stripes[i].auditStripe(); err != nil {
			t.Fatalf("seed %d: stripe %d: %v", seed, i, err)
		}
	}
}
