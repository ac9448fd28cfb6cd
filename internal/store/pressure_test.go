package store

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/wal"
)

func TestASnapshotLooksAgainIfSomethingBecameVisibleMeanwhile(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	looks, undone := 0, 0
	held, pos, _ := s.chunks.capture(false, func([]*chunk) {
		if looks++; looks <= 2 {
			mustCommit(t, s, write{[]byte("k"), fmt.Appendf(nil, "%d", looks)})
		}
	}, func() { undone++ })
	if looks != 3 || undone != 2 || pos != s.Position() {
		t.Errorf("%d looks, %d undone, at %v, want 3 and 2 at %v", looks, undone, pos, s.Position())
	}
	s.chunks.release(held)
	// Who is always too late stops the publisher for the moment.
	looks = 0
	held, pos, _ = s.chunks.capture(false, func([]*chunk) {
		if looks++; looks <= optimism {
			mustCommit(t, s, write{[]byte("k"), nil})
		}
	}, func() {})
	if looks != optimism+1 || pos != s.Position() {
		t.Errorf("%d looks, at %v, want %d at %v", looks, pos, optimism+1, s.Position())
	}
	s.chunks.release(held)
	mustClose(t, s)
}

func TestCommitsWaitForAnApplierThatIsBehind(t *testing.T) {
	p := newTrap(func(op errorfs.Op) bool { return isTable(op) && op.Kind == errorfs.OpCreate })
	s := mustOpen(t, tiny(errorfs.Wrap(vfs.NewMem(), p)))
	p.set.Store(true) // the first flush takes its time, and the applier waits for it
	const commits = 400
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < commits && err == nil; i++ {
			err = commit(s, write{fmt.Appendf(nil, "k%d", i), make([]byte, 3000)})
		}
		done <- err
	}()
	for m := s.Metrics(); m.CommitWaits == 0 || m.ApplierStalls == 0; m = s.Metrics() {
		select {
		case err := <-done:
			t.Fatalf("%d commits did not wait: %v", commits, err)
		default:
			runtime.Gosched()
		}
	}
	m := s.Metrics()
	t.Logf("%d chunks unapplied, %d KiB unflushed, %d stalls", m.UnappliedChunks, m.UnflushedBytes>>10, m.ApplierStalls)
	if m.UnappliedChunks > s.opts.Chunks {
		t.Errorf("%d chunks are not applied, want at most %d", m.UnappliedChunks, s.opts.Chunks)
	}
	close(p.letGo)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestARowIsKeptInMemoryUntilPebbleHasIt(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	key := []byte("key")
	var shown []string
	// As a chunk is about to be applied, the cache is flooded, and the row asked
	// for. The applier calls this, so nobody else reads shown.
	s.hooks.beforeApply = func() {
		for i := range 5000 {
			other := fmt.Appendf(nil, "other%d", i)
			s.table.Fill(s.table.Ticket(other), other, make([]byte, 100), true)
		}
		if v, ok, err := s.Get(key, nil); err == nil { // not at Close
			shown = append(shown, fmt.Sprint(string(v), " ", ok))
		}
	}
	for i := 0; i < 10; i++ {
		mustCommit(t, s, write{key, fmt.Appendf(nil, "%d", i)})
		for at := s.Position(); s.applier.position() < at; { // no more of key until it is applied
			mustCommit(t, s, write{[]byte("filler"), make([]byte, 3000)})
		}
	}
	mustClose(t, s)
	if !slices.IsSorted(shown) || shown[0] != "0 true" {
		t.Errorf("%q: a row went out of memory before Pebble had it, and an older one came back", shown)
	}
	if len(shown) < 10 {
		t.Errorf("%d chunks were applied, want at least 10", len(shown))
	}
}

func TestSnapshotsAreRefusedBeforeTheyStopCommits(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	var open []*Snapshot
	// Chunks are small: every snapshot sees others than the one before. A commit
	// that had to wait for a snapshot would wait for ever.
	for i := 0; len(open) < 10*maxKept; i++ {
		for range 4 {
			mustCommit(t, s, write{fmt.Appendf(nil, "k%d", i%7), make([]byte, 9000)})
		}
		snap, err := s.Snapshot()
		if errors.Is(err, ErrSnapshots) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, snap)
	}
	if len(open) < maxKept/4 || len(open) == 10*maxKept {
		t.Fatalf("%d snapshots were open", len(open))
	}
	if err := s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }); !errors.Is(err, ErrSnapshots) {
		t.Errorf("a scan: %v, want ErrSnapshots", err)
	}
	for i := range 200 {
		mustCommit(t, s, write{fmt.Appendf(nil, "late%d", i), make([]byte, 9000)})
	}
	for _, snap := range open {
		mustClose(t, snap)
	}
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatalf("after the others were closed: %v", err)
	}
	mustClose(t, snap)
	if s.chunks.kept != 0 {
		t.Errorf("%d chunks are still kept", s.chunks.kept)
	}
	mustClose(t, s)
}

// Many large commits at once may put more chunks on the list than are let in one
// by one. They count with those that are kept.
func TestALongListLeavesRoomForFewerSnapshots(t *testing.T) {
	var u unapplied
	u.limit, u.kept = 1, maxKept-2
	for range 6 {
		u.list = append(u.list, &chunk{memory: new(wal.Chunk)})
	}
	if _, err := u.hold(false); !errors.Is(err, ErrSnapshots) {
		t.Errorf("%d kept, %d on the list: %v, want ErrSnapshots", u.kept, len(u.list), err)
	}
	u.list = u.list[:3]
	if _, err := u.hold(false); err != nil {
		t.Errorf("%d kept, %d on the list: %v", u.kept, len(u.list), err)
	}
}
