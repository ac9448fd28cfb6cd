package ownership

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// memoryState is a store in memory.
type memoryState map[string][]byte

func (s memoryState) Get(key, dst []byte) ([]byte, bool, error) {
	v, ok := s[string(key)]
	return append(dst, v...), ok, nil
}

func (s memoryState) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	var keys []string
	for k := range s {
		if k >= string(start) && k < string(end) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if reverse {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		if !visit([]byte(k), s[k]) {
			break
		}
	}
	return nil
}

func (s memoryState) apply(t fataler, b *effect.Builder) {
	batch, err := effect.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		if op.Delete {
			delete(s, string(op.Key))
		} else {
			s[string(op.Key)] = bytes.Clone(op.Value)
		}
	}
}

type fataler interface{ Fatal(...any) }

// evalChange evaluates a ChangeOwnership on a site whose records are in s.
func evalChange(t fataler, s memoryState, site *Site, c *ChangeOwnership) error {
	e := command.NewEnv(s)
	c.Bind(site)
	reply := e.Do(c)
	if reply.Err == nil {
		s.apply(t, e.Effects())
	}
	return reply.Err
}

func positionOf(s string) partition.Position { return partition.Position(s) }

func equalRanges(a, b Range) bool { return a.equal(&b) }

func spanOf(start, end string) partition.Span {
	return partition.Span{Start: positionOf(start), End: positionOf(end)}
}

func TestOneReownIsWhatItTakes(t *testing.T) {
	s, site := memoryState{}, &Site{Group: 3, Table: &Table{}}
	whole := Range{Span: spanOf("", ""), Version: 1, State: Serving}
	left := Range{Span: spanOf("", "m"), Version: 2, State: Serving}
	right := Range{Span: spanOf("m", ""), Version: 2, State: Serving}
	frozen, gone := right, right
	frozen.State, frozen.Job = Frozen, 7
	gone.State, gone.Job, gone.Version = Foreign, 7, 3
	for _, step := range []struct {
		name           string
		expect, become []Range
		err            error
	}{
		{"give", nil, []Range{whole}, nil},
		{"give again", nil, []Range{whole}, nil},
		{"give what is there", nil, []Range{left}, ErrStale},
		{"split", []Range{whole}, []Range{left, right}, nil},
		{"split again", []Range{whole}, []Range{left, right}, nil},
		{"freeze", []Range{right}, []Range{frozen}, nil},
		{"split what is frozen", []Range{right}, []Range{{Span: spanOf("m", "p"), Version: 4, State: Serving}}, ErrStale},
		{"give away", []Range{frozen}, []Range{gone}, nil},
		{"freeze late", []Range{right}, []Range{frozen}, ErrStale},
		{"give late", nil, []Range{right}, ErrStale},
		{"take back", []Range{gone}, []Range{{Span: right.Span, Version: 5, State: Serving}}, nil},
		{"give away late", []Range{frozen}, []Range{gone}, ErrStale},
		{"an empty span", nil, []Range{{Span: spanOf("x", "x"), State: Serving}}, ErrBadTable},
	} {
		before := site.Table
		err := evalChange(t, s, site, &ChangeOwnership{Expect: step.expect, Become: step.become})
		if !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if err != nil && site.Table != before {
			t.Errorf("%s: the list changed though it was refused", step.name)
		}
		loaded, err := LoadTable(s, 3)
		if err != nil || !slices.EqualFunc(slices.Collect(loaded.All()), slices.Collect(site.Table.All()), equalRanges) {
			t.Fatalf("%s: the records say %v, %v; the list is %v", step.name, loaded, err, site.Table)
		}
	}
	if other, err := LoadTable(s, 4); err != nil || other.Len() != 0 {
		t.Errorf("another group has %v, %v", other, err)
	}
}

func TestWhatMayBeReadAndWritten(t *testing.T) {
	list, err := NewTable(
		Range{Span: spanOf("a", "c"), Version: 1, State: Serving}, Range{Span: spanOf("c", "f"), Version: 4, State: Serving},
		Range{Span: spanOf("f", "h"), Version: 2, State: Frozen}, Range{Span: spanOf("h", "k"), Version: 2, State: Incoming},
		Range{Span: spanOf("p", ""), Version: 3, State: Foreign},
	)
	if err != nil {
		t.Fatal(err)
	}
	site := Site{Group: 1, Table: list}
	for key, want := range map[string][2]error{
		"0": {ErrWrongGroup, ErrWrongGroup}, "a": {}, "b": {}, "c": {}, "f": {nil, ErrFrozen}, "g": {nil, ErrFrozen},
		"h": {ErrWrongGroup, ErrWrongGroup}, "l": {ErrWrongGroup, ErrWrongGroup}, "z": {ErrWrongGroup, ErrWrongGroup},
	} {
		if r, w := site.CheckPosition(positionOf(key), false), site.CheckPosition(positionOf(key), true); !errors.Is(r, want[0]) || !errors.Is(w, want[1]) {
			t.Errorf("%s: read %v, write %v, want %v", key, r, w, want)
		}
	}
	for _, c := range []struct {
		span       partition.Span
		read, part error
	}{
		{spanOf("a", "c"), nil, nil}, {spanOf("b", "bb"), nil, nil}, {spanOf("b", "d"), nil, nil}, {spanOf("a", "h"), nil, ErrFrozen},
		{spanOf("e", "g"), nil, ErrFrozen}, {spanOf("f", "g"), nil, ErrFrozen}, {spanOf("g", "i"), ErrWrongGroup, ErrWrongGroup}, {spanOf("0", "b"), ErrWrongGroup, ErrWrongGroup},
		{spanOf("d", ""), ErrWrongGroup, ErrWrongGroup}, {spanOf("p", ""), ErrWrongGroup, ErrWrongGroup},
	} {
		if r, p := site.CheckReadSpan(c.span), site.CheckWriteSpan(c.span); !errors.Is(r, c.read) || !errors.Is(p, c.part) {
			t.Errorf("%v: read %v, part %v, want %v, %v", c.span, r, p, c.read, c.part)
		}
	}
	var wrong *WrongGroupError
	if err := site.CheckPosition(positionOf("z"), false); !errors.As(err, &wrong) || wrong.Version != 4 || wrong.Group != 1 {
		t.Errorf("%v does not say what is known", err)
	}
}

