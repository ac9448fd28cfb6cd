package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Whoever asks for a sync gets one that begins later, however many share it.
func TestASharedSyncBeginsAfterAllWhoShareItHaveAsked(t *testing.T) {
	var s syncs
	var written, synced, ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		ask := s.do
		if i%2 == 1 {
			ask = s.later
		}
		wg.Go(func() {
			for range 500 {
				mine := written.Add(1)
				err := ask(func() error {
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

func TestWhoIsInNoHurryLeavesTheSyncToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s syncs
		ran := ""
		by := func(who string) func() error {
			return func() error { ran += who; return nil }
		}
		patient := make(chan error)
		go func() { patient <- s.later(by("b")) }()
		synctest.Wait() // it waits for others
		if err := s.do(by("a")); err != nil {
			t.Error(err)
		}
		if err := <-patient; err != nil || ran != "a" {
			t.Errorf("%q synced: %v", ran, err)
		}
		if err := s.later(by("c")); err != nil || ran != "ac" {
			t.Errorf("%q synced though nobody else is there: %v", ran, err)
		}
	})
}
