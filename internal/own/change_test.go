package own

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// plain is a list as a slice.
type plain []Range

// change is what [List.change] does, by looking at everything.
func (p plain) change(expect, become []Range) (plain, bool) {
	next := slices.Clone(p)
	for i := range expect {
		at := slices.IndexFunc(next, expect[i].equal2)
		if at < 0 {
			return p, false
		}
		next = slices.Delete(next, at, at+1)
	}
	next = append(next, become...)
	slices.SortFunc(next, compareStarts)
	for i := range next {
		if next[i].Span.Empty() || i > 0 && next[i-1].Span.Overlaps(next[i].Span) {
			return p, false
		}
	}
	return next, true
}

func (r *Range) equal2(o Range) bool { return r.equal(&o) }

// except returns what another list has not.
func (p plain) except(o plain) (found plain) {
	for i := range p {
		if !slices.ContainsFunc(o, p[i].equal2) {
			found = append(found, p[i])
		}
	}
	return found
}

// row returns n ranges side by side, some hundred with gaps, then some hundred that are
// all served, and so on. Their starts have much in common, and
// some have more than eight bytes in common with the next.
func row(n int) (ranges plain) {
	cut := func(i int) string { return fmt.Sprintf("k/%03d/%09d", i/20, i) }
	for i := range n {
		r := Range{Span: span(cut(i), cut(i+1)), Version: partition.Version(i % 5), State: State(1 + i%4)}
		switch {
		case i/150%2 == 1:
			r.State = Serving
		case i%17 == 3:
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// step draws a change: it splits, joins, moves or removes what is there, or is wrong.
func step(t *rapid.T, p plain, version partition.Version) (expect, become []Range) {
	if len(p) == 0 {
		return nil, row(rapid.IntRange(1, 300).Draw(t, "new"))
	}
	i := rapid.IntRange(0, len(p)-1).Draw(t, "at")
	n := min(rapid.SampledFrom([]int{1, 1, 2, 3, 90, 300}).Draw(t, "ranges"), len(p)-i)
	expect = slices.Clone(p[i : i+n])
	hull := hullOf(expect, nil)
	whole := Range{Span: hull, Version: version, State: Serving}
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return expect, nil
	case 1:
		return expect, []Range{whole}
	case 2: // as a hull it may be in the way of others
		return expect[:1], []Range{whole}
	case 3:
		return nil, []Range{whole}
	case 4:
		expect[n-1].Version += 100
		return expect, []Range{whole}
	}
	start := whole.Span.Start
	for range rapid.SampledFrom([]int{1, 2, 200}).Draw(t, "pieces") {
		piece := whole
		piece.Span = partition.Span{Start: start, End: append(bytes.Clone(start), 1)}
		if start = piece.Span.End; len(hull.End) > 0 && bytes.Compare(start, hull.End) > 0 {
			break
		}
		become = append(become, piece)
	}
	whole.Span.Start = start
	return expect, append(become, whole)
}

func TestAChangedListIsWhatASliceWouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := row(rapid.SampledFrom([]int{0, 1, 40, 300}).Draw(t, "ranges"))
		list, err := NewList(want...)
		if err != nil {
			t.Fatal(err)
		}
		for v := range partition.Version(rapid.IntRange(1, 8).Draw(t, "changes")) {
			expect, become := step(t, want, v+10)
			next, ok := want.change(expect, become)
			got, done, err := list.change(expect, become)
			switch {
			case list.has(become):
				if !done || got != list {
					t.Fatalf("what is there already: %v", err)
				}
				continue
			case ok != (err == nil) || err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrList):
				t.Fatalf("%v to %v: %v, a slice says %v", expect, become, err, ok)
			case err != nil:
				continue
			}
			sameAs(t, list, want)
			sameAs(t, got, next)
			if diff := plain(slices.Collect(got.Except(list))); !slices.EqualFunc(diff, next.except(want), equalRanges) {
				t.Fatalf("new are %v, not %v", diff, next.except(want))
			}
			if diff := plain(slices.Collect(list.Except(got))); !slices.EqualFunc(diff, want.except(next), equalRanges) {
				t.Fatalf("gone are %v, not %v", diff, want.except(next))
			}
			list, want = got, next
		}
	})
}

// sameReads checks what a list says of reads against a look at all ranges.
func sameReads(t *rapid.T, l *List, want plain) {
	frozen := 0
	var upto partition.Position // of the reads that want[i] is among
	for i := len(want) - 1; i >= 0; i-- {
		r := &want[i]
		if r.State == Frozen {
			frozen++
		}
		if i+1 == len(want) || !want[i+1].Reads() || !bytes.Equal(r.Span.End, want[i+1].Span.Start) {
			upto = r.Span.End
		}
		for _, p := range []partition.Position{r.Span.Start, append(bytes.Clone(r.Span.Start), 0)} {
			if !r.Span.Contains(p) {
				continue
			}
			end, ok := l.ReadsUpto(p)
			if l.Reads(p) != r.Reads() || ok != r.Reads() || ok && !bytes.Equal(end, upto) {
				t.Fatalf("%q of %v is read: %v, %v up to %q, want %q", p, r, l.Reads(p), ok, end, upto)
			}
		}
		if gap := len(r.Span.End) > 0 && (i+1 == len(want) || !bytes.Equal(r.Span.End, want[i+1].Span.Start)); gap && l.Reads(r.Span.End) {
			t.Fatalf("the gap behind %v is read", r)
		}
	}
	if l.frozen != frozen {
		t.Fatalf("%d ranges are frozen, not %d", l.frozen, frozen)
	}
}

// sameAs checks a list, with all that makes it fast.
func sameAs(t *rapid.T, l *List, want plain) {
	if got := slices.Collect(l.All()); !slices.EqualFunc(got, want, equalRanges) || l.Len() != len(want) {
		t.Fatalf("%d ranges are %v, not %v", l.Len(), got, want)
	}
	for i, c := range l.chunks {
		if n := len(c.ranges); n == 0 || n > maxChunk || n < minChunk && len(l.chunks) > 1 {
			t.Fatalf("chunk %d of %d has %d ranges", i, len(l.chunks), n)
		}
	}
	sameReads(t, l, want)
	for i, r := range want {
		if got, ok := l.Find(r.Span.Start); !ok || !got.equal(&r) {
			t.Fatalf("%v is not found", r)
		}
		behind := append(bytes.Clone(r.Span.Start), 0)
		if got, ok := l.Find(behind); ok != r.Span.Contains(behind) || ok && !got.equal(&r) {
			t.Fatalf("what is behind the start of %v is in %v, %v", r, got, ok)
		}
		if before := r.Span.Start[:len(r.Span.Start)-1]; i == 0 {
			if got, ok := l.Find(before); ok {
				t.Fatalf("%q is in %v", before, got)
			}
		}
	}
}

// That is what makes a change cost the same however many ranges there are.
func TestAChangeSharesAllButAFewChunks(t *testing.T) {
	ranges := row(10_000)
	list, err := NewList(ranges...)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 4_000, len(ranges) - 1} {
		r := ranges[i]
		r.Version++
		next, _, err := list.change(ranges[i:i+1], []Range{r})
		if err != nil {
			t.Fatal(err)
		}
		shared := 0
		for _, c := range next.chunks {
			if slices.Contains(list.chunks, c) {
				shared++
			}
		}
		if made := len(next.chunks) - shared; made > 2 || shared < 50 {
			t.Errorf("a change of range %d makes %d chunks and shares %d", i, made, shared)
		}
	}
}
