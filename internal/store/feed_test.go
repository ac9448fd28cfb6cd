package store

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// follow applies the feed to a model.
func (m model) follow(s *Store, from wal.Position, did *counts) (wal.Position, error) {
	return s.Feed(from, func(c Committed) error {
		for _, op := range c.Batch.All() {
			v := op.Value
			if op.Delete {
				v = nil
			} else if v == nil {
				v = []byte{}
			}
			m.apply(write{op.Key, v})
		}
		did.add("entries fed", 1)
		return nil
	})
}

func TestASnapshotAndTheFeedBehindItAreTheStore(t *testing.T) {
	var did counts
	rng := newRNG(t, seeds(t, 1)[0])
	s := mustOpen(t, tiny(vfs.NewMem()))
	follower, truth := model{}, model{}
	var at wal.Position
	for range max(10, 40/slow) {
		for range rng.IntN(60) {
			ws := testWrites(rng, 100)
			mustCommit(t, s, ws...)
			truth.apply(ws...)
		}
		next, err := follower.follow(s, at, &did)
		if errors.Is(err, ErrGone) {
			did.add("times gone", 1)
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			clear(follower)
			if err := snap.Scan(nil, nil, false, func(k, v []byte) bool {
				follower.apply(write{k, append([]byte{}, v...)})
				return true
			}); err != nil {
				t.Fatal(err)
			}
			next = snap.Position()
			mustClose(t, snap)
			if next, err = follower.follow(s, next, &did); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		at = next
		if len(follower) != len(truth) {
			t.Fatalf("%d rows, want %d", len(follower), len(truth))
		}
		if err := follower.compare(s, nil, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	did.log(t)
}

func TestAFeedThatIsStoppedGoesOnWithTheSameCommit(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	for _, k := range []string{"a", "b", "c"} {
		mustCommit(t, s, write{[]byte(k), []byte("v")})
	}
	stop := errors.New("stop")
	var seen []string
	visit := func(c Committed) error {
		for _, op := range c.Batch.All() {
			seen = append(seen, string(op.Key))
			if string(op.Key) == "b" && len(seen) == 2 {
				return stop
			}
		}
		return nil
	}
	pos, err := s.Feed(0, visit)
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if _, err = s.Feed(pos, visit); err != nil {
		t.Fatal(err)
	}
	if got := len(seen); got != 4 || seen[1] != "b" || seen[2] != "b" {
		t.Errorf("%q, want b twice", seen)
	}
	mustClose(t, s)
}
