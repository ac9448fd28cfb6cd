package mapcells

import (
	"testing"

	"github.com/cleavekv/cleave/bench/internal/workload"
)

var small = Config{Entries: 3000, StreamLength: 1 << 10, Cores: 3}

// count returns the entries of a table.
func count[K comparable, V any](t table[K, V]) int {
	n := 0
	t.Range(func(K, V) bool { n++; return true })
	return n
}

func TestChurnKeepsTheSizeOfEveryTable(t *testing.T) {
	s := &shape[uint64, uint64]{
		makers: uint64Makers[uint64](),
		key:    func(i uint32) uint64 { return workload.Scramble(uint64(i)) },
	}
	all := s.filled(small.Entries)
	cell := churn(s, small, all)
	for i, c := range cell.Contestants {
		c.Work(2500)
		c.Work(5000) // goes on where the first left off, past the first entries
		// haxmap, about once in a hundred runs, does not show an entry that it has: what the
		// cell asks of all is right if the others keep their size and it nearly does.
		slack := 0
		if !c.Ours {
			slack = small.Entries / 1000
		}
		if got := count(all()[i]); got < small.Entries-slack || got > small.Entries {
			t.Errorf("%s has %d entries, want %d", c.Name, got, small.Entries)
		}
		if _, ok := all()[i].Load(s.key(7400)); ok {
			t.Errorf("%s still has an entry that 7500 operations should have deleted", c.Name)
		}
	}
}

func TestAddersLoseNoCountUnderContention(t *testing.T) {
	s := &shape[uint64, uint64]{makers: uint64Makers[uint64](), key: func(i uint32) uint64 { return uint64(i) }}
	all := s.filled(4)()
	for i, add := range adders(s.makers, all) {
		workload.Parallel(4, 40_000, func(_, n int) {
			for range n {
				add(3)
			}
		})
		if got, _ := all[i].Load(3); got != 40_000 {
			t.Errorf("%s counted %d of 40000", s.makers[i].name, got)
		}
	}
}

func TestShapesHaveAsManyKeysAsEntries(t *testing.T) {
	distinct(t, texts())
	distinct(t, wideKeys())
	distinct(t, wideValues())
}

func distinct[K comparable, V any](t *testing.T, s *shape[K, V]) {
	seen := map[K]bool{}
	for i := range uint32(20_000) {
		seen[s.key(i)] = true
	}
	if len(seen) != 20_000 {
		t.Errorf("%s: %d different keys of 20000", s.id, len(seen))
	}
}

func TestATableThatLosesAKeyIsOut(t *testing.T) {
	s := texts()
	table := s.filled(100)()[0]
	steps := workload.Stream(workload.Uniform, 100, 1<<8, 0, 1, s.key)
	play(table, steps, 0, len(steps), &s.values)
	table.Delete(steps[5].Key)
	defer func() {
		if recover() == nil {
			t.Error("nobody noticed the missing key")
		}
	}()
	play(table, steps, 0, len(steps), &s.values)
}
