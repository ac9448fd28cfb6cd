package mover

import (
	"errors"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

var (
	whole = partition.Span{Start: at("b"), End: at("d")}
	job   = own.Job(5)
)

// site is a group that has these ranges.
func site(t *testing.T, ranges ...own.Range) *peer {
	p := newPeer(1, &disk{rows: newTable()})
	if len(ranges) > 0 {
		if reply, _ := p.do(&own.Reown{Become: ranges}); reply.Err != nil {
			t.Fatal(reply.Err)
		}
	}
	return p
}

func rows(keys ...string) effect.Batch {
	var b effect.Builder
	for _, key := range keys {
		b.Put(effect.Rows.AppendKey(nil, at(key)), []byte("value"))
	}
	return parse(&b)
}

func incoming(attempt, upto uint64) own.Range {
	return own.Range{Span: whole, Version: 1, State: own.Incoming, Job: job, Attempt: attempt, Upto: upto}
}

func with(state own.State, of own.Job, attempt uint64) own.Range {
	return own.Range{Span: whole, Version: 1, State: state, Job: of, Attempt: attempt}
}

func TestADestinationTakesOnlyWhatComesNext(t *testing.T) {
	outside := rows("x")
	state := effect.Builder{}
	state.Put(effect.State.AppendKey(nil, at("c")), nil)
	for name, c := range map[string]struct {
		have own.Range
		do   Ingest
		want error
		upto uint64
		rows int
	}{
		"a piece of the copy":              {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 7, Rows: rows("c")}, nil, 7, 1},
		"what the log has next":            {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: rows("c")}, nil, 9, 1},
		"what it has already":              {incoming(2, 9), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: rows("c")}, nil, 9, 0},
		"more than it has":                 {incoming(2, 8), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: rows("c")}, ErrAhead, 8, 0},
		"what is too far ahead":            {incoming(2, 6), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: rows("c")}, ErrGap, 6, 0},
		"a log that runs backwards":        {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 6, Rows: rows("c")}, ErrGap, 7, 0},
		"a piece after the log has come":   {incoming(2, 9), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 7, Rows: rows("c")}, ErrAhead, 9, 0},
		"an attempt before":                {incoming(2, 7), Ingest{Job: 5, Attempt: 1, After: 7, Upto: 9, Rows: rows("c")}, ErrNotIncoming, 7, 0},
		"another job's":                    {incoming(2, 7), Ingest{Job: 4, Attempt: 2, After: 7, Upto: 9, Rows: rows("c")}, ErrNotIncoming, 7, 0},
		"a copy that is not open":          {incoming(2, 0), Ingest{Job: 5, Attempt: 2, After: 0, Upto: 0, Rows: rows("c")}, ErrNotIncoming, 0, 0},
		"a range that is served":           {with(own.Serving, 5, 2), Ingest{Job: 5, Attempt: 2, After: 0, Upto: 9, Rows: rows("c")}, ErrNotIncoming, 0, 0},
		"rows of another range":            {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: outside}, ErrOutside, 7, 0},
		"rows that stay with their group":  {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: parse(&state)}, ErrOutside, 7, 0},
		"good rows together with bad ones": {incoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, Upto: 9, Rows: rows("c", "x")}, ErrOutside, 7, 0},
	} {
		p := site(t, c.have)
		c.do.Span = whole
		reply, _ := p.do(&c.do)
		r, _ := p.site.List.One(whole)
		n := 0
		for _, key := range p.disk.rows.keys {
			if effect.Table(key[0]) == effect.Rows {
				n++
			}
		}
		if !errors.Is(reply.Err, c.want) || (reply.Err != nil) != (c.want != nil) || r.Upto != c.upto || n != c.rows {
			t.Errorf("%s: %v, at %d with %d rows", name, reply.Err, r.Upto, n)
		}
	}
}

