package txn

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// alone returns a group that owns everything.
func alone() *peer {
	p := newPeer(1)
	p.owned = []partition.Span{partition.Whole}
	return p
}

func set(key, value string) command.Command {
	return &command.Set{Key: at(key), Value: []byte(value)}
}

func del(keys ...string) command.Command {
	c := &command.Delete{}
	for _, key := range keys {
		c.Keys = append(c.Keys, at(key))
	}
	return c
}

func prepare(id byte, writes ...command.Command) *Prepare {
	return &Prepare{ID: ID{id}, Part: Part{Writes: writes}, Decider: 2, DeadlineMS: 2000}
}

func decide(id byte, writes ...command.Command) *Decide {
	return &Decide{ID: ID{id}, Commit: true, Part: Part{Writes: writes}, Decider: 1, DeadlineMS: 2000}
}

// locked says what a group has locked: keys, with ! those for writing, and
// ranges.
func locked(p *peer) string {
	var all []string
	for _, lock := range p.locks.All() {
		switch key, _, err := space.Split(nil, lock.Start); {
		case lock.Range:
			all = append(all, lock.Span().String())
		case err != nil:
			all = append(all, err.Error())
		case lock.Write:
			all = append(all, string(key)+"!")
		default:
			all = append(all, string(key))
		}
	}
	return strings.Join(all, " ")
}

func TestAPartLocksAllThatItTouches(t *testing.T) {
	whole := command.RangeRead{Start: at("a"), End: at("c")}
	for name, test := range map[string]struct {
		part Part
		want string
	}{
		"a write":                   {Part{Writes: []command.Command{set("a", "1")}}, "a!"},
		"a read":                    {Part{Reads: []command.Read{{Key: at("a")}}}, "a"},
		"a read and a write":        {Part{Reads: []command.Read{{Key: at("a")}}, Writes: []command.Command{set("a", "1")}}, "a!"},
		"a delete of what is not":   {Part{Writes: []command.Command{del("x", "s")}}, "s! x"},
		"a condition that fails":    {Part{Writes: []command.Command{&command.Set{Key: at("s"), If: command.IfAbsent}}}, "s"},
		"a field":                   {Part{Writes: []command.Command{&command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("\x00\x01"), Value: []byte("v")}}}}}, "h!"},
		"a field that is read":      {Part{Writes: []command.Command{&command.HGet{Key: at("h"), Field: []byte("f")}}}, "h"},
		"all fields":                {Part{Writes: []command.Command{&command.HGetAll{Key: at("h")}}}, "h"},
		"a hash that is no more":    {Part{Writes: []command.Command{&command.HDel{Key: at("h"), Fields: [][]byte{[]byte("f"), []byte("g")}}, set("hh", "1")}}, "h! hh!"},
		"a range":                   {Part{Ranges: []command.RangeRead{whole}}, `[1/"a\x00\x01", 1/"c\x00\x01")`},
		"ranges that meet":          {Part{Ranges: []command.RangeRead{whole, {Start: at("b"), End: at("d")}, {Start: at("d"), End: at("e")}}}, `[1/"a\x00\x01", 1/"e\x00\x01")`},
		"a range and a key in it":   {Part{Ranges: []command.RangeRead{whole}, Writes: []command.Command{set("b", "1")}}, `[1/"a\x00\x01", 1/"c\x00\x01") b!`},
		"a range behind a key":      {Part{Reads: []command.Read{{Key: at("a")}}, Ranges: []command.RangeRead{{Start: command.After(at("a")), End: at("b")}}}, `a [1/"a\x00\x01\x00", 1/"b\x00\x01")`},
		"a scan by a command":       {Part{Writes: []command.Command{&command.Range{Start: at("x"), Limit: 9}}}, `[1/"x\x00\x01", end)`},
		"what is written, and read": {Part{Writes: []command.Command{set("a", "1"), &command.Get{Key: at("a")}}}, "a!"},
	} {
		t.Run(name, func(t *testing.T) {
			p := alone()
			p.do(set("s", "old"))
			p.do(&command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}, {Field: []byte("g"), Value: []byte("2")}}})
			before := maps.Clone(p.store.rows)
			c := prepare(1)
			c.Part = test.part
			if r := p.do(c); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := locked(p); got != test.want {
				t.Errorf("locked %s, want %s", got, test.want)
			}
			for key, value := range before {
				if p.store.rows[key] != value {
					t.Errorf("prepare has changed %q", key)
				}
			}
			plain := alone()
			plain.store.rows, plain.store.keys = before, slices.Sorted(maps.Keys(before))
			plain.next = 3
			for _, w := range test.part.Writes {
				plain.do(w)
			}
			if r := p.do(&Resolve{ID: ID{1}, Commit: true}); r.Err != nil || p.locks.Len() != 0 {
				t.Fatalf("%v, %d locks left", r.Err, p.locks.Len())
			}
			if got, want := p.store.rows, plain.store.rows; !maps.Equal(got, want) {
				t.Errorf("resolved to %q\nwant %q", got, want)
			}
		})
	}
}

