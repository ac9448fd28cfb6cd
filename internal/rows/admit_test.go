package rows

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// zipf draws numbers of which the i-th has a weight of 1/(i+1)^s.
type zipf struct {
	random *rand.Rand
	sums   []float64
}

func newZipf(r *rand.Rand, n int, s float64) *zipf {
	z := &zipf{random: r, sums: make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	return z
}

func (z *zipf) next() uint64 {
	return uint64(sort.SearchFloat64s(z.sums, z.random.Float64()*z.sums[len(z.sums)-1]))
}

// best is the share of the hottest n, which a cache of n rows could have at best.
func (z *zipf) best(n int) float64 { return z.sums[n-1] / z.sums[len(z.sums)-1] }

// readThrough reads a key as a store does, and tells whether it was known.
func readThrough(table *Table, n uint64, value []byte) bool {
	key := binary.BigEndian.AppendUint64([]byte("key/"), n)
	if _, state := table.Get(key, nil); state != Unknown {
		return true
	}
	table.Fill(table.Ticket(key), key, value, true)
	return false
}

// hitRate plays reads with the skew s over ten times as many rows as fit, of which one in
// every sweep is for a key that is asked for once, and returns the share of hits among the
// others, and the best that there is.
func hitRate(seed uint64, s float64, sweep int) (rate, best float64) {
	const bytes = 1 << 20
	value := make([]byte, 100)
	full := New(Options{Bytes: bytes})
	for i := range uint64(bytes / 100) {
		readThrough(full, i, value)
	}
	room := full.Metrics().Rows
	z := newZipf(rand.New(rand.NewPCG(seed, 0)), 10*room, s)
	table := New(Options{Bytes: bytes})
	once := uint64(10 * room)
	hits, count := 0, 0
	for i := range 40 * room {
		if sweep > 0 && i%sweep == 0 {
			readThrough(table, once, value)
			once++
			continue
		}
		hit := readThrough(table, z.next(), value)
		if i >= 20*room { // warm
			if count++; hit {
				hits++
			}
		}
	}
	return float64(hits) / float64(count), z.best(room)
}

func TestReadsThatComeOnceDoNotDriveOutHotRows(t *testing.T) {
	seed := rand.Uint64()
	for _, c := range []struct {
		s     float64
		sweep int
		least float64 // of the best
	}{{0.8, 0, 0.85}, {0.8, 3, 0.85}, {0.8, 2, 0.8}, {0.99, 0, 0.93}, {0.99, 3, 0.9}, {0.99, 2, 0.85}} {
		rate, best := hitRate(seed, c.s, c.sweep)
		t.Logf("skew %.2f, one in %d comes once: %.1f %% of the others are hits, %.1f at best", c.s, c.sweep, 100*rate, 100*best)
		if rate < c.least*best {
			t.Errorf("skew %.2f, one in %d comes once: %.3f are hits, want %.2f of %.3f (seed %d)", c.s, c.sweep, rate, c.least, best, seed)
		}
	}
}

func TestWhatFitsIsAllAdmitted(t *testing.T) {
	table := New(Options{Bytes: 1 << 20, Stripes: 4})
	value := make([]byte, 100)
	for round := range 4 { // three quarters of the room, in no order
		misses := 0
		for i := range uint64(4500) {
			if !readThrough(table, i*0x9e3779b97f4a7c15, value) {
				misses++
			}
		}
		if round > 1 && misses > 0 {
			t.Errorf("round %d: %d misses though there is room: %+v", round, misses, table.Metrics())
		}
	}
}

func TestClassesBeyondTheMostAreCountedTogether(t *testing.T) {
	table := New(Options{Bytes: 64 << 10, Class: func(key []byte) uint32 { return binary.BigEndian.Uint32(key) }})
	const classes = fewClasses + mostClasses + 100
	for class := range uint32(classes) {
		table.Ticket(binary.BigEndian.AppendUint32(nil, class))
	}
	for _, c := range []struct{ class, misses int }{{1, 1}, {fewClasses, 1}, {fewClasses + mostClasses - 1, 1}, {fewClasses + mostClasses, 0}, {0, 101}} {
		if got := table.Class(uint32(c.class)).Misses; got != uint64(c.misses) {
			t.Errorf("class %d has %d misses, want %d", c.class, got, c.misses)
		}
	}
	if m := table.Metrics(); m.Misses != classes {
		t.Errorf("%d misses, want %d", m.Misses, classes)
	}
}
