package memruns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// model is a Set's content as a plain map.
type model map[string]Op

func (m model) sortedKeys() []string { return slices.Sorted(maps.Keys(m)) }

// keyGenerator are drawn so that many are equal, prefixes of each other, differ only in
// zeros at the end, or share long beginnings.
func keyGenerator() *rapid.Generator[[]byte] {
	beginnings := []string{"", "a", "shared/beginning/", "shared/beginning/and/more/of/it", "\x00\x00\x00\x00\x00\x00\x00", "\xff"}
	return rapid.Custom(func(t *rapid.T) []byte {
		k := rapid.SampledFrom(beginnings).Draw(t, "beginning")
		return append([]byte(k), rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 0, 9).Draw(t, "end")...)
	})
}

func opGenerator() *rapid.Generator[Op] {
	serial := 0
	return rapid.Custom(func(t *rapid.T) Op {
		serial++
		op := Op{Key: keyGenerator().Draw(t, "key"), Deleted: rapid.IntRange(0, 3).Draw(t, "deleted") == 0}
		if !op.Deleted {
			op.Value = fmt.Appendf(nil, "value %d", serial)
		}
		return op
	})
}

func isSameOp(a, b Op) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Deleted == b.Deleted
}

type fataler interface{ Fatalf(string, ...any) }

func checkDrain(t fataler, got []Op, want model) {
	order := want.sortedKeys()
	if len(got) != len(order) {
		t.Fatalf("%d operations, want %d", len(got), len(order))
	}
	for i, k := range order {
		if !isSameOp(got[i], want[k]) {
			t.Fatalf("operation %d is %s, want %s", i, formatOp(got[i]), formatOp(want[k]))
		}
	}
}

// checkGet looks up keys that are there and some that are not.
func checkGet(t fataler, v View, want model, probe []byte) {
	for k, op := range want {
		if got, ok := v.Get([]byte(k)); !ok || !isSameOp(got, op) {
			t.Fatalf("Get(%q) = %s, %v; want %s", k, formatOp(got), ok, formatOp(op))
		}
	}
	if op, ok := v.Get(probe); ok != (want[string(probe)].Key != nil) {
		t.Fatalf("Get(%q) = %s, %v", probe, formatOp(op), ok)
	}
}

// checkIter moves an iterator about at random beside an index into the sorted keys.
func checkIter(t *rapid.T, v View, want model) {
	var lower, upper []byte
	if rapid.Bool().Draw(t, "bounded below") {
		lower = keyGenerator().Draw(t, "lower")
	}
	if rapid.Bool().Draw(t, "bounded above") {
		upper = keyGenerator().Draw(t, "upper")
	}
	order := slices.DeleteFunc(want.sortedKeys(), func(k string) bool {
		return k < string(lower) || upper != nil && k >= string(upper)
	})
	it := v.Iter(lower, upper)
	if it.IsEmpty() != (len(order) == 0) {
		t.Fatalf("[%q, %q) is empty: %v, but has %q", lower, upper, it.IsEmpty(), order)
	}
	at, moved := 0, false // -1 and len(order) are outside
	for range rapid.IntRange(1, 30).Draw(t, "moves") {
		var got bool
		move := rapid.SampledFrom([]string{"First", "Last", "SeekGE", "SeekLT", "Next", "Next", "Next", "Prev", "Prev", "Prev"}).Draw(t, "move")
		switch move {
		case "First":
			got, at = it.First(), 0
		case "Last":
			got, at = it.Last(), len(order)-1
		case "SeekGE":
			k := keyGenerator().Draw(t, "seek")
			got, at = it.SeekGE(k), sort.SearchStrings(order, string(k))
		case "SeekLT":
			k := keyGenerator().Draw(t, "seek")
			got, at = it.SeekLT(k), sort.SearchStrings(order, string(k))-1
		case "Next":
			got = it.Next()
			if moved {
				at = min(at+1, len(order))
			} else {
				at = 0
			}
		case "Prev":
			got = it.Prev()
			if moved {
				at = max(at-1, -1)
			} else {
				at = len(order) - 1
			}
		}
		moved = true
		valid := at >= 0 && at < len(order)
		if got != valid || it.Valid() != valid {
			t.Fatalf("%s in [%q, %q) = %v, want %v (%d of %q)", move, lower, upper, got, valid, at, order)
		}
		if valid && !isSameOp(Op{it.Key(), it.Value(), it.IsDeleted()}, want[order[at]]) {
			t.Fatalf("%s in [%q, %q) is at %q, want %q", move, lower, upper, it.Key(), order[at])
		}
	}
}

func TestViewsShowTheNewestOfEachKeyInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		now := model{}
		op := opGenerator()
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			batch := rapid.SliceOfN(op, 0, 40).Draw(t, "batch")
			s.Append(batch...)
			for _, op := range batch {
				now[string(op.Key)] = op
			}
			switch rapid.IntRange(0, 2).Draw(t, "then") {
			case 0:
				v := s.View()
				checkIter(t, v, now)
				checkGet(t, v, now, keyGenerator().Draw(t, "probe"))
			case 1:
				checkDrain(t, drainOps(&s), now)
			}
		}
		checkDrain(t, drainOps(&s), now)
	})
}

