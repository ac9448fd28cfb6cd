package store

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// seeds returns the seeds to run: one by CLEAVE_SEED, or n fresh ones, more in
// a soak.
func seeds(t testing.TB, n int) []uint64 {
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	switch {
	case os.Getenv("CLEAVE_SOAK") != "":
		n *= 100
	case testing.Short():
		n = 1
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = rand.Uint64() >> 32
	}
	return list
}

// frozen is a snapshot and what it must show for ever.
type frozen struct {
	*Snapshot
	model model
}

func TestStoreIsAnOrderedMapAndSnapshotsNeverChange(t *testing.T) {
	var did counts
	for _, seed := range seeds(t, 3) {
		runModel(t, seed, &did)
	}
	did.log(t)
}

func runModel(t *testing.T, seed uint64, did *counts) {
	rng := newRNG(t, seed)
	fsys := vfs.NewMem()
	s := mustOpen(t, anyhow(fsys, rng))
	m := model{}
	var open []frozen
	closeAll := func() {
		for _, f := range open {
			if err := f.model.compare(f, nil, nil, false); err != nil {
				t.Fatalf("snapshot at %v: %v", f.Position(), err)
			}
			mustClose(t, f.Snapshot)
		}
		open = nil
	}
	for range 1200 / slow {
		did.add("steps", 1)
		switch n := rng.IntN(100); {
		case n < 60:
			ws := testWrites(rng, 300)
			mustCommit(t, s, ws...)
			m.apply(ws...)
			did.add("commits", 1)
		case n < 75:
			key := testKey(rng, 320)
			v, ok := mustGet(t, s, key)
			if want, wantOK := m[string(key)]; ok != wantOK || string(v) != want {
				t.Fatalf("Get %q: %.20q %v, want %.20q %v", key, v, ok, want, wantOK)
			}
		case n < 90:
			start, end := testKey(rng, 300), testKey(rng, 300)
			var from scanner = s
			want := m
			if len(open) > 0 && rng.IntN(2) == 0 {
				f := open[rng.IntN(len(open))]
				from, want = f, f.model
			}
			if rng.IntN(8) == 0 {
				end = nil
			}
			if err := want.compare(from, start, end, rng.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			did.add("scans", 1)
		case n < 95:
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			copied := model{}
			for k, v := range m {
				copied[k] = v
			}
			open = append(open, frozen{snap, copied})
			did.add("snapshots", 1)
		case n < 98 && len(open) > 0:
			closeAll()
		case n == 99 && rng.IntN(3) == 0:
			closeAll()
			mustClose(t, s)
			s = mustOpen(t, anyhow(fsys, rng))
			if got := s.Metrics().Log.Replayed; got != 0 {
				t.Fatalf("%d entries replayed after Close", got)
			}
			did.add("reopens", 1)
		}
	}
	closeAll()
	got := s.Metrics()
	did.add("chunks applied", int(got.Applied>>32))
	if got.Applied == 0 || got.Durable == 0 || got.Log.Recycled == 0 {
		t.Errorf("nothing was applied, durable or recycled: %+v", got)
	}
	mustClose(t, s)
}
