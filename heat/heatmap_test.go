package heat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shortLayers have a day of the default ones in a few minutes.
var shortLayers = []Layer{{time.Second, 20 * time.Second}, {2 * time.Second, 40 * time.Second}, {10 * time.Second, 200 * time.Second}}

// fillMap records a second after the other.
func fillMap(m *Map, from, to int, record func(second int, r *Ranges)) {
	seen := must(NewRanges(4096, 9))
	for second := from; second < to; second++ {
		record(second, seen)
		m.Record(time.Duration(second+1)*time.Second, seen)
		seen.Reset()
	}
	m.Record(time.Duration(to+1)*time.Second, seen) // ends the last column
}

func sumColumn(v View, column int) (sum float64) {
	for _, row := range v.Cells {
		sum += row[column]
	}
	return sum
}

func TestLevel_IsAtMostFivePercentOff(t *testing.T) {
	for rate := 10.0; rate < 3e9; rate *= 1.07 {
		if got := rateOf(levelOf(rate)); math.Abs(got-rate) > 0.05*rate {
			t.Fatalf("%v is shown as %v", rate, got)
		}
	}
	if levelOf(0) != 0 || levelOf(math.Inf(1)) != 255 || rateOf(0) != 0 || levelOf(0.1) == 0 {
		t.Error("the ends are wrong")
	}
}

// Whatever rows columns have, none of the rate is lost when they are brought onto others.
func TestMap_OtherRowsHaveTheSameSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *axis {
			keys := rapid.SliceOfN(rapid.StringMatching("[a-c]{1,3}"), 0, 12).Draw(t, name)
			slices.Sort(keys)
			return &axis{keys: slices.Compact(keys)}
		}
		from, to := draw("from"), draw("to")
		c := column{axis: from, cells: make([]uint8, from.rows()*int(metrics)), high: "d"}
		want, highest := 0.0, 0.0
		for i := range from.rows() {
			level := uint8(rapid.IntRange(0, 200).Draw(t, "level"))
			c.row(MetricWrites)[i], c.row(MetricP99)[i] = level, level
			want += rateOf(level)
			highest = max(highest, rateOf(level))
		}
		sum, times, got := make([]float64, to.rows()), make([]float64, to.rows()), 0.0
		c.addTo(sum, to.keys, MetricWrites, 2)
		c.addTo(times, to.keys, MetricP99, 2)
		for row, n := range sum {
			got += n
			// A row has something only if it overlaps one that has.
			if n > 0 {
				overlaps := false
				for i, level := range c.row(MetricWrites) {
					begins := i == 0 || row == len(to.keys) || from.keys[i-1] < to.keys[row]
					ends := i == len(from.keys) || row == 0 || from.keys[i] > to.keys[row-1]
					overlaps = overlaps || level > 0 && begins && ends
				}
				if !overlaps {
					t.Fatalf("row %d has %v", row, n)
				}
			}
		}
		if math.Abs(got-2*want) > 1e-6*want || slices.Max(times) != highest {
			t.Fatalf("%v became %v, the highest %v became %v", want, got/2, highest, slices.Max(times))
		}
	})
}

