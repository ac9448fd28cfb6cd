package partition

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func TestTheHighestVersionWinsWhateverTheOrder(t *testing.T) {
	var p Published
	if p.Load() != nil || p.Offer(nil) {
		t.Error("no map is published")
	}
	highest := Version(0)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(100) {
		m := &Map{version: Version(i + 1)}
		if won := p.Offer(m); won != (m.version > highest) {
			t.Errorf("version %d over %d: %v", m.version, highest, won)
		}
		highest = max(highest, m.version)
		if p.Load().Version() != highest || p.Offer(&Map{version: highest}) {
			t.Errorf("version %d is published, want %d once", p.Load().Version(), highest)
		}
	}
}

// Two run a race for the next version. Each looks at what is published all the
// time: if a slower one ever overwrote a faster one, the version would fall.
func TestThePublishedVersionNeverFalls(t *testing.T) {
	const rounds, versions = 20, 4000
	for range rounds {
		var p Published
		var racing sync.WaitGroup
		var ready atomic.Int32
		for racer := range Version(2) {
			racing.Go(func() {
				for ready.Add(1); ready.Load() < 2; { // both at once, or they hardly meet
				}
				seen := Version(0)
				for v := racer + 1; v <= versions; v += 2 {
					m := &Map{version: v}
					p.Offer(m)
					for range 3 {
						now := p.Load().Version()
						if now < v || now < seen {
							t.Errorf("version %d is published after %d was offered and %d seen", now, v, seen)
							return
						}
						seen = now
					}
				}
			})
		}
		racing.Wait()
		if t.Failed() {
			return
		}
	}
}
