package mover

import (
	"errors"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/testkit/rowtable"
	"github.com/cleavekv/cleave/partition"
)

var (
	testSpan = partition.Span{Start: positionOf("b"), End: positionOf("d")}
	testJob  = ownership.JobID(5)
)

// newOwner is a group that has these ranges.
func newOwner(t *testing.T, ranges ...ownership.Range) *peer {
	p := newPeer(1, &memoryDisk{rows: rowtable.New()})
	if len(ranges) > 0 {
		if reply, _ := p.evalOne(&ownership.ChangeOwnership{Become: ranges}); reply.Err != nil {
			t.Fatal(reply.Err)
		}
	}
	return p
}

func newRows(keys ...string) effect.Batch {
	var b effect.Builder
	for _, key := range keys {
		b.Put(effect.Rows.AppendKey(nil, positionOf(key)), []byte("value"))
	}
	return parseBatch(&b)
}

func newIncoming(attempt, upto uint64) ownership.Range {
	return ownership.Range{Span: testSpan, Version: 1, State: ownership.Incoming, Job: testJob, Attempt: attempt, CopiedUpTo: upto}
}

func newRange(state ownership.State, of ownership.JobID, attempt uint64) ownership.Range {
	return ownership.Range{Span: testSpan, Version: 1, State: state, Job: of, Attempt: attempt}
}

