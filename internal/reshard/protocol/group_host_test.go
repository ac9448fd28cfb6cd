package protocol

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
)

func encodePut(key, value string) []byte {
	var b effect.Builder
	b.Reset(effect.Header{})
	b.Put([]byte(key), []byte(value))
	return b.Bytes()
}

func TestALogCommitsForOneGroupOrSeveralOfItsStore(t *testing.T) {
	w := newTestCluster(t)
	heard := 0
	a := &LocalLog{Store: w.stores[0], Group: 1, OnCommit: func() { heard++ }}
	b, c := &LocalLog{Store: w.stores[0], Group: 2}, &LocalLog{Store: w.stores[1], Group: 3}
	before := w.stores[0].Position()
	if err := a.Commit(false, encodePut("\x07one", "1")); err != nil || heard != 1 {
		t.Fatalf("a commit: %v, told of %d times", err, heard)
	}
	both := []group.JointEntry{{Log: a, Effects: encodePut("\x07two", "2")}, {Log: b, Effects: encodePut("\x07three", "3")}}
	if err := a.CommitJoint(false, both); err != nil || heard != 2 {
		t.Fatalf("a commit of two: %v, told of %d times", err, heard)
	}
	var groups []uint64
	var places []uint64
	if _, err := w.stores[0].Feed(before, func(c store.FeedEntry) error {
		groups, places = append(groups, c.Group), append(places, uint64(c.Pos))
		return nil
	}); err != nil || len(groups) != 3 || groups[0] != 1 || groups[1] != 1 || groups[2] != 2 || places[1] != places[2] {
		t.Errorf("the log has entries of %d at %d, %v", groups, places, err)
	}
	at := w.stores[0].Position()
	if err := a.CommitJoint(false, []group.JointEntry{both[0], {Log: c, Effects: encodePut("\x07four", "4")}}); !errors.Is(err, group.ErrNoSharedLog) || w.stores[0].Position() != at {
		t.Errorf("with a group of another store: %v", err)
	}
	if err := errors.Join(a.Sync(), a.ReadBarrier(background)); err != nil {
		t.Error(err)
	}
	_ = w.stores[0].Close()
	if err := a.Commit(false, encodePut("\x07five", "5")); err == nil || errors.Is(err, group.ErrUncertain) || heard != 3 {
		t.Errorf("to a store that is closed: %v, told of %d times", err, heard)
	}
	if err := wrapUnknown(store.ErrUnknown); !errors.Is(err, group.ErrUncertain) || !errors.Is(err, store.ErrUnknown) {
		t.Errorf("an outcome that nobody knows: %v", err)
	}
	if wrapUnknown(nil) != nil || errors.Is(wrapUnknown(store.ErrDiskFull), group.ErrUncertain) {
		t.Error("what is certain is taken for uncertain")
	}
}
