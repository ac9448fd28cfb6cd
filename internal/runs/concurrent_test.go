package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// One goroutine appends transactions that set all three keys of a group to one
// number; blocks of operations end in the midst of some. A View that splits one, changes, or misses what was visible before it
// was taken is wrong.
func TestViewsHoldStillWhileAppendsGoOn(t *testing.T) {
	const groups = 300
	transactions := 20_000
	if testing.Short() {
		transactions = 4_000
	}
	seed := rand.Uint64()
	var s Set
	var done atomic.Uint64 // transactions whose Append has returned
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			for n := r; !stop.Load(); n++ {
				if err := viewOnce(&s, &done, n%2 == 0); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := uint64(1); n <= uint64(transactions); n++ {
		value := binary.BigEndian.AppendUint64(nil, n)
		group := rng.IntN(groups)
		for _, name := range []string{"a", "b", "c"} {
			s.Stage(fmt.Appendf(nil, "%s/%d", name, group), value, false)
		}
		s.Reveal()
		done.Store(n)
	}
	stop.Store(true)
	wg.Wait()
}

// viewOnce takes a View and reads it twice, in both directions.
func viewOnce(s *Set, done *atomic.Uint64, late bool) error {
	floor := done.Load()
	cut := s.Cut()
	if late {
		s.View() // somebody else sorts past the cut
	}
	v := cut.View()
	latest := uint64(0)
	values := map[string][]byte{}
	for it := v.Iter(nil, nil); it.Next(); {
		values[string(it.Key())] = it.Value()
		latest = max(latest, binary.BigEndian.Uint64(it.Value()))
	}
	if latest < floor {
		return fmt.Errorf("transaction %d is missing, the view ends at %d", floor, latest)
	}
	for k, value := range values {
		if !bytes.Equal(value, values["a"+k[1:]]) || !bytes.Equal(value, values["c"+k[1:]]) {
			return fmt.Errorf("transaction %x of %q is split", value, k)
		}
	}
	count := 0
	for it := v.Iter(nil, nil); it.Prev(); count++ {
		if !bytes.Equal(values[string(it.Key())], it.Value()) {
			return fmt.Errorf("%q changed under the view", it.Key())
		}
	}
	if count != len(values) {
		return fmt.Errorf("%d keys forwards, %d backwards", len(values), count)
	}
	return nil
}

func TestStagedOperationsAreInvisibleUntilRevealed(t *testing.T) {
	var s Set
	for i := range 2*blockOps + 1 {
		s.Stage(fmt.Appendf(nil, "%d", i), nil, false)
		if _, ok := s.View().Get([]byte("0")); ok || s.Len() != 0 {
			t.Fatalf("seen before Reveal, after %d operations", i+1)
		}
	}
	s.Reveal()
	if ops := Drain(nil, &s); len(ops) != 2*blockOps+1 || s.Len() != len(ops) {
		t.Fatalf("%d operations seen after Reveal", len(ops))
	}
}
