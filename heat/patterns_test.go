package heat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawnView is a view of which the truth is known.
type drawnView struct {
	View
	random *rand.Rand
}

// newDrawnView returns a view with even load of ten a cell, and noise.
func newDrawnView(rows, columns int, seed uint64) *drawnView {
	v := &drawnView{random: rand.New(rand.NewPCG(seed, 7))}
	for r := range rows {
		v.Rows = append(v.Rows, fmt.Sprintf("%05d", r))
		v.Cells = append(v.Cells, make([]float64, columns))
	}
	for c := range columns {
		v.Columns = append(v.Columns, time.Duration(c)*10*time.Second)
	}
	v.add(10, func(_, _ int) bool { return true })
	return v
}

// add adds a rate, half of it or up to one and a half, where it is wanted.
func (v *drawnView) add(rate float64, where func(r, c int) bool) {
	for r, cells := range v.Cells {
		for c := range cells {
			if where(r, c) {
				cells[c] += rate * (0.5 + v.random.Float64())
			}
		}
	}
}

func (v *drawnView) forget(where func(c int) bool) {
	for _, cells := range v.Cells {
		for c := range cells {
			if where(c) {
				cells[c] = math.NaN()
			}
		}
	}
}

func TestFindPatterns_FindsWhatIsThereAndNoMore(t *testing.T) {
	const rows, columns = 200, 120
	box := func(kind PatternKind, r0, r1, c0, c1 int) Pattern {
		return Pattern{Kind: kind, FirstRow: r0, LastRow: r1, FirstColumn: c0, LastColumn: c1}
	}
	for name, test := range map[string]struct {
		draw func(v *drawnView)
		want []Pattern
	}{
		"even load": {draw: func(*drawnView) {}},
		"nothing":   {draw: func(v *drawnView) { v.add(-10, func(int, int) bool { return false }); clearView(v) }},
		"zipf": {draw: func(v *drawnView) {
			tail := 0.0
			for rank := 150; rank < 20_000; rank++ {
				tail += math.Pow(float64(1+rank), -0.99) / 50
			}
			for rank := range rows { // the hottest 150 of 20,000 keys have rows of their own
				rate := tail
				if rank < 150 {
					rate = math.Pow(float64(1+rank), -0.99)
				}
				v.add(30_000*rate, func(r, _ int) bool { return r == rank*77%rows })
			}
		}},
		"load that grows slowly":    {draw: func(v *drawnView) { scaleView(v, func(c int) float64 { return 1 + 4*float64(c)/columns }) }},
		"day and night":             {draw: func(v *drawnView) { scaleView(v, func(c int) float64 { return 1.5 + math.Sin(float64(c)/10) }) }},
		"load for half of the time": {draw: func(v *drawnView) { scaleView(v, func(c int) float64 { return float64(1 + 9*(c/60)) }) }},
		"a request in a silent night": {draw: func(v *drawnView) {
			scaleView(v, func(c int) float64 { return float64(min(c/10, 1)) })
			v.Cells[7][3] = 1
		}},
		"one hot key": {func(v *drawnView) { v.add(1000, func(r, _ int) bool { return r == 70 }) }, []Pattern{box(Horizontal, 70, 70, 0, 119)}},
		"two hot keys, with gaps": {func(v *drawnView) {
			v.add(800, func(r, c int) bool { return r == 20 && c >= 30 && c%7 > 0 })
			v.add(800, func(r, c int) bool { return r == 150 && c < 90 && c%11 > 1 })
			v.forget(func(c int) bool { return c > 60 && c < 66 })
		}, []Pattern{box(Horizontal, 20, 20, 30, 119), box(Horizontal, 150, 150, 0, 89)}},
		"a hot narrow range": {func(v *drawnView) {
			v.add(900, func(r, c int) bool { return r >= 99 && r <= 101 && c >= 40 && c < 80 })
		}, []Pattern{box(Horizontal, 99, 101, 40, 79)}},
		"writes in the order of time": {func(v *drawnView) { v.add(500, func(r, c int) bool { return r == 50+c }) }, []Pattern{box(Diagonal, 50, 169, 0, 119)}},
		"slowly":                      {func(v *drawnView) { v.add(900, func(r, c int) bool { return r == 50+c/5 }) }, []Pattern{box(Diagonal, 50, 73, 0, 119)}},
		"to smaller keys, two rows wide, with gaps": {func(v *drawnView) {
			v.add(500, func(r, c int) bool { return c >= 20 && c%9 > 0 && (r == 180-c || r == 181-c) })
			v.forget(func(c int) bool { return c == 70 || c == 71 })
		}, []Pattern{box(Diagonal, 61, 161, 20, 119)}},
		"a scan that begins again":  {func(v *drawnView) { v.add(600, func(r, c int) bool { return r == 4*(c%40)+10 }) }, []Pattern{box(Diagonal, 10, 166, 0, 119)}},
		"in order for each tenant":  {func(v *drawnView) { v.add(200, func(r, c int) bool { return r%40 == c/3 }) }, []Pattern{box(Diagonal, 0, 199, 0, 119)}},
		"a burst":                   {func(v *drawnView) { v.add(60, func(_, c int) bool { return c >= 55 && c < 58 }) }, []Pattern{box(Vertical, 0, 199, 55, 57)}},
		"two bursts over most keys": {func(v *drawnView) { v.add(60, func(r, c int) bool { return r > 40 && (c == 20 || c == 90) }) }, []Pattern{box(Vertical, 0, 199, 20, 20), box(Vertical, 0, 199, 90, 90)}},
		"all of them": {func(v *drawnView) {
			v.add(1500, func(r, _ int) bool { return r == 10 })
			v.add(900, func(r, c int) bool { return r == 60+c })
			v.add(80, func(_, c int) bool { return c >= 100 && c < 104 })
		}, []Pattern{box(Diagonal, 60, 179, 0, 119), box(Horizontal, 10, 10, 0, 119), box(Vertical, 0, 199, 100, 103)}},
	} {
		for seed := range uint64(10) {
			v := newDrawnView(rows, columns, seed)
			test.draw(v)
			got := FindPatterns(v.View)
			if len(got) != len(test.want) {
				t.Errorf("%s: found %+v, want %+v", name, got, test.want)
				break
			}
			for _, want := range test.want {
				if !containsBox(got, want) {
					t.Errorf("%s: found %+v, not %+v", name, got, want)
				}
			}
		}
	}
}

