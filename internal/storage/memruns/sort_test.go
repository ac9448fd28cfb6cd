package memruns

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// keyShapes are kinds of keys that take the sort through its different ways.
var keyShapes = map[string]func(*rand.Rand) []byte{
	"short":        func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%x", r.IntN(1<<12)) },
	"long shared":  func(r *rand.Rand) []byte { return fmt.Appendf(nil, "a/beginning/that/all/share/%d", r.IntN(1<<14)) },
	"two families": func(r *rand.Rand) []byte { return fmt.Appendf(nil, "family%d/%06d", r.IntN(2), r.IntN(1<<13)) },
	"outliers": func(r *rand.Rand) []byte {
		if r.IntN(100) == 0 {
			return fmt.Appendf(nil, "\x07%d", r.IntN(4))
		}
		return fmt.Appendf(nil, "\x01\x05tenant/%05d", r.IntN(1<<13))
	},
	// What tells them apart is in the third word.
	"outliers far behind": func(r *rand.Rand) []byte {
		if r.IntN(100) == 0 {
			return fmt.Appendf(nil, "\x07%d", r.IntN(4))
		}
		return fmt.Appendf(nil, "\x01\x05tenant/region/%05d", r.IntN(1<<13))
	},
	"few keys": func(r *rand.Rand) []byte { return fmt.Appendf(nil, "a rather long key, number %d", r.IntN(3)) },
	"zeros":    func(r *rand.Rand) []byte { return make([]byte, r.IntN(40)) },
	"nested":   func(r *rand.Rand) []byte { return bytes.Repeat([]byte("a"), r.IntN(400)) },
	"random": func(r *rand.Rand) []byte {
		k := make([]byte, r.IntN(24))
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		return k
	},
}

// Batches are long enough for every kind of sort, and of random length, so that
// the runs that are joined differ in what their keys have in common.
func TestLongBatchesOfAnyKeysAreSorted(t *testing.T) {
	for name, key := range keyShapes {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var s Set
			want := model{}
			for round := range 8 {
				for n := rng.IntN(3000) >> rng.IntN(8); n >= 0; n-- {
					op := Op{Key: key(rng), Value: fmt.Appendf(nil, "%d.%d", round, n), Deleted: n%5 == 0}
					s.Append(op)
					want[string(op.Key)] = op
				}
				if round%3 != 0 {
					checkGet(t, s.View(), want, key(rng))
				}
			}
			checkDrain(t, drainOps(&s), want)
		})
	}
}

func TestWordsAreOrderedAsTheirKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "shared")
		piece := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 0, keyWordBytes+3)
		a, b := piece.Draw(t, "a"), piece.Draw(t, "b")
		ka, kb := append(shared[:len(shared):len(shared)], a...), append(shared[:len(shared):len(shared)], b...)
		wa, wb := makeKeyWords(ka, len(shared)), makeKeyWords(kb, len(shared))
		order, got := bytes.Compare(ka, kb), wa.compare(wb)
		switch {
		case got != 0 && got != order, got == 0 && wa.hasKeyEnd() && order != 0:
			t.Fatalf("%x -> %x, %x -> %x, but the keys compare %d", ka, wa, kb, wb, order)
		}
	})
}

// The promise about cost, counted and not timed: runs stay few however many
// Views are taken.
func TestRunsStayFew(t *testing.T) {
	var s Set
	for i := range 5000 {
		s.Append(Op{Key: fmt.Appendf(nil, "key %d", i*7919%10007)})
		v := s.View()
		for j := 1; j < len(v.runs); j++ {
			if len(v.runs[j-1]) < 2*len(v.runs[j]) {
				t.Fatalf("after %d operations run %d has %d entries, the next %d", i+1, j-1, len(v.runs[j-1]), len(v.runs[j]))
			}
		}
	}
}