// Lookups agree with a look at every range.
func TestLookupsFindWhatALookAtAllFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfNDistinct(rapid.StringMatching("[a-f]{0,3}"), 2, 12, rapid.ID).Draw(t, "cuts")
		slices.Sort(cuts)
		var ranges []Range
		for i := range cuts {
			end := ""
			if i+1 < len(cuts) {
				end = cuts[i+1]
			}
			if rapid.IntRange(0, 3).Draw(t, "gap") > 0 {
				ranges = append(ranges, Range{Span: spanOf(cuts[i], end), State: State(rapid.IntRange(1, 4).Draw(t, "state"))})
			}
		}
		list, err := NewTable(ranges...)
		if err != nil {
			t.Fatal(err)
		}
		s := spanOf(rapid.StringMatching("[a-f]{0,3}").Draw(t, "start"), rapid.StringMatching("[a-f]{0,3}").Draw(t, "end"))
		if s.Empty() {
			return
		}
		var over []Range
		for _, r := range ranges {
			if r.Span.Contains(s.Start) || s.Contains(r.Span.Start) {
				over = append(over, r)
			}
			if got, ok := list.Find(s.Start); r.Span.Contains(s.Start) && (!ok || !got.equal(&r)) {
				t.Fatalf("%q is found in %v, not %v", s.Start, got, r)
			}
		}
		if got := slices.Collect(list.ScanOverlapping(s)); !slices.EqualFunc(got, over, equalRanges) {
			t.Fatalf("over %v: %v, want %v", s, got, over)
		}
		covered := true
		for _, p := range append(cuts, string(s.Start), string(s.Start)+"zzzz") {
			if r, ok := list.Find(positionOf(p)); s.Contains(positionOf(p)) && (!ok || !r.IsReadable()) {
				covered = false
			}
		}
		if list.CanReadSpan(s) != covered {
			t.Fatalf("%v covers %v: %v, want %v", list, s, !covered, covered)
		}
	})
}

func TestListsThatOverlapAreRefused(t *testing.T) {
	for _, ranges := range [][]Range{
		{{Span: spanOf("a", "c"), State: Serving}, {Span: spanOf("b", "d"), State: Foreign}},
		{{Span: spanOf("a", ""), State: Serving}, {Span: spanOf("b", "d"), State: Serving}},
		{{Span: spanOf("b", "a"), State: Serving}},
		{{Span: spanOf("a", "b")}},
	} {
		if _, err := NewTable(ranges...); !errors.Is(err, ErrBadTable) {
			t.Errorf("%v: %v, want ErrList", ranges, err)
		}
	}
}

func FuzzRecordsReadBack(f *testing.F) {
	r := Range{Span: spanOf("a", "b"), Version: 3, State: Incoming, Job: 4, Attempt: 5, CopiedUpTo: 6}
	f.Add([]byte("a"), r.appendRecord(nil))
	f.Fuzz(func(t *testing.T, start, b []byte) {
		r, err := decodeRange(start, b)
		if err != nil {
			if !errors.Is(err, ErrBadRecord) {
				t.Fatal(err)
			}
			return
		}
		if again := r.appendRecord(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x reads back as %x", b, again)
		}
	})
}

// sliceTable is a list as a slice.
type sliceTable []Range