func clearView(v *drawnView) {
	scaleView(v, func(int) float64 { return 0 })
}

func scaleView(v *drawnView, factor func(c int) float64) {
	for _, cells := range v.Cells {
		for c := range cells {
			cells[c] *= factor(c)
		}
	}
}

// containsBox reports whether a pattern was found, each end at most a few cells off.
func containsBox(all []Pattern, want Pattern) bool {
	const off = 5
	near := func(a, b int) bool { return a-b <= off && b-a <= off }
	for _, p := range all {
		if p.Kind == want.Kind && near(p.FirstRow, want.FirstRow) && near(p.LastRow, want.LastRow) && near(p.FirstColumn, want.FirstColumn) && near(p.LastColumn, want.LastColumn) {
			return true
		}
	}
	return false
}

// The figures of a pattern are those of what was drawn.
func TestFindPatterns_Figures(t *testing.T) {
	v := newDrawnView(100, 60, 1) // 1000 a column
	v.add(1000, func(r, _ int) bool { return r == 40 })
	v.add(1000, func(r, c int) bool { return r == 90-c/2 })
	all := FindPatterns(v.View)
	if len(all) != 2 {
		t.Fatalf("found %+v", all)
	}
	diagonal, line := all[0], all[1]
	if math.Abs(diagonal.Strength-1.0/3) > 0.07 || math.Abs(diagonal.Rate-1000) > 200 || math.Abs(diagonal.Steps+0.5) > 0.1 || diagonal.Lines != 1 {
		t.Errorf("the diagonal is %+v", diagonal)
	}
	if math.Abs(line.Strength-1.0/3) > 0.07 || math.Abs(line.Rate-1000) > 200 || line.Steps != 0 {
		t.Errorf("the line is %+v", line)
	}
	v = newDrawnView(100, 60, 2)
	v.add(40, func(_, c int) bool { return c == 30 || c == 31 })
	if all = FindPatterns(v.View); len(all) != 1 || math.Abs(all[0].Strength-5) > 0.5 || math.Abs(all[0].Rate-5000) > 500 {
		t.Errorf("the burst is %+v", all)
	}
}

func TestFindPatterns_FewRows_NoneIsHotBecauseItIsLarge(t *testing.T) {
	for _, rows := range []int{1, 2, 4} {
		if got := FindPatterns(newDrawnView(rows, 60, 3).View); len(got) > 0 {
			t.Errorf("%d rows of even load: %+v", rows, got)
		}
	}
}

// checkPatterns checks what holds for any view.
func checkPatterns(t interface{ Fatalf(string, ...any) }, v View) {
	for _, p := range FindPatterns(v) {
		if p.FirstRow < 0 || p.FirstRow > p.LastRow || p.LastRow >= len(v.Rows) || p.FirstColumn < 0 || p.FirstColumn > p.LastColumn || p.LastColumn >= len(v.Columns) ||
			!(p.Strength > 0) || math.IsInf(p.Strength, 0) || !(p.Rate >= 0) || math.IsInf(p.Rate, 0) || p.Kind != Vertical && p.Strength > 1+1e-9 || math.IsNaN(p.Steps) || math.IsInf(p.Steps, 0) {
			t.Fatalf("in a view of %d rows and %d columns: %+v", len(v.Rows), len(v.Columns), p)
		}
	}
}

func TestFindPatterns_AnyView_BoxesAreInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(0, 30).Draw(t, "rows"), rapid.IntRange(0, 30).Draw(t, "columns")
		v := View{Rows: make([]string, rows), Columns: make([]time.Duration, columns)}
		value := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 100, math.NaN(), math.Inf(1), -1, math.MaxFloat64, math.SmallestNonzeroFloat64}), rapid.Float64())
		for range rows {
			v.Cells = append(v.Cells, rapid.SliceOfN(value, columns, columns).Draw(t, "cells"))
		}
		checkPatterns(t, v)
	})
}

func FuzzFindPatterns(f *testing.F) {
	f.Add(uint8(10), []byte("aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"))
	f.Fuzz(func(t *testing.T, columns uint8, levels []byte) {
		width := int(columns) + 1
		v := View{Columns: make([]time.Duration, width)}
		for ; len(levels) >= width; levels = levels[width:] {
			cells := make([]float64, width)
			for c := range cells {
				if cells[c] = rateOf(levels[c]); levels[c] == 255 {
					cells[c] = math.NaN()
				}
			}
			v.Rows, v.Cells = append(v.Rows, ""), append(v.Cells, cells)
		}
		checkPatterns(t, v)
	})
}

func BenchmarkFindPatterns(b *testing.B) {
	v := newDrawnView(512, 360, 1)
	v.add(1000, func(r, c int) bool { return r == 100+c })
	for b.Loop() {
		FindPatterns(v.View)
	}
}