func TestMap_RatesOfAllLayers(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: shortLayers, Rows: 32}))
	fillMap(m, 0, 260, func(second int, r *Ranges) {
		n := 200
		if second%20 == 0 {
			n = 1000 // a burst of a second
		}
		for i := range n {
			r.Add(&Access{Key: fmt.Appendf(nil, "k%03d", i%200), BytesOut: 10, Service: 3 * time.Millisecond}, 1)
		}
	})
	v := must(m.View(ViewOptions{}))
	if len(v.Columns) != 260 || v.Columns[0] != 0 || len(v.Rows) < 8 || len(v.Rows) > 32 {
		t.Fatalf("%d columns from %v, %d rows", len(v.Columns), v.Columns[0], len(v.Rows))
	}
	for i, at := range v.Columns {
		want := 200.0
		switch second := int(at / time.Second); {
		case second >= 240 && second%20 == 0:
			want = 1000
		case second >= 200 && second < 240 && second%20/2 == 0:
			want = 600
		case second < 200 && second%20/10 == 0:
			want = 280
		}
		if got := sumColumn(v, i); math.Abs(got-want) > 0.15*want {
			t.Errorf("at %v it shows %v a second, want %v", at, got, want)
		}
	}
	for name, o := range map[string]ViewOptions{
		"bytes": {Metric: MetricBytesOut, From: 100 * time.Second, To: 120 * time.Second},
		"p99":   {Metric: MetricP99, From: 250 * time.Second},
		"keys":  {Start: []byte("k050"), End: []byte("k150"), From: 241 * time.Second, To: 245 * time.Second},
		"small": {Rows: 4, Columns: 10},
		"none":  {Metric: MetricConflicts},
	} {
		v := must(m.View(o))
		got := sumColumn(v, len(v.Columns)-1)
		switch name {
		case "bytes":
			if len(v.Columns) != 2 || math.Abs(sumColumn(v, 0)-2800) > 420 || math.Abs(got-2000) > 300 {
				t.Errorf("bytes: %d columns, the last has %v", len(v.Columns), got)
			}
		case "p99":
			if p99 := v.Cells[0][0]; p99 < 2900 || p99 > 4500 || len(v.Columns) != 10 {
				t.Errorf("p99 is %v µs", p99)
			}
		case "keys":
			if v.Rows[0] != "k050" || math.Abs(got-100) > 20 || len(v.Columns) != 4 {
				t.Errorf("from %q: %v a second", v.Rows[0], got)
			}
		case "small":
			if len(v.Rows) != 4 || len(v.Columns) > 10 || v.Rows[0] != "" || math.Abs(sumColumn(v, 3)-240) > 40 {
				t.Errorf("%d rows, %d columns, %v a second", len(v.Rows), len(v.Columns), sumColumn(v, 3))
			}
		case "none":
			if got != 0 {
				t.Errorf("%v conflicts", got)
			}
		}
	}
}

func TestMap_AHotKeyHasARowOfItsOwn(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: shortLayers, Rows: 64}))
	random := rand.New(rand.NewPCG(1, 1))
	fillMap(m, 0, 20, func(second int, r *Ranges) {
		for range 500 {
			key := fmt.Appendf(nil, "user:%06d", random.IntN(100_000))
			if second >= 5 && random.IntN(2) == 0 {
				key = []byte("user:050000") // from now on
			}
			r.Add(&Access{Key: key}, 1)
		}
	})
	v := must(m.View(ViewOptions{From: 15 * time.Second}))
	row := slices.Index(v.Rows, "user:050000")
	if row < 0 || row+1 == len(v.Rows) || v.Rows[row+1] != "user:050000\x00" {
		t.Fatalf("the hot key has no row: %q", v.Rows)
	}
	for i, rate := range v.Cells[row] {
		if math.Abs(rate-250) > 60 {
			t.Errorf("it has %v a second in column %d", rate, i)
		}
	}
}

// The load moves to other keys: a view of both times has rows for both, and one for the key that was hot in both.
func TestMap_AViewHasRowsOfAllItsColumns(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: []Layer{{time.Second, time.Minute}}, Rows: 64}))
	fillMap(m, 0, 60, func(second int, r *Ranges) {
		prefix := "evening"
		if second < 30 {
			prefix = "morning"
		}
		for i := range 300 {
			key := fmt.Appendf(nil, "%s/%03d", prefix, i)
			if i%3 == 0 {
				key = []byte("hot")
			}
			r.Add(&Access{Key: key}, 1)
		}
	})
	for _, rows := range []int{512, 40} {
		v := must(m.View(ViewOptions{Rows: rows}))
		in := func(prefix string) (n int) {
			for _, k := range v.Rows {
				if strings.HasPrefix(k, prefix) {
					n++
				}
			}
			return n
		}
		if len(v.Rows) > rows || in("morning") < rows/10 || in("morning") < 10 || in("evening") < 10 {
			t.Errorf("of %d rows %d are of the morning and %d of the evening", len(v.Rows), in("morning"), in("evening"))
		}
		row := slices.Index(v.Rows, "hot")
		if row < 0 || v.Rows[row+1] != "hot\x00" || math.Abs(v.Cells[row][50]-100) > 40 {
			t.Errorf("the hot key has no row: %q", v.Rows)
		}
	}
	for _, rows := range []int{1, 2, 3, 7} {
		if v := must(m.View(ViewOptions{Rows: rows})); len(v.Rows) != rows || math.Abs(sumColumn(v, 40)-300) > 60 {
			t.Errorf("%d rows in place of %d, %v a second", len(v.Rows), rows, sumColumn(v, 40))
		}
	}
}