func TestOnlyWhatIsLeftOverIsCleared(t *testing.T) {
	for name, c := range map[string]struct {
		have own.Range
		do   Clear
		ok   bool
	}{
		"before a copy":                      {incoming(2, 0), Clear{Job: 5, Attempt: 2}, true},
		"after a copy has begun":             {incoming(2, 7), Clear{Job: 5, Attempt: 2}, false},
		"before the copy after":              {incoming(2, 0), Clear{Job: 5, Attempt: 1}, false},
		"what was given away":                {with(own.Foreign, 5, 0), Clear{Job: 5}, true},
		"what another job gave away":         {with(own.Foreign, 6, 0), Clear{Job: 5}, false},
		"what was cleared to the end":        {with(own.Foreign, 5, own.Dropped), Clear{Job: 5}, false},
		"that, for a copy of the same job":   {with(own.Foreign, 5, own.Dropped), Clear{Job: 5, Attempt: own.Dropped}, false},
		"what is served":                     {with(own.Serving, 5, 0), Clear{Job: 5}, false},
		"what is frozen":                     {with(own.Frozen, 5, 1), Clear{Job: 5, Attempt: 1}, false},
		"before a copy, without its attempt": {incoming(2, 0), Clear{Job: 5}, false},
	} {
		p := site(t, c.have)
		for i, key := range []string{"a", "b", "c", "d"} { // a and d are outside
			p.disk.rows.redo(effect.Op{Key: effect.ByPosition[i].AppendKey(nil, at(key)), Value: []byte("x")})
		}
		before := len(p.disk.rows.keys)
		c.do.Span, c.do.Limit = whole, 1
		reply, _ := p.do(&c.do)
		if c.ok != (reply.Err == nil) || !c.ok && !errors.Is(reply.Err, ErrServed) || c.ok && !reply.More {
			t.Errorf("%s: %+v", name, reply)
		}
		for reply.More {
			reply, _ = p.do(&c.do)
		}
		if gone := before - len(p.disk.rows.keys); c.ok && gone != 2 || !c.ok && gone != 0 {
			t.Errorf("%s: %d rows are gone", name, gone)
		}
	}
}

