package rowcache

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// zipfDist draws numbers of which the i-th has a weight of 1/(i+1)^s.
type zipfDist struct {
	random *rand.Rand
	sums   []float64
}

func newZipfDist(r *rand.Rand, n int, s float64) *zipfDist {
	z := &zipfDist{random: r, sums: make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	return z
}

func (z *zipfDist) next() uint64 {
	return uint64(sort.SearchFloat64s(z.sums, z.random.Float64()*z.sums[len(z.sums)-1]))
}

// bestHitRate is the share of the hottest n, which a cache of n rows could have at best.
func (z *zipfDist) bestHitRate(n int) float64 { return z.sums[n-1] / z.sums[len(z.sums)-1] }

// readThrough reads a key as a store does, and reports whether it was known.
func readThrough(table *Cache, n uint64, value []byte) bool {
	key := binary.BigEndian.AppendUint64([]byte("key/"), n)
	if _, state := table.Get(key, nil); state != Unknown {
		return true
	}
	table.Fill(table.NewTicket(key), key, value, true)
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
	z := newZipfDist(rand.New(rand.NewPCG(seed, 0)), 10*room, s)
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
	return float64(hits) / float64(count), z.bestHitRate(room)
}

func TestReadsThatComeOnceDoNotDriveOutHotRows(t *testing.T) {
	seed := rand.Uint64()
	cases := []struct {
		s     float64
		sweep int
		least float64 // of the best
	}{{0.8, 3, 0.85}, {0.99, 0, 0.93}, {0.99, 2, 0.85}, {0.8, 0, 0.85}, {0.8, 2, 0.8}, {0.99, 3, 0.9}}
	for _, c := range cases[:tally.Size(len(cases), 3)] {
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
	table := New(Options{Bytes: 64 << 10, ClassOf: func(key []byte) uint32 { return binary.BigEndian.Uint32(key) }})
	const classes = maxDenseClasses + maxSparseClasses + 100
	for class := range uint32(classes) {
		table.NewTicket(binary.BigEndian.AppendUint32(nil, class))
	}
	for _, c := range []struct{ class, misses int }{{1, 1}, {maxDenseClasses, 1}, {maxDenseClasses + maxSparseClasses - 1, 1}, {maxDenseClasses + maxSparseClasses, 0}, {0, 101}} {
		if got := table.ClassMetrics(uint32(c.class)).Misses; got != uint64(c.misses) {
			t.Errorf("class %d has %d misses, want %d", c.class, got, c.misses)
		}
	}
	if m := table.Metrics(); m.Misses != classes {
		t.Errorf("%d misses, want %d", m.Misses, classes)
	}
}

// fillRange publishes so many rows of 1000 bytes under a prefix, all of them applied.
func fillRange(tb *Cache, prefix string, n int) {
	for i := range n {
		tb.Publish(1, fmt.Appendf(nil, "%s%06d", prefix, i), make([]byte, 1000), false)
	}
	tb.SetApplied(1)
}

func TestTable_Forget_KeepsWhatIsAbsentKnown(t *testing.T) {
	tb := New(Options{Bytes: 1 << 20})
	tb.MarkComplete()
	fillRange(tb, "a", 100)
	fillRange(tb, "b", 100)
	old := tb.NewTicket([]byte("a none"))
	tb.DropDeletedRange([]byte("a"), []byte("b"))
	if tb.Fill(old, []byte("a none"), nil, true) {
		t.Error("what was read before was filled in")
	}
	if m := tb.Metrics(); m.Rows != 100 {
		t.Errorf("%d rows are left, want 100", m.Rows)
	}
	for key, want := range map[string]State{"a000001": Absent, "b000001": Present, "c": Absent} {
		if _, got := tb.Get([]byte(key), nil); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	tb.Publish(2, []byte("a000001"), []byte("again"), false)
	if v, got := tb.Get([]byte("a000001"), nil); got != Present || string(v) != "again" {
		t.Errorf("a row that came later is %v %q", got, v)
	}
}

func TestTable_ReleaseFree_GivesTheSlabBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux takes pages back")
	}
	const rows = 60_000
	tb := New(Options{Bytes: 128 << 20})
	fillRange(tb, "a", rows)
	debug.FreeOSMemory()
	held, resident := tb.Metrics().SlabBytes, readResidentBytes(t)
	if held < rows*1000 {
		t.Fatalf("%d rows of 1000 bytes take %d bytes", rows, held)
	}
	tb.DropDeletedRange([]byte("a"), []byte("b"))
	given := tb.ReclaimFree()
	if now := tb.Metrics().SlabBytes; now != held-given || now > held/2 {
		t.Errorf("the slab held %d bytes, has given back %d and holds %d", held, given, now)
	}
	if now := readResidentBytes(t); resident-now < given/2 {
		t.Errorf("of %d bytes that were given back the system has got %d", given, resident-now)
	}
	fillRange(tb, "a", rows) // what was given back is taken again
	for i := range rows {
		if v, got := tb.Get(fmt.Appendf(nil, "a%06d", i), nil); got != Present || len(v) != 1000 {
			t.Fatalf("row %d is %v of %d bytes", i, got, len(v))
		}
	}
	if again := tb.Metrics().SlabBytes; again > held+maxPieceBytes {
		t.Errorf("the slab held %d bytes, and holds %d for as many rows", held, again)
	}
}

// readResidentBytes is what of the process is in memory.
func readResidentBytes(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
