package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// rowCounter is a Reader that counts the rows that it was asked for.
type rowCounter struct {
	keys   []string
	values map[string][]byte
	visits int
}

func (c *rowCounter) Get(key, dst []byte) ([]byte, bool, error) {
	c.visits++
	v, ok := c.values[string(key)]
	return append(dst, v...), ok, nil
}

func (c *rowCounter) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	from, to := sort.SearchStrings(c.keys, string(start)), sort.SearchStrings(c.keys, string(end))
	for i := from; i < to; i++ {
		at := i
		if reverse {
			at = to - 1 - (i - from)
		}
		c.visits++
		if !visit([]byte(c.keys[at]), c.values[c.keys[at]]) {
			return nil
		}
	}
	return nil
}

// newHashRows returns a state with a hash of fields, and rows of others that are left of a deleted one.
func newHashRows(t *testing.T, fields, dead []string) *rowCounter {
	t.Helper()
	s := newMemoryStore()
	e := NewEnv(s)
	write := func(names []string) {
		for some := range slices.Chunk(names, 5000) {
			e.Begin(effect.Header{ClockMS: 1}, uint64(len(s.rows)+1))
			c := &HSet{Key: positionOf("h")}
			for _, n := range some {
				c.Fields = append(c.Fields, FieldValue{[]byte(n), []byte("v" + n)})
			}
			if r := e.Do(c); r.Err != nil {
				t.Fatal(r.Err)
			}
			s.applyEffects(t, e.Effects().Bytes())
		}
	}
	if len(dead) > 0 {
		write(dead)
		e.Begin(effect.Header{ClockMS: 1}, uint64(len(s.rows)+1))
		e.Do(&Delete{Keys: []partition.Position{positionOf("h")}})
		s.applyEffects(t, e.Effects().Bytes())
	}
	write(fields)
	c := &rowCounter{values: map[string][]byte{}}
	for k, v := range s.rows {
		c.keys, c.values[k] = append(c.keys, k), []byte(v)
	}
	slices.Sort(c.keys)
	return c
}

// drawFields draws fields one by one, and returns how often each came and how many rows a draw has looked at.
func drawFields(t *testing.T, from *rowCounter, n int) (times map[string]int, visits int) {
	t.Helper()
	e, random := NewEnv(from), rand.New(rand.NewPCG(1, 2))
	from.visits, times = 0, map[string]int{}
	for range n {
		e.Begin(effect.Header{ClockMS: 1}, 1<<40)
		r := e.Do(&HSample{Key: positionOf("h"), Draws: 1, WithValues: true, Rand: random.Uint64})
		if r.Err != nil || r.More || len(r.Items) != 1 || !bytes.Equal(r.Items[0].Value, append([]byte("v"), r.Items[0].Field...)) {
			t.Fatalf("%+v", r)
		}
		times[string(r.Items[0].Field)]++
	}
	return times, from.visits / n
}

// A draw looks at some hundred rows, however many there are, and all fields are about equally likely
// where names spread evenly below their prefixes.
func TestHSample_OfALargeHash_IsFairAndLooksAtFewRows(t *testing.T) {
	const n, draws = 20_000, 1000
	random := rand.New(rand.NewPCG(3, 4))
	shapes := map[string]func(i int) string{
		"numbers":        func(i int) string { return fmt.Sprintf("field:%d", i) },
		"padded numbers": func(i int) string { return fmt.Sprintf("%08d", i) },
		"digests":        func(int) string { return fmt.Sprintf("%016x", random.Uint64()) },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for i := range n {
				fields = append(fields, shape(i))
			}
			times, visits := drawFields(t, newHashRows(t, fields, nil), draws)
			if visits > n/20 {
				t.Errorf("a draw looks at %d rows", visits)
			}
			slices.Sort(fields)
			const parts = 10
			for i := range parts {
				got := 0
				for _, f := range fields[i*n/parts : (i+1)*n/parts] {
					got += times[f]
				}
				if want := draws / parts; got < want/2 || got > want*2 {
					t.Errorf("of 100 draws %d are of part %d of the fields", got, i)
				}
			}
			for f, got := range times {
				if got > 10 {
					t.Errorf("%q came %d times of %d", f, got, draws)
				}
			}
		})
	}
}

// Rows of a deleted hash are never drawn, though they are among those of the hash.
func TestHSample_OfUnevenNames_FindsNoDeadRow(t *testing.T) {
	var fields, dead []string
	for i := range 3000 {
		fields = append(fields, fmt.Sprintf("crowded:%04d", i), string(bytes.Repeat([]byte{0xff}, 1+i%40))+fmt.Sprint(i))
		dead = append(dead, fmt.Sprintf("crowded:%04d-dead", i), fmt.Sprintf("dead:%d", i))
	}
	fields = append(fields, "", "\x00", "crowded:", "sparse", "\xff", "\xff\xff")
	times, _ := drawFields(t, newHashRows(t, fields, dead), 2000)
	alive := map[string]bool{}
	for _, f := range fields {
		alive[f] = true
	}
	for f := range times {
		if !alive[f] {
			t.Errorf("%q is of a deleted hash", f)
		}
	}
	if len(times) < 1000 {
		t.Errorf("2000 draws have found %d fields", len(times))
	}
}

func TestHSample_OfFewFields_LeavesThemToHGetAll(t *testing.T) {
	from := newHashRows(t, []string{"a", "b"}, nil)
	e := NewEnv(from)
	e.Begin(effect.Header{ClockMS: 1}, 1<<40)
	if r := e.Do(&HSample{Key: positionOf("h"), Draws: 1, Rand: rand.Uint64}); r.Err != nil || !r.More || len(r.Items) != 0 || from.visits != 1 {
		t.Errorf("%+v, and %d rows", r, from.visits)
	}
}