func TestALateCommandFindsThatItIsLate(t *testing.T) {
	serving, frozen, thawed := with(own.Serving, 2, 0), with(own.Frozen, 5, 1), with(own.Serving, 5, 1)
	for name, c := range map[string]struct {
		have []own.Range
		do   Bound
		ok   bool
	}{
		"a copy where nothing is":              {nil, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, true},
		"a copy where a range was given away":  {[]own.Range{with(own.Foreign, 4, own.Dropped)}, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, true},
		"a copy that was abandoned":            {[]own.Range{with(own.Foreign, 5, own.Dropped)}, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, false},
		"a copy of a range that came and went": {[]own.Range{with(own.Foreign, 9, own.Dropped)}, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, false},
		"a copy of a range that is served":     {[]own.Range{with(own.Serving, 4, 0)}, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, false},
		"a copy that has begun again":          {[]own.Range{incoming(2, 7)}, &Settle{Job: 5, Become: incoming(1, 0), Fresh: true}, false},
		"a second copy":                        {[]own.Range{incoming(1, 7)}, &Settle{Job: 5, Become: incoming(2, 0), Attempt: 1}, true},
		"a second copy, again":                 {[]own.Range{incoming(2, 0)}, &Settle{Job: 5, Become: incoming(2, 0), Attempt: 1}, true},
		"a second copy that has begun":         {[]own.Range{incoming(2, 7)}, &Settle{Job: 5, Become: incoming(2, 0), Attempt: 1}, false},
		"an activation":                        {[]own.Range{incoming(2, 7)}, &Settle{Job: 5, Become: with(own.Serving, 5, 0), Attempt: 2}, true},
		"an activation, again":                 {[]own.Range{with(own.Serving, 5, 0)}, &Settle{Job: 5, Become: with(own.Serving, 5, 0), Attempt: 2}, true},
		"an activation after it went on":       {[]own.Range{with(own.Foreign, 9, 0)}, &Settle{Job: 5, Become: with(own.Serving, 5, 0), Attempt: 2}, false},
		"an activation of an attempt before":   {[]own.Range{incoming(2, 7)}, &Settle{Job: 5, Become: with(own.Serving, 5, 0), Attempt: 1}, false},
		"an end of any copy":                   {[]own.Range{incoming(2, 7)}, &Settle{Job: 5, Become: with(own.Foreign, 5, 0), Any: true, Fresh: true}, true},
		"an end of one that did not begin":     {nil, &Settle{Job: 5, Become: with(own.Foreign, 5, 0), Any: true, Fresh: true}, true},
		"an end of one that is cleared":        {[]own.Range{with(own.Foreign, 5, own.Dropped)}, &Settle{Job: 5, Become: with(own.Foreign, 5, 0), Any: true, Fresh: true}, false},
		"a thaw":                               {[]own.Range{frozen}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw before the freeze":             {[]own.Range{serving}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw, again":                        {[]own.Range{thawed}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw of the freeze after":           {[]own.Range{with(own.Frozen, 5, 2)}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, false},
		"a freeze after its thaw":              {[]own.Range{thawed}, change(serving, frozen), false},
	} {
		p := site(t, c.have...)
		before := p.site.List
		reply, _ := p.do(c.do)
		if c.ok != (reply.Err == nil) || !c.ok && (!errors.Is(reply.Err, own.ErrStale) || p.site.List != before) {
			t.Errorf("%s: %v", name, reply.Err)
		}
	}
}

// A list forgets which of two jobs has left what, not that the later one has.
func TestALateCopyFindsThatRangesWereJoined(t *testing.T) {
	left, right := with(own.Foreign, 3, own.Dropped), with(own.Foreign, 9, own.Dropped)
	left.Span.End, right.Span.Start = at("c"), at("c")
	for _, order := range [][2]own.Job{{3, 9}, {9, 3}} {
		left.Job, right.Job = order[0], order[1]
		p := site(t, left, right)
		other := own.Range{Span: partition.Span{Start: at("x")}, Version: 1, State: own.Serving, Job: 12}
		if reply, _ := p.do(&own.Reown{Become: []own.Range{other}, Floor: 10}); reply.Err != nil || p.site.List.Len() != 2 {
			t.Fatalf("not joined: %v", slices.Collect(p.site.List.All()))
		}
		for late := own.Job(1); late <= 12; late++ {
			c := &Settle{Job: late, Become: incoming(1, 0), Fresh: true}
			c.Become.Job = late
			before := p.site.List
			reply, _ := p.do(c)
			if late > 9 != (reply.Err == nil) {
				t.Errorf("a copy of job %d: %v", late, reply.Err)
			}
			p.site.List = before
		}
	}
}

func TestRangesThatWereGivenAwayKeepTheirEnds(t *testing.T) {
	wide := own.Range{Span: partition.Span{End: at("z")}, Version: 3, State: own.Foreign, Job: 2, Attempt: own.Dropped}
	p := site(t, wide)
	if reply, _ := p.do(&Settle{Job: 5, Become: incoming(1, 0), Fresh: true}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	left, right := wide, wide
	left.Span, right.Span = partition.Span{End: at("b")}, partition.Span{Start: at("d"), End: at("z")}
	want := []own.Range{left, incoming(1, 0), right}
	for r := range p.site.List.All() {
		if len(want) == 0 || !equal(r, want[0]) {
			t.Fatalf("has %v, not %v", r, want)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("has no %v", want)
	}
}

func TestChunksTogetherAreAllRowsOfASpanAndNoOthers(t *testing.T) {
	p := site(t, with(own.Serving, 1, 0))
	for _, key := range allKeys {
		for _, table := range append(effect.ByPosition[:], effect.State, effect.Capture) {
			p.disk.rows.redo(effect.Op{Key: table.AppendKey(nil, at(key)), Value: []byte(key)})
		}
	}
	for limit := range 200 {
		copied := newTable()
		for cursor, first := []byte(nil), true; first || len(cursor) > 0; first = false {
			var into effect.Builder
			next, err := ReadChunk(p.disk.rows, whole, cursor, limit, &into)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range parse(&into).All() {
				copied.redo(op)
			}
			cursor = next
		}
		a, _ := Sum(p.disk.rows, whole)
		b, _ := Sum(copied, partition.Whole)
		if a != b || len(copied.keys) != 6*len(effect.ByPosition) {
			t.Fatalf("with chunks of %d bytes: %d rows", limit, len(copied.keys))
		}
	}
}

func TestADigestTellsRowsApart(t *testing.T) {
	key := func(table effect.Table, key string) string { return string(table.AppendKey(nil, at(key))) }
	sum := func(rows map[string]string) Digests {
		s := newTable()
		for k, v := range rows {
			s.redo(effect.Op{Key: []byte(k), Value: []byte(v)})
		}
		d, err := Sum(s, whole)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := sum(map[string]string{key(effect.Rows, "c1"): "x"})
	for name, rows := range map[string]map[string]string{
		"no row":        {},
		"another value": {key(effect.Rows, "c1"): "y"},
		"another key":   {key(effect.Rows, "c2"): "x"},
		"another table": {key(effect.Dedup, "c1"): "x"},
		"one more":      {key(effect.Rows, "c1"): "x", key(effect.Rows, "c2"): ""},
	} {
		if sum(rows) == base {
			t.Errorf("%s has the same digest", name)
		}
	}
	if sum(map[string]string{key(effect.Rows, "c1"): "x", key(effect.Rows, "z"): "y", key(effect.State, "c1"): "z"}) != base {
		t.Error("rows outside are a part of the digest")
	}
	empty, gone := newTable(), newTable()
	empty.redo(effect.Op{Key: []byte("k")})
	a, _ := SumKeys(empty, [][]byte{[]byte("k")})
	b, _ := SumKeys(gone, [][]byte{[]byte("k")})
	if a == b {
		t.Error("an empty row and none are the same")
	}
}

var _ command.Reader = (*table)(nil)