func TestADestinationTakesOnlyWhatComesNext(t *testing.T) {
	outside := newRows("x")
	state := effect.Builder{}
	state.Put(effect.State.AppendKey(nil, positionOf("c")), nil)
	for name, c := range map[string]struct {
		have ownership.Range
		do   Ingest
		want error
		upto uint64
		rows int
	}{
		"a piece of the copy":              {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 7, Rows: newRows("c")}, nil, 7, 1},
		"what the log has next":            {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c")}, nil, 9, 1},
		"what it has already":              {newIncoming(2, 9), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c")}, nil, 9, 0},
		"more than it has":                 {newIncoming(2, 8), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c")}, ErrRangeAhead, 8, 0},
		"what is too far ahead":            {newIncoming(2, 6), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c")}, ErrLogGap, 6, 0},
		"a log that runs backwards":        {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 6, Rows: newRows("c")}, ErrLogGap, 7, 0},
		"a piece after the log has come":   {newIncoming(2, 9), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 7, Rows: newRows("c")}, ErrRangeAhead, 9, 0},
		"an attempt before":                {newIncoming(2, 7), Ingest{Job: 5, Attempt: 1, After: 7, UpTo: 9, Rows: newRows("c")}, ErrNotIncoming, 7, 0},
		"another job's":                    {newIncoming(2, 7), Ingest{Job: 4, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c")}, ErrNotIncoming, 7, 0},
		"a copy that is not open":          {newIncoming(2, 0), Ingest{Job: 5, Attempt: 2, After: 0, UpTo: 0, Rows: newRows("c")}, ErrNotIncoming, 0, 0},
		"a range that is served":           {newRange(ownership.Serving, 5, 2), Ingest{Job: 5, Attempt: 2, After: 0, UpTo: 9, Rows: newRows("c")}, ErrNotIncoming, 0, 0},
		"rows of another range":            {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: outside}, ErrOutsideRange, 7, 0},
		"rows that stay with their group":  {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: parseBatch(&state)}, ErrOutsideRange, 7, 0},
		"good rows together with bad ones": {newIncoming(2, 7), Ingest{Job: 5, Attempt: 2, After: 7, UpTo: 9, Rows: newRows("c", "x")}, ErrOutsideRange, 7, 0},
	} {
		p := newOwner(t, c.have)
		c.do.Span = testSpan
		reply, _ := p.evalOne(&c.do)
		r, _ := p.site.Table.FindContaining(testSpan)
		n := 0
		for _, key := range p.disk.rows.Keys {
			if effect.Table(key[0]) == effect.Rows {
				n++
			}
		}
		if !errors.Is(reply.Err, c.want) || (reply.Err != nil) != (c.want != nil) || r.CopiedUpTo != c.upto || n != c.rows {
			t.Errorf("%s: %v, at %d with %d rows", name, reply.Err, r.CopiedUpTo, n)
		}
	}
}

func TestOnlyWhatIsLeftOverIsCleared(t *testing.T) {
	for name, c := range map[string]struct {
		have ownership.Range
		do   Clear
		ok   bool
	}{
		"before a copy":                      {newIncoming(2, 0), Clear{Job: 5, Attempt: 2}, true},
		"after a copy has begun":             {newIncoming(2, 7), Clear{Job: 5, Attempt: 2}, false},
		"before the copy after":              {newIncoming(2, 0), Clear{Job: 5, Attempt: 1}, false},
		"what was given away":                {newRange(ownership.Foreign, 5, 0), Clear{Job: 5}, true},
		"what another job gave away":         {newRange(ownership.Foreign, 6, 0), Clear{Job: 5}, false},
		"what was cleared to the end":        {newRange(ownership.Foreign, 5, ownership.AttemptDropped), Clear{Job: 5}, false},
		"that, for a copy of the same job":   {newRange(ownership.Foreign, 5, ownership.AttemptDropped), Clear{Job: 5, Attempt: ownership.AttemptDropped}, false},
		"what is served":                     {newRange(ownership.Serving, 5, 0), Clear{Job: 5}, false},
		"what is frozen":                     {newRange(ownership.Frozen, 5, 1), Clear{Job: 5, Attempt: 1}, false},
		"before a copy, without its attempt": {newIncoming(2, 0), Clear{Job: 5}, false},
	} {
		p := newOwner(t, c.have)
		for i, key := range []string{"a", "b", "c", "d"} { // a and d are outside
			p.disk.rows.Apply(effect.Op{Key: effect.ByPosition[i].AppendKey(nil, positionOf(key)), Value: []byte("x")})
		}
		before := len(p.disk.rows.Keys)
		c.do.Span, c.do.Limit = testSpan, 1
		reply, _ := p.evalOne(&c.do)
		if c.ok != (reply.Err == nil) || !c.ok && !errors.Is(reply.Err, ErrRowsInUse) || c.ok && !reply.More {
			t.Errorf("%s: %+v", name, reply)
		}
		for reply.More {
			reply, _ = p.evalOne(&c.do)
		}
		if gone := before - len(p.disk.rows.Keys); c.ok && gone != 2 || !c.ok && gone != 0 {
			t.Errorf("%s: %d rows are gone", name, gone)
		}
	}
}

func TestALateCommandFindsThatItIsLate(t *testing.T) {
	serving, frozen, thawed := newRange(ownership.Serving, 2, 0), newRange(ownership.Frozen, 5, 1), newRange(ownership.Serving, 5, 1)
	for name, c := range map[string]struct {
		have []ownership.Range
		do   SiteCommand
		ok   bool
	}{
		"a copy where nothing is":              {nil, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, true},
		"a copy where a range was given away":  {[]ownership.Range{newRange(ownership.Foreign, 4, ownership.AttemptDropped)}, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, true},
		"a copy that was abandoned":            {[]ownership.Range{newRange(ownership.Foreign, 5, ownership.AttemptDropped)}, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, false},
		"a copy of a range that came and went": {[]ownership.Range{newRange(ownership.Foreign, 9, ownership.AttemptDropped)}, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, false},
		"a copy of a range that is served":     {[]ownership.Range{newRange(ownership.Serving, 4, 0)}, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, false},
		"a copy that has begun again":          {[]ownership.Range{newIncoming(2, 7)}, &ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}, false},
		"a second copy":                        {[]ownership.Range{newIncoming(1, 7)}, &ChangeDestination{Job: 5, Become: newIncoming(2, 0), Attempt: 1}, true},
		"a second copy, again":                 {[]ownership.Range{newIncoming(2, 0)}, &ChangeDestination{Job: 5, Become: newIncoming(2, 0), Attempt: 1}, true},
		"a second copy that has begun":         {[]ownership.Range{newIncoming(2, 7)}, &ChangeDestination{Job: 5, Become: newIncoming(2, 0), Attempt: 1}, false},
		"an activation":                        {[]ownership.Range{newIncoming(2, 7)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Serving, 5, 0), Attempt: 2}, true},
		"an activation, again":                 {[]ownership.Range{newRange(ownership.Serving, 5, 0)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Serving, 5, 0), Attempt: 2}, true},
		"an activation after it went on":       {[]ownership.Range{newRange(ownership.Foreign, 9, 0)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Serving, 5, 0), Attempt: 2}, false},
		"an activation of an attempt before":   {[]ownership.Range{newIncoming(2, 7)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Serving, 5, 0), Attempt: 1}, false},
		"an end of any copy":                   {[]ownership.Range{newIncoming(2, 7)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Foreign, 5, 0), AnyAttempt: true, AllowMissing: true}, true},
		"an end of one that did not begin":     {nil, &ChangeDestination{Job: 5, Become: newRange(ownership.Foreign, 5, 0), AnyAttempt: true, AllowMissing: true}, true},
		"an end of one that is cleared":        {[]ownership.Range{newRange(ownership.Foreign, 5, ownership.AttemptDropped)}, &ChangeDestination{Job: 5, Become: newRange(ownership.Foreign, 5, 0), AnyAttempt: true, AllowMissing: true}, false},
		"a thaw":                               {[]ownership.Range{frozen}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw before the freeze":             {[]ownership.Range{serving}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw, again":                        {[]ownership.Range{thawed}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, true},
		"a thaw of the freeze after":           {[]ownership.Range{newRange(ownership.Frozen, 5, 2)}, &Thaw{Frozen: frozen, Before: serving, Become: thawed}, false},
		"a freeze after its thaw":              {[]ownership.Range{thawed}, newRangeChange(serving, frozen), false},
	} {
		p := newOwner(t, c.have...)
		before := p.site.Table
		reply, _ := p.evalOne(c.do)
		if c.ok != (reply.Err == nil) || !c.ok && (!errors.Is(reply.Err, ownership.ErrStale) || p.site.Table != before) {
			t.Errorf("%s: %v", name, reply.Err)
		}
	}
}

