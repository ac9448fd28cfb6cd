package own

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// state is a store in memory.
type state map[string][]byte

func (s state) Get(key, dst []byte) ([]byte, bool, error) {
	v, ok := s[string(key)]
	return append(dst, v...), ok, nil
}

func (s state) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
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

func (s state) apply(t fataler, b *effect.Builder) {
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

// do evaluates a Reown on a site whose records are in s.
func do(t fataler, s state, site *Site, c *Reown) error {
	e := command.NewEnv(s)
	c.Bind(site)
	reply := e.Do(c)
	if reply.Err == nil {
		s.apply(t, e.Effects())
	}
	return reply.Err
}

func at(s string) partition.Position { return partition.Position(s) }

func equalRanges(a, b Range) bool { return a.equal(&b) }

func span(start, end string) partition.Span { return partition.Span{Start: at(start), End: at(end)} }

func TestOneReownIsWhatItTakes(t *testing.T) {
	s, site := state{}, &Site{Group: 3, List: &List{}}
	whole := Range{Span: span("", ""), Version: 1, State: Serving}
	left := Range{Span: span("", "m"), Version: 2, State: Serving}
	right := Range{Span: span("m", ""), Version: 2, State: Serving}
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
		{"split what is frozen", []Range{right}, []Range{{Span: span("m", "p"), Version: 4, State: Serving}}, ErrStale},
		{"give away", []Range{frozen}, []Range{gone}, nil},
		{"freeze late", []Range{right}, []Range{frozen}, ErrStale},
		{"give late", nil, []Range{right}, ErrStale},
		{"take back", []Range{gone}, []Range{{Span: right.Span, Version: 5, State: Serving}}, nil},
		{"give away late", []Range{frozen}, []Range{gone}, ErrStale},
		{"an empty span", nil, []Range{{Span: span("x", "x"), State: Serving}}, ErrList},
	} {
		before := site.List
		err := do(t, s, site, &Reown{Expect: step.expect, Become: step.become})
		if !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if err != nil && site.List != before {
			t.Errorf("%s: the list changed though it was refused", step.name)
		}
		loaded, err := Load(s, 3)
		if err != nil || !slices.EqualFunc(slices.Collect(loaded.All()), slices.Collect(site.List.All()), equalRanges) {
			t.Fatalf("%s: the records say %v, %v; the list is %v", step.name, loaded, err, site.List)
		}
	}
	if other, err := Load(s, 4); err != nil || other.Len() != 0 {
		t.Errorf("another group has %v, %v", other, err)
	}
}

func TestWhatMayBeReadAndWritten(t *testing.T) {
	list, err := NewList(
		Range{Span: span("a", "c"), Version: 1, State: Serving}, Range{Span: span("c", "f"), Version: 4, State: Serving},
		Range{Span: span("f", "h"), Version: 2, State: Frozen}, Range{Span: span("h", "k"), Version: 2, State: Incoming},
		Range{Span: span("p", ""), Version: 3, State: Foreign},
	)
	if err != nil {
		t.Fatal(err)
	}
	site := Site{Group: 1, List: list}
	for key, want := range map[string][2]error{
		"0": {ErrWrongGroup, ErrWrongGroup}, "a": {}, "b": {}, "c": {}, "f": {nil, ErrFrozen}, "g": {nil, ErrFrozen},
		"h": {ErrWrongGroup, ErrWrongGroup}, "l": {ErrWrongGroup, ErrWrongGroup}, "z": {ErrWrongGroup, ErrWrongGroup},
	} {
		if r, w := site.Check(at(key), false), site.Check(at(key), true); !errors.Is(r, want[0]) || !errors.Is(w, want[1]) {
			t.Errorf("%s: read %v, write %v, want %v", key, r, w, want)
		}
	}
	for _, c := range []struct {
		span       partition.Span
		read, part error
	}{
		{span("a", "c"), nil, nil}, {span("b", "bb"), nil, nil}, {span("b", "d"), nil, nil}, {span("a", "h"), nil, ErrFrozen},
		{span("e", "g"), nil, ErrFrozen}, {span("f", "g"), nil, ErrFrozen}, {span("g", "i"), ErrWrongGroup, ErrWrongGroup}, {span("0", "b"), ErrWrongGroup, ErrWrongGroup},
		{span("d", ""), ErrWrongGroup, ErrWrongGroup}, {span("p", ""), ErrWrongGroup, ErrWrongGroup},
	} {
		if r, p := site.CheckSpan(c.span), site.CheckPart(c.span); !errors.Is(r, c.read) || !errors.Is(p, c.part) {
			t.Errorf("%v: read %v, part %v, want %v, %v", c.span, r, p, c.read, c.part)
		}
	}
	var wrong *WrongGroupError
	if err := site.Check(at("z"), false); !errors.As(err, &wrong) || wrong.Version != 4 || wrong.Group != 1 {
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
				ranges = append(ranges, Range{Span: span(cuts[i], end), State: State(rapid.IntRange(1, 4).Draw(t, "state"))})
			}
		}
		list, err := NewList(ranges...)
		if err != nil {
			t.Fatal(err)
		}
		s := span(rapid.StringMatching("[a-f]{0,3}").Draw(t, "start"), rapid.StringMatching("[a-f]{0,3}").Draw(t, "end"))
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
		if got := slices.Collect(list.Over(s)); !slices.EqualFunc(got, over, equalRanges) {
			t.Fatalf("over %v: %v, want %v", s, got, over)
		}
		covered := true
		for _, p := range append(cuts, string(s.Start), string(s.Start)+"zzzz") {
			if r, ok := list.Find(at(p)); s.Contains(at(p)) && (!ok || !r.Reads()) {
				covered = false
			}
		}
		if list.Covers(s) != covered {
			t.Fatalf("%v covers %v: %v, want %v", list, s, !covered, covered)
		}
	})
}

func TestListsThatOverlapAreRefused(t *testing.T) {
	for _, ranges := range [][]Range{
		{{Span: span("a", "c"), State: Serving}, {Span: span("b", "d"), State: Foreign}},
		{{Span: span("a", ""), State: Serving}, {Span: span("b", "d"), State: Serving}},
		{{Span: span("b", "a"), State: Serving}},
		{{Span: span("a", "b")}},
	} {
		if _, err := NewList(ranges...); !errors.Is(err, ErrList) {
			t.Errorf("%v: %v, want ErrList", ranges, err)
		}
	}
}

func FuzzRecordsReadBack(f *testing.F) {
	r := Range{Span: span("a", "b"), Version: 3, State: Incoming, Job: 4, Attempt: 5, Upto: 6}
	f.Add([]byte("a"), r.append(nil))
	f.Fuzz(func(t *testing.T, start, b []byte) {
		r, err := decode(start, b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatal(err)
			}
			return
		}
		if again := r.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x reads back as %x", b, again)
		}
	})
}
