package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// doLines evaluates lines and returns the last reply.
func (l *testEnv) doLines(lines ...string) (r Reply) {
	for _, line := range lines {
		r = l.env.Do(parseCommand(line))
	}
	return r
}

func parseCommands(lines ...string) (cs []Command) {
	for _, line := range lines {
		cs = append(cs, parseCommand(line))
	}
	return cs
}

func TestABatchIsAllOrNothing(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("set a 1", "set n text")
	size, next := l.env.Effects().Size(), l.env.NextVersion()
	b := &Batch{Commands: parseCommands("set a 2", "hset h f v", "del a", "incrby n 1")}
	r := l.env.Do(b)
	if !errors.Is(r.Err, ErrNotInteger) || !strings.Contains(r.Err.Error(), "command 4 of 4") {
		t.Fatalf("got %v", r.Err)
	}
	if l.env.Effects().Size() != size || l.env.NextVersion() != next {
		t.Fatal("a failed batch left something")
	}
	if got := formatReply(l.doLines("get a")) + formatReply(l.doLines("exists h")); got != `"1"0` {
		t.Fatalf("after a failed batch: %s", got)
	}
	b.Commands = parseCommands("set a 2", "incrby a 5", "get a", "get h")
	if r := l.env.Do(b); r.Kind != OK || len(b.Replies) != 4 {
		t.Fatalf("got %+v, %v", r, b.Replies)
	}
	if got := formatReply(b.Replies[1]) + formatReply(b.Replies[2]) + formatReply(b.Replies[3]); got != `7"7"nil` {
		t.Fatalf("replies %s", got)
	}
}

func TestAWriteIsAllOrNothingWithItsConditions(t *testing.T) {
	for name, test := range map[string]struct {
		last Command
		want error
	}{
		"a value that is no number":    {parseCommand("incrby n 1"), ErrNotInteger},
		"a key that is there":          {&Set{Key: positionOf("n"), Condition: IfAbsent}, ErrNotStored},
		"a key that is not there":      {&Set{Key: positionOf("none"), Condition: IfPresent}, ErrNotStored},
		"a key that the write made":    {&Set{Key: positionOf("h"), Condition: IfAbsent}, ErrNotStored},
		"a key at another version":     {&Set{Key: positionOf("n"), Condition: IfVersion, Version: 77}, ErrConflict},
		"a key that the write deletes": {&Set{Key: positionOf("a"), Condition: IfPresent}, ErrNotStored},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestEnv(t)
			l.doLines("set a 1", "set n text")
			size, next := l.env.Effects().Size(), l.env.NextVersion()
			w := &Write{Commands: append(parseCommands("set b 2", "hset h f v", "del a"), test.last)}
			r := l.env.Do(w)
			var at *WriteError
			if !errors.Is(r.Err, test.want) || !errors.As(r.Err, &at) || at.Index != 3 || !strings.Contains(r.Err.Error(), "write 4 of 4") {
				t.Fatalf("got %v, want %v of write 4", r.Err, test.want)
			}
			if l.env.Effects().Size() != size || l.env.NextVersion() != next {
				t.Fatal("it left something")
			}
			w.Commands = w.Commands[:3]
			if r := l.env.Do(w); r.Kind != OK || r.Err != nil {
				t.Fatalf("without the last: %+v", r)
			}
			if got := formatReply(l.doLines("get a")) + formatReply(l.doLines("get b")) + formatReply(l.doLines("exists h")); got != `nil"2"1` {
				t.Fatalf("after that: %s", got)
			}
		})
	}
}

func TestACommitValidatesWhatWasRead(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("set a 1", "set b 2 px 50", "hset h f v") // versions 1, 2, 3
	l.commit()
	whole := func(now int64) RangeRead {
		d, err := DigestRange(l.store, testKeyspace.Span().Start, testKeyspace.Span().End, AliveAt(now))
		if err != nil {
			t.Fatal(err)
		}
		return RangeRead{testKeyspace.Span().Start, testKeyspace.Span().End, d}
	}
	before := whole(l.clockMS)
	if before.Digest.KeyCount() != 3 {
		t.Fatalf("%d keys, want 3: elements do not count", before.Digest.KeyCount())
	}
	reads := []Read{{positionOf("a"), 1}, {positionOf("b"), 2}, {positionOf("none"), 0}, {positionOf("h"), 3}}
	for name, test := range map[string]struct {
		meanwhile string
		waitMS    int64
		reads     []Read
		ranges    []RangeRead
		want      string
	}{
		"nothing":       {"get a", 0, reads, []RangeRead{before}, "OK"},
		"a write":       {"set a 1", 0, reads, nil, "ErrConflict"},
		"a field":       {"hset h f v", 0, reads, nil, "ErrConflict"},
		"a creation":    {"set none x", 0, reads, nil, "ErrConflict"},
		"a deletion":    {"del a", 0, reads, nil, "ErrConflict"},
		"an expiry":     {"get a", 50, reads, nil, "ErrConflict"},
		"a new expiry":  {"pexpire a 99", 0, reads, nil, "ErrConflict"},
		"another key":   {"set other x", 0, reads, nil, "OK"},
		"in the range":  {"set other x", 0, nil, []RangeRead{before}, "ErrConflict"},
		"out of it":     {"del a", 0, nil, []RangeRead{{positionOf("b"), nil, digestOf(positionOf("b"), 2, positionOf("h"), 3)}}, "OK"},
		"range expires": {"get a", 50, nil, []RangeRead{before}, "ErrConflict"},
	} {
		m := newTestEnv(t)
		for key, value := range l.store.rows {
			m.store.rows[key] = value
		}
		m.nextVersion = 100
		m.begin()
		m.doLines(test.meanwhile)
		if test.waitMS > 0 {
			m.advanceClock(test.waitMS)
		}
		c := &Commit{Reads: test.reads, Ranges: test.ranges, Writes: Batch{Commands: parseCommands("set done 1", "incrby done 1")}}
		r := m.env.Do(c)
		if got := formatReply(r); got != test.want {
			t.Errorf("%s: got %s (%v), want %s", name, got, r.Err, test.want)
		}
		if got := formatReply(m.doLines("get done")); (got == `"2"`) != (test.want == "OK") {
			t.Errorf("%s: after %s, done is %s", name, test.want, got)
		}
		var conflict *ConflictError
		if test.want != "OK" && (!errors.As(r.Err, &conflict) || conflict.IsRange != (test.ranges != nil)) {
			t.Errorf("%s: %v does not say what changed", name, r.Err)
		}
	}
}