// changeRanges is what [Table.changeRanges] does, by looking at everything.
func (p sliceTable) changeRanges(expect, become []Range) (sliceTable, bool) {
	next := slices.Clone(p)
	for i := range expect {
		at := slices.IndexFunc(next, expect[i].equalValue)
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

func (r *Range) equalValue(o Range) bool { return r.equal(&o) }

// findMissingFrom returns what another list has not.
func (p sliceTable) findMissingFrom(o sliceTable) (found sliceTable) {
	for i := range p {
		if !slices.ContainsFunc(o, p[i].equalValue) {
			found = append(found, p[i])
		}
	}
	return found
}

// makeRanges returns n ranges side by side, some hundred with gaps, then some hundred that are
// all served, and so on. Their starts have much in common, and
// some have more than eight bytes in common with the next.
func makeRanges(n int) (ranges sliceTable) {
	cut := func(i int) string { return fmt.Sprintf("k/%03d/%09d", i/20, i) }
	for i := range n {
		r := Range{Span: spanOf(cut(i), cut(i+1)), Version: partition.Version(i % 5), State: State(1 + i%4)}
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

// drawChange draws a change: it splits, joins, moves or removes what is there, or is wrong.
func drawChange(t *rapid.T, p sliceTable, version partition.Version) (expect, become []Range) {
	if len(p) == 0 {
		return nil, makeRanges(rapid.IntRange(1, 300).Draw(t, "new"))
	}
	i := rapid.IntRange(0, len(p)-1).Draw(t, "at")
	n := min(rapid.SampledFrom([]int{1, 1, 2, 3, 90, 300}).Draw(t, "ranges"), len(p)-i)
	expect = slices.Clone(p[i : i+n])
	hull := boundingSpan(expect, nil)
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
		want := makeRanges(rapid.SampledFrom([]int{0, 1, 40, 300}).Draw(t, "ranges"))
		list, err := NewTable(want...)
		if err != nil {
			t.Fatal(err)
		}
		for v := range partition.Version(rapid.IntRange(1, 8).Draw(t, "changes")) {
			expect, become := drawChange(t, want, v+10)
			next, ok := want.changeRanges(expect, become)
			got, done, err := list.changeRanges(expect, become)
			switch {
			case list.hasAll(become):
				if !done || got != list {
					t.Fatalf("what is there already: %v", err)
				}
				continue
			case ok != (err == nil) || err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrBadTable):
				t.Fatalf("%v to %v: %v, a slice says %v", expect, become, err, ok)
			case err != nil:
				continue
			}
			checkTable(t, list, want)
			checkTable(t, got, next)
			if diff := sliceTable(slices.Collect(got.ScanMissingFrom(list))); !slices.EqualFunc(diff, next.findMissingFrom(want), equalRanges) {
				t.Fatalf("new are %v, not %v", diff, next.findMissingFrom(want))
			}
			if diff := sliceTable(slices.Collect(list.ScanMissingFrom(got))); !slices.EqualFunc(diff, want.findMissingFrom(next), equalRanges) {
				t.Fatalf("gone are %v, not %v", diff, want.findMissingFrom(next))
			}
			list, want = got, next
		}
	})
}

// checkReads checks what a table reports about reads against a look at all ranges.
func checkReads(t *rapid.T, l *Table, want sliceTable) {
	frozen := 0
	var upto partition.Position // of the reads that want[i] is among
	for i := len(want) - 1; i >= 0; i-- {
		r := &want[i]
		if r.State == Frozen {
			frozen++
		}
		if i+1 == len(want) || !want[i+1].IsReadable() || !bytes.Equal(r.Span.End, want[i+1].Span.Start) {
			upto = r.Span.End
		}
		for _, p := range []partition.Position{r.Span.Start, append(bytes.Clone(r.Span.Start), 0)} {
			if !r.Span.Contains(p) {
				continue
			}
			end, ok := l.FindReadableEnd(p)
			if l.CanRead(p) != r.IsReadable() || ok != r.IsReadable() || ok && !bytes.Equal(end, upto) {
				t.Fatalf("%q of %v is read: %v, %v up to %q, want %q", p, r, l.CanRead(p), ok, end, upto)
			}
		}
		if gap := len(r.Span.End) > 0 && (i+1 == len(want) || !bytes.Equal(r.Span.End, want[i+1].Span.Start)); gap && l.CanRead(r.Span.End) {
			t.Fatalf("the gap behind %v is read", r)
		}
	}
	if l.frozenCount != frozen {
		t.Fatalf("%d ranges are frozen, not %d", l.frozenCount, frozen)
	}
}

// checkTable checks a list, with all that makes it fast.
func checkTable(t *rapid.T, l *Table, want sliceTable) {
	if got := slices.Collect(l.All()); !slices.EqualFunc(got, want, equalRanges) || l.Len() != len(want) {
		t.Fatalf("%d ranges are %v, not %v", l.Len(), got, want)
	}
	for i, c := range l.chunks {
		if n := len(c.ranges); n == 0 || n > maxChunkRanges || n < minChunkRanges && len(l.chunks) > 1 {
			t.Fatalf("chunk %d of %d has %d ranges", i, len(l.chunks), n)
		}
	}
	checkReads(t, l, want)
	chunksOnly := *l
	chunksOnly.readBounds = nil // as of a table with many
	checkReads(t, &chunksOnly, want)
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
	ranges := makeRanges(10_000)
	list, err := NewTable(ranges...)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 4_000, len(ranges) - 1} {
		r := ranges[i]
		r.Version++
		next, _, err := list.changeRanges(ranges[i:i+1], []Range{r})
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
