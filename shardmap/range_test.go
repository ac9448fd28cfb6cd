package shardmap

import (
	"fmt"
	"sync"
	"testing"
)

func TestRangeSeesSteadyKeysOnceWhileOthersComeAndGo(t *testing.T) {
	t.Run("word", func(t *testing.T) { checkSteadyKeys(t, func(i int) uint64 { return uint64(i) }, uint64(1)) })
	t.Run("wide", func(t *testing.T) { checkSteadyKeys(t, func(i int) uint64 { return uint64(i) }, spreadWord(1)) })
	t.Run("entry", func(t *testing.T) { checkSteadyKeys(t, func(i int) string { return fmt.Sprint(i) }, "v") })
}

// checkSteadyKeys lets one goroutine grow and shrink the map many times over while
// another walks it.
func checkSteadyKeys[K comparable, V any](t *testing.T, key func(int) K, value V) {
	const steady, others = 300, 6000
	m, err := New[K, V](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range steady {
		m.Store(key(i), value)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for i := range others {
				m.Store(key(steady+i), value)
			}
			for i := range others {
				m.Delete(key(steady + i))
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 20 {
		seen := map[K]int{}
		m.Range(func(k K, _ V) bool {
			seen[k]++
			m.Load(k) // the callback may use the map
			return true
		})
		for k, n := range seen {
			if n != 1 {
				t.Errorf("key %v was yielded %d times", k, n)
			}
		}
		for i := range steady {
			if seen[key(i)] != 1 {
				t.Errorf("steady key %v was yielded %d times", key(i), seen[key(i)])
			}
		}
	}
	close(stop)
	wg.Wait()
	if st := m.Stats().Total(); st.Shrinks == 0 {
		t.Errorf("the map never shrank: %+v", st)
	}
}

func TestRangeMayWriteAndStopsWhenTold(t *testing.T) {
	var m Map[int, int]
	for i := range 1000 {
		m.Store(i, i)
	}
	n := 0
	for k := range m.All() {
		m.Delete(k)
		if n++; n == 100 {
			break
		}
	}
	if n != 100 || m.Len() != 900 {
		t.Errorf("%d visits, %d entries left; want 100, 900", n, m.Len())
	}
}