func TestAPartThatIsNotWellFormedIsRefused(t *testing.T) {
	begin := partition.Span{End: partition.Position{0}}
	for name, test := range map[string]struct {
		change func(*Prepare)
		want   error
	}{
		"nothing":        {func(c *Prepare) { c.Part.Writes = nil }, ErrPart},
		"no id":          {func(c *Prepare) { c.ID = ID{} }, ErrPart},
		"no decider":     {func(c *Prepare) { c.Decider = 0 }, ErrPart},
		"empty span":     {func(c *Prepare) { c.Part.Span = partition.Span{Start: at("b"), End: at("a")} }, ErrPart},
		"key outside":    {func(c *Prepare) { c.Part.Span.Start = at("b") }, ErrPart},
		"range outside":  {func(c *Prepare) { c.Part.Span.End = at("b"); c.Part.Ranges = []command.RangeRead{{Start: at("a")}} }, ErrPart},
		"record outside": {func(c *Prepare) { c.Part = Part{Span: begin, Ranges: []command.RangeRead{{End: begin.End}}} }, ErrPart},
		"another owner":  {func(c *Prepare) { c.Part.Span.End = at("z") }, errWrongShard},
		"no key":         {func(c *Prepare) { c.Part.Writes = []command.Command{&command.Get{Key: at("a")[:2]}} }, partition.ErrPosition},
		"past its time":  {func(c *Prepare) { c.DeadlineMS = 999 }, ErrDeadline},
		"another type":   {func(c *Prepare) { c.Part.Writes = []command.Command{&command.HGet{Key: at("s")}} }, command.ErrWrongType},
		"a changed read": {func(c *Prepare) { c.Part.Reads = []command.Read{{Key: at("a"), Version: 9}} }, command.ErrConflict},
		"a changed range": {func(c *Prepare) {
			var d command.Digest
			d.Add(at("a"), 1)
			c.Part.Ranges = []command.RangeRead{{Start: at("a"), End: at("b"), Digest: d}}
		}, command.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			p := alone()
			p.do(set("s", "1"))
			p.owned = []partition.Span{{End: at("y")}}
			c := prepare(1, set("a", "1"))
			c.Part.Span.End = at("y")
			test.change(c)
			size := len(p.store.rows)
			if r := p.do(c); !errors.Is(r.Err, test.want) {
				t.Errorf("got %v, want %v", r.Err, test.want)
			}
			if len(p.store.rows) != size || p.locks.Len() != 0 || p.next != 2 {
				t.Error("it left something")
			}
		})
	}
}

func TestWhatMeetsALockIsRefusedWithIt(t *testing.T) {
	read := func(key string) Part { return Part{Reads: []command.Read{{Key: at(key)}}} }
	write := func(key string) Part { return Part{Writes: []command.Command{set(key, "2")}} }
	scan := func(from, to string) Part {
		return Part{Ranges: []command.RangeRead{{Start: at(from), End: at(to)}}}
	}
	for _, test := range []struct {
		name          string
		first, second Part
		meets         bool
	}{
		{"read, read", read("a"), read("a"), false},
		{"read, write", read("a"), write("a"), true},
		{"write, read", write("a"), read("a"), true},
		{"write, write", write("a"), write("a"), true},
		{"write, another", write("a"), write("b"), false},
		{"scan, write", scan("a", "c"), write("b"), true},
		{"scan, write at its start", scan("b", "c"), write("b"), true},
		{"scan, write at its end", scan("a", "b"), write("b"), false},
		{"scan, read", scan("a", "c"), read("b"), false},
		{"scan, scan", scan("a", "c"), scan("b", "d"), false},
		{"write, scan", write("b"), scan("a", "c"), true},
		{"write, scan behind", write("b"), scan("c", "d"), false},
		// What the second finds is an error of its command, if the first is aborted.
		{"write, error", write("a"), Part{Writes: []command.Command{&command.HGet{Key: at("a")}}}, true},
	} {
		for _, inBatch := range []bool{false, true} {
			p := alone()
			first, second := prepare(1), prepare(2)
			first.Part, second.Part = test.first, test.second
			var got command.Reply
			if inBatch {
				got = p.batch(false, first, second)[1]
			} else {
				p.do(first)
				got = p.do(second)
			}
			var met *LockedError
			if errors.As(got.Err, &met) != test.meets || test.meets && (met.Lock.Txn != ID{1} || !errors.Is(got.Err, ErrLocked)) {
				t.Errorf("%s, in one batch %v: got %v, want a lock met: %v", test.name, inBatch, got.Err, test.meets)
			}
			p.do(&Resolve{ID: ID{2}})
			d := decide(3)
			d.Part = test.second
			if r := p.do(d); errors.Is(r.Err, ErrLocked) != test.meets {
				t.Errorf("%s: decide got %v", test.name, r.Err)
			}
		}
	}
}

