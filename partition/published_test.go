package partition

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func TestTheHighestVersionWinsWhateverTheOrder(t *testing.T) {
	maps := []*Map{must(First([]Group{{}}, nil))}
	for range 99 {
		maps = append(maps, must(maps[len(maps)-1].Apply(AddGroup{})))
	}
	var p Published
	if p.Load() != nil || p.Offer(nil) {
		t.Error("no map is published")
	}
	var offering, reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for last := Version(0); ; {
			if m := p.Load(); m != nil {
				if m.Version() < last {
					t.Errorf("version %d after %d", m.Version(), last)
				}
				last = m.Version()
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for seed := range uint64(4) {
		offering.Go(func() {
			mine := slices.Clone(maps)
			rand.New(rand.NewPCG(seed, 0)).Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for _, m := range mine {
				p.Offer(m)
				if p.Load().Version() < m.Version() {
					t.Errorf("version %d was offered, %d is published", m.Version(), p.Load().Version())
				}
			}
		})
	}
	offering.Wait()
	close(stop)
	reading.Wait()
	if p.Load() != maps[99] {
		t.Errorf("version %d is published", p.Load().Version())
	}
	// Another map of the same version is not newer.
	if p.Offer(must(maps[98].Apply(AddGroup{ID: 1000}))) || p.Offer(maps[98]) {
		t.Error("a map that is not newer won")
	}
}