// Ids that grow: in each column the load is where it was, not in all rows above the edge.
func TestMap_AMovingEdgeIsADiagonal(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: shortLayers, Rows: 64}))
	fillMap(m, 0, 100, func(second int, r *Ranges) {
		for i := range 100 {
			r.Add(&Access{Key: fmt.Appendf(nil, "%06d", 100*second+i), Write: true}, 1)
		}
	})
	for _, second := range []int{5, 45, 75, 95} { // of three layers
		at := time.Duration(second) * time.Second
		v := must(m.View(ViewOptions{Metric: MetricWrites, From: at, To: at + 1, Start: fmt.Appendf(nil, "%06d", second/10*1000), End: fmt.Appendf(nil, "%06d", second/10*1000+1000)}))
		if got := sumColumn(v, 0); math.Abs(got-100) > 25 {
			t.Errorf("second %d: %v a second where the edge was", second, got)
		}
	}
}

// The same between keys that stay where they are: the row of the edge reaches up to the next of these, and the load is not
// spread over all of it.
func TestMap_AMovingEdgeBetweenOtherKeys_IsSeenWhereItIs(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: shortLayers, Rows: 64}))
	fillMap(m, 0, 200, func(second int, r *Ranges) {
		for i := range 100 {
			r.Add(&Access{Key: fmt.Appendf(nil, "b%06d", 100*second+i), Write: true}, 1)
			r.Add(&Access{Key: fmt.Appendf(nil, "a%06d", i), Write: true}, 1)
			r.Add(&Access{Key: fmt.Appendf(nil, "c%06d", i), Write: true}, 1)
		}
	})
	v := must(m.View(ViewOptions{Metric: MetricWrites}))
	for i, at := range v.Columns {
		second := int(at / time.Second)
		if second < 10 {
			continue // its rows are those of the first second
		}
		near, all := 0.0, 0.0
		for row, key := range v.Rows {
			n := v.Cells[row][i]
			all += n
			// A column of the oldest layer is ten seconds, and so are the rows made of it.
			if key >= fmt.Sprintf("b%06d", 100*(second-20)) && key <= fmt.Sprintf("b%06d", 100*(second+20)) {
				near += n
			}
		}
		if math.Abs(all-300) > 60 || math.Abs(near-100) > 40 {
			t.Errorf("second %d: of %.0f writes a second %.0f are where the edge was, want 300 and 100", second, all, near)
		}
	}
}

// A time of which nothing was recorded is not known; one in which nothing was asked is cold.
func TestMap_Gaps(t *testing.T) {
	m := must(NewMap(MapOptions{Layers: shortLayers}))
	if v := must(m.View(ViewOptions{})); len(v.Rows) != 0 {
		t.Errorf("%+v of nothing", v)
	}
	add := func(_ int, r *Ranges) { r.Add(&Access{Key: []byte("k")}, 1) }
	fillMap(m, 0, 3, add)
	fillMap(m, 10, 13, add)
	fillMap(m, 14, 15, func(int, *Ranges) {})
	v := must(m.View(ViewOptions{}))
	for second, want := range []float64{1, 1, 1, 0, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), 1, 1, 1, 0, 0} {
		if got := v.Cells[0][second]; got != want && !(math.IsNaN(got) && math.IsNaN(want)) && math.Abs(got-want) > 0.1 {
			t.Errorf("second %d: %v, want %v", second, got, want)
		}
	}
	m.Record(0, must(NewRanges(16, 0))) // the clock was set back
	fillMap(m, 1000, 1001, add)
	if v := must(m.View(ViewOptions{})); v.Columns[0] < 700*time.Second {
		t.Errorf("columns of %v are kept for ever", v.Columns[0])
	}
}