// A list forgets which of two jobs has left what, not that the later one has.
func TestALateCopyFindsThatRangesWereJoined(t *testing.T) {
	left, right := newRange(ownership.Foreign, 3, ownership.AttemptDropped), newRange(ownership.Foreign, 9, ownership.AttemptDropped)
	left.Span.End, right.Span.Start = positionOf("c"), positionOf("c")
	for _, order := range [][2]ownership.JobID{{3, 9}, {9, 3}} {
		left.Job, right.Job = order[0], order[1]
		p := newOwner(t, left, right)
		other := ownership.Range{Span: partition.Span{Start: positionOf("x")}, Version: 1, State: ownership.Serving, Job: 12}
		if reply, _ := p.evalOne(&ownership.ChangeOwnership{Become: []ownership.Range{other}, JobFloor: 10}); reply.Err != nil || p.site.Table.Len() != 2 {
			t.Fatalf("not joined: %v", slices.Collect(p.site.Table.All()))
		}
		for late := ownership.JobID(1); late <= 12; late++ {
			c := &ChangeDestination{Job: late, Become: newIncoming(1, 0), AllowMissing: true}
			c.Become.Job = late
			before := p.site.Table
			reply, _ := p.evalOne(c)
			if late > 9 != (reply.Err == nil) {
				t.Errorf("a copy of job %d: %v", late, reply.Err)
			}
			p.site.Table = before
		}
	}
}

func TestRangesThatWereGivenAwayKeepTheirEnds(t *testing.T) {
	wide := ownership.Range{Span: partition.Span{End: positionOf("z")}, Version: 3, State: ownership.Foreign, Job: 2, Attempt: ownership.AttemptDropped}
	p := newOwner(t, wide)
	if reply, _ := p.evalOne(&ChangeDestination{Job: 5, Become: newIncoming(1, 0), AllowMissing: true}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	left, right := wide, wide
	left.Span, right.Span = partition.Span{End: positionOf("b")}, partition.Span{Start: positionOf("d"), End: positionOf("z")}
	want := []ownership.Range{left, newIncoming(1, 0), right}
	for r := range p.site.Table.All() {
		if len(want) == 0 || !isSameRange(r, want[0]) {
			t.Fatalf("has %v, not %v", r, want)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("has no %v", want)
	}
}

func TestChunksTogetherAreAllRowsOfASpanAndNoOthers(t *testing.T) {
	p := newOwner(t, newRange(ownership.Serving, 1, 0))
	for _, key := range allKeys {
		for _, table := range append(effect.ByPosition[:], effect.State, effect.Capture) {
			p.disk.rows.Apply(effect.Op{Key: table.AppendKey(nil, positionOf(key)), Value: []byte(key)})
		}
	}
	for limit := range 200 {
		copied := rowtable.New()
		for cursor, first := []byte(nil), true; first || len(cursor) > 0; first = false {
			var into effect.Builder
			next, err := ReadChunk(p.disk.rows, testSpan, cursor, limit, &into)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range parseBatch(&into).All() {
				copied.Apply(op)
			}
			cursor = next
		}
		a, _ := SumSpan(p.disk.rows, testSpan)
		b, _ := SumSpan(copied, partition.Whole)
		if a != b || len(copied.Keys) != 6*len(effect.ByPosition) {
			t.Fatalf("with chunks of %d bytes: %d rows", limit, len(copied.Keys))
		}
	}
}

func TestADigestTellsRowsApart(t *testing.T) {
	key := func(table effect.Table, key string) string { return string(table.AppendKey(nil, positionOf(key))) }
	sum := func(rows map[string]string) TableDigests {
		s := rowtable.New()
		for k, v := range rows {
			s.Apply(effect.Op{Key: []byte(k), Value: []byte(v)})
		}
		d, err := SumSpan(s, testSpan)
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
	empty, gone := rowtable.New(), rowtable.New()
	empty.Apply(effect.Op{Key: []byte("k")})
	a, _ := SumKeys(empty, [][]byte{[]byte("k")})
	b, _ := SumKeys(gone, [][]byte{[]byte("k")})
	if a == b {
		t.Error("an empty row and none are the same")
	}
}

var _ command.Reader = (*rowtable.Table)(nil)