func TestARowDoesNotExpireUnderALock(t *testing.T) {
	p := alone()
	p.do(&command.Set{Key: at("a"), Expiry: command.At(1500)})
	first := prepare(1)
	first.Part.Reads = []command.Read{{Key: at("a"), Version: 1}}
	if r := p.do(first); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := p.locks.JudgeMS(at("a"), 1600); got != 1000 {
		t.Errorf("judged at %d, want 1000", got)
	}
	p.clock = 1600
	reads := prepare(2)
	reads.Part.Reads = []command.Read{{Key: at("a")}}
	scans := prepare(3)
	scans.Part.Ranges = []command.RangeRead{{Start: at("a")}}
	for _, c := range []*Prepare{reads, scans} {
		if r := p.do(c); !errors.Is(r.Err, ErrLocked) {
			t.Errorf("a row that the owner of its lock counts on is found dead: %v", r.Err)
		}
	}
	p.do(&Resolve{ID: ID{1}, DeadlineMS: 2000})
	for _, c := range []*Prepare{reads, scans} {
		if r := p.do(c); r.Err != nil {
			t.Errorf("after the lock: %v", r.Err)
		}
	}
}

func TestAFinishedPartStaysFinished(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, early := range []bool{true, false} {
			p := alone()
			c := prepare(1, set("a", "1"))
			if !early {
				p.do(c)
			}
			resolve := &Resolve{ID: ID{1}, Commit: commit, DeadlineMS: 2000}
			for range 2 {
				if r := p.do(resolve); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			for _, clock := range []int64{1000, 2000, 2001} {
				p.clock = clock
				p.do(&forgetMarks{limit: 10})
				if r := p.do(c); !errors.Is(r.Err, ErrFinished) && !errors.Is(r.Err, ErrDeadline) {
					t.Errorf("commit %v, early %v: at %d it is prepared again: %v", commit, early, clock, r.Err)
				}
			}
			if n := p.store.count(effect.Marks); n != 0 {
				t.Errorf("%d marks are left past the deadline", n)
			}
		}
	}
}

func TestADecisionIsKeptUntilNobodyAsks(t *testing.T) {
	p := alone()
	c := decide(1, set("a", "1"))
	c.Others = []partition.Span{{Start: at("b"), End: at("d")}}
	if r := p.do(c); OutcomeOf(r) != Committed {
		t.Fatal(r.Err)
	}
	abort := *c
	abort.Commit = false
	for _, again := range []*Decide{c, &abort} {
		if r := p.do(again); OutcomeOf(r) != Committed || p.next != 2 {
			t.Fatalf("asked again: %v, %v", OutcomeOf(r), r.Err)
		}
	}
	collect := func(from, to string) int64 {
		return p.do(&Collect{ID: ID{1}, Decider: 1, Confirmed: []partition.Span{{Start: at(from), End: at(to)}}}).Int
	}
	if got := collect("b", "c"); got != 1 {
		t.Errorf("%d spans are left, want 1", got)
	}
	p.clock = 2000 + 2*KeepMS
	if collect("b", "c"); OutcomeOf(p.do(c)) != Committed {
		t.Error("it is forgotten while a span is not confirmed")
	}
	p.clock = 2000 + KeepMS
	if collect("c", "d"); OutcomeOf(p.do(c)) != Committed {
		t.Error("it is forgotten too early")
	}
	p.clock++
	if collect("c", "d"); !errors.Is(p.do(c).Err, ErrForgotten) || p.store.count(effect.State) != 0 {
		t.Error("it is not forgotten")
	}
}

func TestAnotherGroupDecidesNothing(t *testing.T) {
	p := alone()
	c := decide(1, set("a", "1"))
	c.Decider = 2
	for _, c := range []Participant{c, &Inquire{ID: ID{1}, Decider: 2}, &Collect{ID: ID{1}, Decider: 2}} {
		if r := p.do(c); !errors.Is(r.Err, ErrDecider) {
			t.Errorf("%T: got %v, want ErrDecider", c, r.Err)
		}
	}
}

func TestAnInquiryAnswersByRecordThenByClock(t *testing.T) {
	for _, test := range []struct {
		decide  string
		clockMS int64
		want    Outcome
	}{
		{"", 2000, Undecided}, {"", 2001, Aborted},
		{"commit", 2000, Committed}, {"commit", 2001, Committed},
		{"abort", 2000, Aborted}, {"abort", 2001, Aborted},
	} {
		p := alone()
		if test.decide != "" {
			c := decide(1, set("a", "1"))
			c.Commit = test.decide == "commit"
			p.do(c)
		}
		p.clock = test.clockMS
		if got := OutcomeOf(p.do(&Inquire{ID: ID{1}, Decider: 1, DeadlineMS: 2000})); got != test.want {
			t.Errorf("%q at %d: %v, want %v", test.decide, test.clockMS, got, test.want)
		}
	}
}
