package meter

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/shardmap"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Each operation does what it does on the bare map, and is counted once.
func TestMap_DoesWhatTheBareOneDoesAndCounts(t *testing.T) {
	var bare shardmap.Map[string, int]
	hot := must(heat.NewMeter(heat.Options{Every: 1, Slots: 8}))
	m := New(&bare, hot.NewRecorder(), AppendString[string])
	failure := errors.New("failed")
	m.Store("a", 1)
	if v, ok := m.Load("a"); v != 1 || !ok {
		t.Error(v, ok)
	}
	if v, loaded := m.Swap("a", 2); v != 1 || !loaded {
		t.Error(v, loaded)
	}
	if v, loaded := m.LoadOrStore("a", 3); v != 2 || !loaded {
		t.Error(v, loaded)
	}
	if v, loaded := m.LoadOrStore("b", 4); v != 4 || loaded {
		t.Error(v, loaded)
	}
	if v, ok := m.Compute("a", func(old int, loaded bool) (int, shardmap.Op) { return old + 5, shardmap.Update }); v != 7 || !ok {
		t.Error(v, ok)
	}
	if v, loaded, err := m.LoadOrCompute("c", func() (int, error) { return 8, nil }); v != 8 || loaded || err != nil {
		t.Error(v, loaded, err)
	}
	if _, loaded, err := m.LoadOrCompute("d", func() (int, error) { return 0, failure }); loaded || !errors.Is(err, failure) {
		t.Error(loaded, err)
	}
	if v, loaded := m.LoadAndDelete("a"); v != 7 || !loaded {
		t.Error(v, loaded)
	}
	m.Delete("b")
	if _, ok := m.Unwrap().Load("b"); ok || bare.Len() != 1 {
		t.Errorf("%d entries are left", bare.Len())
	}
	hot.Collect(0)
	top, total := hot.Top(heat.ByOps, -1)
	if total != 10 || len(top) != 4 || top[0].Key != "a" || top[0].Count != 6 || top[0].Writes != 4 {
		t.Errorf("%+v of %v", top, total)
	}
	if l := hot.Load(nil, nil); l.Writes != 7 || l.Reads != 3 {
		t.Errorf("%+v", l)
	}
}

func TestMap_ManyGoroutinesShareTheBareOne(t *testing.T) {
	var bare shardmap.Map[int, int]
	hot := must(heat.NewMeter(heat.Options{Every: 8}))
	var wg sync.WaitGroup
	for range 4 {
		m := New(&bare, hot.NewRecorder(), func(dst []byte, key int) []byte { return fmt.Append(dst, key) })
		wg.Go(func() {
			for i := range 10_000 {
				key := 7
				if i%2 == 0 {
					key = i
				}
				m.Store(key, i)
			}
		})
	}
	wg.Wait()
	hot.Collect(0)
	top, total := hot.Top(heat.ByOps, 1)
	if top[0].Key != "7" || math.Abs(top[0].Count-20_000) > 5*top[0].Deviation+top[0].Error || math.Abs(total-40_000) > 4000 {
		t.Errorf("%+v of %v", top[0], total)
	}
}

func BenchmarkLoad(b *testing.B) {
	var bare shardmap.Map[string, int]
	keys := make([]string, 1<<10)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
		bare.Store(keys[i], i)
	}
	m := New(&bare, must(heat.NewMeter(heat.Options{Every: 1024})).NewRecorder(), AppendString[string])
	for name, load := range map[string]func(string) (int, bool){"bare": bare.Load, "meter": m.Load} {
		b.Run("map="+name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				load(keys[i&(len(keys)-1)])
			}
		})
	}
}