func digestOf(a partition.Position, va uint64, b partition.Position, vb uint64) (d Digest) {
	d.Add(b, vb) // the order does not matter
	d.Add(a, va)
	return d
}

func TestADigestTellsKeysAndVersionsApart(t *testing.T) {
	a, b := positionOf("a"), positionOf("b")
	all := map[Digest]string{}
	for name, d := range map[string]Digest{
		"none": {}, "a1b2": digestOf(a, 1, b, 2), "a2b1": digestOf(a, 2, b, 1), "a1b3": digestOf(a, 1, b, 3), "a1a1": digestOf(a, 1, a, 1), "b2b2": digestOf(b, 2, b, 2),
	} {
		if other, ok := all[d]; ok {
			t.Errorf("%s and %s are the same", name, other)
		}
		all[d] = name
	}
}

func TestReapDeletesOnlyTheVersionThatWasFoundDead(t *testing.T) {
	for name, test := range map[string]struct {
		lines string
		reap  uint64
		want  int64
	}{
		"dead":      {"set k v px 10;wait", 1, 1},
		"alive":     {"set k v px 11;wait", 1, 0},
		"for ever":  {"set k v;wait", 1, 0},
		"rewritten": {"set k v px 5;set k w px 10;wait", 1, 0},
		"absent":    {"get k;wait", 0, 0},
		"hash":      {"hset k f v;pexpire k 10;wait", 2, 1},
	} {
		l := newTestEnv(t)
		for line := range strings.SplitSeq(test.lines, ";") {
			if line == "wait" {
				l.advanceClock(10)
			} else {
				l.doLines(line)
			}
		}
		if r := l.env.Do(&Reap{Key: positionOf("k"), Version: test.reap}); r.Int != test.want || r.Err != nil {
			t.Errorf("%s: got %+v, want %d", name, r, test.want)
		}
		l.commit()
		_, row := l.store.tableRows(effect.Rows)[string(positionOf("k"))]
		_, expiry := l.store.tableRows(effect.Expiry)[string(positionOf("k"))]
		if test.want == 1 && (row || expiry) {
			t.Errorf("%s: the row or its expiry is left", name)
		}
	}
}

func TestSweepRemovesOrphansABoundedNumberAtATime(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("hset k a 1 b 2 c 3 d 4 e 5", "hset kk x 1", "hset k\x00 y 1")
	l.commit()
	l.doLines("del k", "hset k b 9 z 9")
	l.commit()
	for _, want := range []Reply{{Int: 1, More: true}, {Int: 2, More: true}, {Int: 1, More: false}, {Int: 0, More: false}} {
		if r := l.env.Do(&Sweep{Key: positionOf("k"), Limit: 2}); r.Int != want.Int || r.More != want.More || r.Err != nil {
			t.Fatalf("got %+v, want %+v", r, want)
		}
		l.commit()
	}
	if n := len(l.store.tableRows(effect.Rows)); n != 3+4 {
		t.Errorf("%d rows, want those of 3 keys with 4 fields", n)
	}
	if notes := l.store.tableRows(effect.Orphans); len(notes) != 0 {
		t.Errorf("notes %q are left", notes)
	}
	if got := formatReply(l.doLines("hgetall k")); got != `["b"="9" "z"="9"]` {
		t.Errorf("the sweep has changed the hash to %s", got)
	}
}

func TestASweepBeginsAgainWhenMoreIsOrphaned(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("hset k a 1 b 2 c 3", "del k")
	l.env.Do(&Sweep{Key: positionOf("k"), Limit: 2})
	l.doLines("hset k a 1", "del k") // behind the cursor
	l.commit()
	for l.env.Do(&Sweep{Key: positionOf("k"), Limit: 2}).More {
		l.commit()
	}
	l.commit()
	if len(l.store.rows) != 0 {
		t.Errorf("%q is left", l.store.rows)
	}
}