// A cut's View is asked for after later operations were appended, and maybe
// sorted by another View.
func TestCutsShowTheirMomentHoweverLateTheyAreViewed(t *testing.T) {
	type kept struct {
		cut  Cut
		view View
		want model
	}
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		now := model{}
		op := opGenerator()
		var cuts []kept
		for range rapid.IntRange(1, 15).Draw(t, "rounds") {
			batch := rapid.SliceOfN(op, 0, 10).Draw(t, "batch")
			s.Append(batch...)
			for _, op := range batch {
				now[string(op.Key)] = op
			}
			cuts = append(cuts, kept{s.Cut(), View{}, maps.Clone(now)})
			if i := rapid.IntRange(0, 2*len(cuts)).Draw(t, "view"); i < len(cuts) {
				cuts[i].view = cuts[i].cut.View()
			}
		}
		for _, c := range cuts {
			views := []View{c.cut.View()}
			if c.view.log != nil {
				views = append(views, c.view) // taken earlier: must not have changed
			}
			for _, v := range views {
				it := v.Iter(nil, nil)
				var got []Op
				for it.Next() {
					got = append(got, Op{it.Key(), it.Value(), it.IsDeleted()})
				}
				checkDrain(t, got, c.want)
			}
		}
	})
}

// drainOps returns what Sets drain as a list.
func drainOps(sets ...*Set) []Op {
	d := Drain(nil, sets...)
	ops := make([]Op, len(d))
	for i := range d {
		ops[i] = d.At(i)
	}
	return ops
}

// Sets that follow each other have keys in common, or begin unlike each other.
func TestWhatLaterSetsOverwriteIsNotDrained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, size := model{}, 0
		sets := make([]*Set, rapid.IntRange(0, 4).Draw(t, "sets"))
		for i := range sets {
			sets[i] = new(Set)
			op := opGenerator()
			for range rapid.IntRange(0, 3).Draw(t, "rounds") {
				batch := rapid.SliceOfN(op, 0, 40).Draw(t, "batch")
				sets[i].Append(batch...)
				for _, op := range batch {
					now[string(op.Key)] = op
				}
				if rapid.Bool().Draw(t, "view") {
					sets[i].View()
				}
			}
		}
		got := drainOps(sets...)
		checkDrain(t, got, now)
		for _, op := range got {
			size += len(op.Key) + len(op.Value)
		}
		if n := Drain(nil, sets...).SizeBytes(); n != size {
			t.Fatalf("%d bytes, want %d", n, size)
		}
	})
}

func TestDrainGivesWay(t *testing.T) {
	var older, newer Set
	for i := range 10 * DrainBatchOps {
		older.Append(Op{Key: fmt.Appendf(nil, "%d", i)})
		newer.Append(Op{Key: fmt.Appendf(nil, "%d", i+DrainBatchOps)})
	}
	calls := 0
	if n := len(Drain(func() { calls++ }, &older, &newer)); n != 11*DrainBatchOps || calls != 11 {
		t.Fatalf("%d calls for %d operations", calls, n)
	}
}

func formatOp(op Op) string {
	if op.Deleted {
		return fmt.Sprintf("%q deleted", op.Key)
	}
	return fmt.Sprintf("%q=%q", op.Key, op.Value)
}

// One goroutine appends transactions that set all three keys of a group to one
// number; blocks of operations end in the midst of some. A View that splits one, changes, or misses what was visible before it
// was taken is wrong.
func TestViewsHoldStillWhileAppendsGoOn(t *testing.T) {
	const groups = 300
	transactions := 20_000
	if testing.Short() {
		transactions = 4_000
	}
	seed := rand.Uint64()
	var s Set
	var done atomic.Uint64 // transactions whose Append has returned
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			for n := r; !stop.Load(); n++ {
				if err := checkView(&s, &done, n%2 == 0); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := uint64(1); n <= uint64(transactions); n++ {
		value := binary.BigEndian.AppendUint64(nil, n)
		group := rng.IntN(groups)
		for _, name := range []string{"a", "b", "c"} {
			s.Stage(fmt.Appendf(nil, "%s/%d", name, group), value, false)
		}
		s.Reveal()
		done.Store(n)
	}
	stop.Store(true)
	wg.Wait()
}

// checkView takes a View and reads it twice, in both directions.
func checkView(s *Set, done *atomic.Uint64, late bool) error {
	floor := done.Load()
	cut := s.Cut()
	if late {
		s.View() // another View sorts past the cut
	}
	v := cut.View()
	latest := uint64(0)
	values := map[string][]byte{}
	for it := v.Iter(nil, nil); it.Next(); {
		values[string(it.Key())] = it.Value()
		latest = max(latest, binary.BigEndian.Uint64(it.Value()))
	}
	if latest < floor {
		return fmt.Errorf("transaction %d is missing, the view ends at %d", floor, latest)
	}
	for k, value := range values {
		if !bytes.Equal(value, values["a"+k[1:]]) || !bytes.Equal(value, values["c"+k[1:]]) {
			return fmt.Errorf("transaction %x of %q is split", value, k)
		}
	}
	count := 0
	for it := v.Iter(nil, nil); it.Prev(); count++ {
		if !bytes.Equal(values[string(it.Key())], it.Value()) {
			return fmt.Errorf("%q changed under the view", it.Key())
		}
	}
	if count != len(values) {
		return fmt.Errorf("%d keys forwards, %d backwards", len(values), count)
	}
	return nil
}

func TestStagedOperationsAreInvisibleUntilRevealed(t *testing.T) {
	var s Set
	for i := range 2*blockOps + 1 {
		s.Stage(fmt.Appendf(nil, "%d", i), nil, false)
		if _, ok := s.View().Get([]byte("0")); ok || s.Len() != 0 {
			t.Fatalf("seen before Reveal, after %d operations", i+1)
		}
	}
	s.Reveal()
	if ops := Drain(nil, &s); len(ops) != 2*blockOps+1 || s.Len() != len(ops) {
		t.Fatalf("%d operations seen after Reveal", len(ops))
	}
}
