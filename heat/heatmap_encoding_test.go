package heat

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// filledMap has a hot key, an edge that moves and much that is not hot, for so many seconds.
func filledMap(seconds int) *Map {
	m := must(NewMap(MapOptions{Layers: shortLayers, Seed: 1}))
	fillMap(m, 0, seconds, func(second int, r *Ranges) {
		for i := range 200 {
			r.Add(&Access{Key: fmt.Appendf(nil, "user:%04d", i*37%1000), Service: time.Millisecond, BytesOut: 10}, 1)
		}
		r.Add(&Access{Key: []byte("hot"), Write: true}, 500)
		r.Add(&Access{Key: fmt.Appendf(nil, "time:%06d", second), Write: true}, 50)
	})
	return m
}

func viewsOf(m *Map) (all []string) {
	for metric := range metrics {
		all = append(all, fmt.Sprint(must(m.View(ViewOptions{Metric: metric})))) // NaN is no value to compare with
	}
	return all
}

func TestMap_Loaded_ShowsWhatItDid(t *testing.T) {
	m := filledMap(150)
	b := must(m.AppendBinary(nil))
	again := must(NewMap(MapOptions{Layers: shortLayers, Seed: 2}))
	if err := again.Load(b, time.Hour); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(viewsOf(again), viewsOf(m)) {
		t.Error("it shows something else")
	}
	if again.Bytes() > m.Bytes()+len(b)/2 {
		t.Errorf("it takes %d bytes, the first %d", again.Bytes(), m.Bytes())
	}
	for _, m := range []*Map{m, again} { // it goes on
		fillMap(m, 160, 250, func(_ int, r *Ranges) { r.Add(&Access{Key: []byte("hot")}, 100) })
	}
	if got, want := must(again.View(ViewOptions{})).Columns, must(m.View(ViewOptions{})).Columns; !reflect.DeepEqual(got, want) {
		t.Errorf("its columns begin at %v, want %v", got, want)
	}
	if err := again.Load(b, time.Hour); !errors.Is(err, ErrOptions) {
		t.Errorf("a map that is in use is loaded: %v", err)
	}
}

// What is behind the clock is left out: new columns come behind it.
func TestMap_LoadedUnderAnEarlierClock_LeavesTheFutureOut(t *testing.T) {
	b := must(filledMap(150).AppendBinary(nil))
	m := must(NewMap(MapOptions{Layers: shortLayers}))
	if err := m.Load(b, 100*time.Second); err != nil {
		t.Fatal(err)
	}
	columns := must(m.View(ViewOptions{})).Columns
	if last := columns[len(columns)-1]; last >= 100*time.Second || last < 90*time.Second {
		t.Errorf("the last column begins at %v", last)
	}
}

func TestMap_LoadOfOtherBytes_FailsAndChangesNothing(t *testing.T) {
	b := must(filledMap(60).AppendBinary(nil))
	m := must(NewMap(MapOptions{Layers: shortLayers}))
	for n := range b {
		if err := m.Load(b[:n], time.Hour); !errors.Is(err, ErrEncoding) {
			t.Fatalf("%d of %d bytes are loaded: %v", n, len(b), err)
		}
	}
	if err := must(NewMap(MapOptions{})).Load(b, time.Hour); !errors.Is(err, ErrEncoding) {
		t.Errorf("other layers are loaded: %v", err)
	}
	if v := must(m.View(ViewOptions{})); len(v.Columns) > 0 {
		t.Errorf("it has %d columns", len(v.Columns))
	}
}

func FuzzMapLoad(f *testing.F) {
	for _, seconds := range []int{0, 3, 60} {
		f.Add(must(filledMap(seconds).AppendBinary(nil)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := must(NewMap(MapOptions{Layers: shortLayers}))
		if err := m.Load(b, time.Hour); err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		views := viewsOf(m)
		again := must(NewMap(MapOptions{Layers: shortLayers}))
		if err := again.Load(must(m.AppendBinary(nil)), time.Hour); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(viewsOf(again), views) {
			t.Fatal("what was loaded and encoded again shows something else")
		}
		m.Record(time.Hour, must(NewRanges(64, 1)))
		m.Record(2*time.Hour, must(NewRanges(64, 1)))
	})
}