// However keys change, the map takes no more than it may: old columns lose rows, new ones keep theirs.
func TestMap_TakesNoMoreThanItMay(t *testing.T) {
	layers, cap := []Layer{{time.Second, 60 * time.Second}, {2 * time.Second, 200 * time.Second}, {4 * time.Second, 400 * time.Second}}, 1<<20
	seconds := 500
	if !testing.Short() { // as many columns as by default
		layers, cap, seconds = nil, 3<<20, 1100
		for _, n := range []int{180, 60, 210, 160, 288, 168} {
			layers = append(layers, Layer{time.Second, time.Duration(n) * time.Second})
		}
	}
	m := must(NewMap(MapOptions{Layers: layers, MaxBytes: cap}))
	random := rand.New(rand.NewPCG(2, 2))
	most := 0
	fillMap(m, 0, seconds, func(second int, r *Ranges) {
		for range 1200 { // other keys all the time, long ones
			key := fmt.Appendf(nil, "%05d/%s/%06d", second/10, strings.Repeat("x", 60), random.IntN(1e6))
			r.Add(&Access{Key: key, Write: true}, 1)
		}
		most = max(most, m.Bytes())
	})
	if most > cap {
		t.Errorf("it took %d bytes of %d", most, cap)
	}
	if most < cap*2/3 {
		t.Errorf("it took only %d bytes of %d", most, cap)
	}
	if last := m.layers[len(m.layers)-1]; !testing.Short() && len(last.columns) < int(last.Keep/last.Step)*9/10 {
		t.Fatalf("of the last layer %d columns are left", len(last.columns))
	}
	oldest, newest := m.layers[len(m.layers)-1].columns[0], m.layers[0].columns[len(m.layers[0].columns)-1]
	if oldest.axis.rows() >= newest.axis.rows() || newest.axis.rows() < 300 {
		t.Errorf("the oldest column has %d rows, the newest %d", oldest.axis.rows(), newest.axis.rows())
	}
	bytes, axes := 0, map[*axis]bool{}
	for _, l := range m.layers {
		for i := range l.columns {
			bytes += l.columns[i].bytes()
			if a := l.columns[i].axis; !axes[a] {
				axes[a] = true
				bytes += a.bytes()
			}
		}
	}
	if bytes != m.bytes {
		t.Errorf("it counts %d bytes and has %d", m.bytes, bytes)
	}
}

func TestMap_BadOptions(t *testing.T) {
	for _, o := range []MapOptions{
		{Rows: 1}, {Rows: 1 << 20}, {MaxBytes: 1}, {Layers: []Layer{{0, 1}}}, {Layers: []Layer{{2, 3}}}, {Layers: []Layer{{2, 4}, {3, 6}}},
	} {
		if _, err := NewMap(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	m := must(NewMap(MapOptions{}))
	for _, o := range []ViewOptions{{Metric: metrics}, {Rows: -1}, {Columns: -1}, {From: -1}} {
		if _, err := m.View(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func BenchmarkMap(b *testing.B) {
	traffic := newTraffic(1, 2000)
	m, seen := must(NewMap(MapOptions{})), must(NewRanges(2048, 1))
	for i := range traffic {
		seen.Add(&traffic[i], 1)
	}
	second := 0
	b.Run("op=record", func(b *testing.B) {
		for b.Loop() {
			second++
			m.Record(time.Duration(second)*time.Second, seen)
		}
		b.ReportMetric(float64(m.Bytes())/(1<<20), "MiB")
	})
	b.Run("op=view", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.View(ViewOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
