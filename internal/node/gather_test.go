package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// Whoever asks for a sync gets one that begins later, however many share it.
func TestASharedSyncBeginsAfterAllWhoShareItHaveAsked(t *testing.T) {
	var s syncs
	var written, synced, ran atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				mine := written.Add(1)
				err := s.do(func() error {
					upTo := written.Load()
					ran.Add(1)
					synced.Store(upTo)
					return nil
				})
				if err != nil || synced.Load() < mine {
					t.Errorf("number %d is not synced: %v", mine, err)
				}
			}
		})
	}
	wg.Wait()
	if ran.Load() > written.Load() {
		t.Errorf("%d syncs for %d that asked", ran.Load(), written.Load())
	}
	bad := errors.New("bad")
	if err := s.do(func() error { return bad }); err != bad {
		t.Errorf("an error of the sync: %v", err)
	}
}

func TestThoseWhoGatherGoTogetherOrWhenTheirContextEnds(t *testing.T) {
	var g gathering
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { g.wait(t.Context()) })
	}
	wg.Wait()
	if g.start != nil {
		t.Error("somebody is still awaited")
	}
}
