package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

func TestScansMergeTheBatchInOrderBothWaysAndRewindsAreUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[ab]{0,3}`)
		store, want := newMemoryStore(), map[string]string{}
		for range rapid.IntRange(0, 8).Draw(t, "committed") {
			k := key.Draw(t, "key")
			store.rows[k], want[k] = "old", "old"
		}
		e := NewEnv(store)
		type state struct {
			at   Savepoint
			rows map[string]string
		}
		states := []state{{e.Savepoint(), maps.Clone(want)}}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := key.Draw(t, "key")
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0:
				states = append(states, state{e.Savepoint(), maps.Clone(want)})
			case 1:
				n := rapid.IntRange(0, len(states)-1).Draw(t, "state")
				states = states[:n+1]
				e.RollbackTo(states[n].at)
				want = maps.Clone(states[n].rows)
			case 2, 3:
				e.deleteRow([]byte(k))
				delete(want, k)
			default:
				want[k] = fmt.Sprint(i)
				e.putRow([]byte(k), []byte(want[k]), nil)
			}
		}
		for _, k := range []string{"", "a", "ab", "bbb", "zz"} {
			value, ok, err := e.lookupRow([]byte(k))
			if text, present := want[k]; err != nil || ok != present || string(value) != text {
				t.Fatalf("%q is %q, %v, %v; want %q, %v", k, value, ok, err, text, present)
			}
		}
		checkScan(t, e, want, key.Draw(t, "start"), key.Draw(t, "end"))
	})
}

func checkScan(t *rapid.T, e *Env, rows map[string]string, start, end string) {
	reverse, limit := rapid.Bool().Draw(t, "reverse"), rapid.IntRange(1, 10).Draw(t, "limit")
	var want, got []string
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if k >= start && k < end {
			want = append(want, k+"="+rows[k])
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]
	err := e.Scan([]byte(start), []byte(end), reverse, func(key, value []byte) bool {
		got = append(got, string(key)+"="+string(value))
		return len(got) < limit
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("scan of [%q, %q) reverse=%v gives %v (%v), want %v", start, end, reverse, got, err, want)
	}
}

func TestHScanTakesBreaksInALongRowOfOrphans(t *testing.T) {
	l := newTestEnv(t)
	old := &HSet{Key: positionOf("h")}
	for i := range 3*maxSkippedRows + 7 {
		old.Fields = append(old.Fields, FieldValue{fmt.Appendf(nil, "%05d", i), []byte("old")})
	}
	l.env.Do(old)
	l.doLines("del h", "hset h 00001 a 00300 b z c")
	var fields []string
	calls := 0
	for c := (&HScan{Key: positionOf("h"), Limit: 2}); ; calls++ {
		r := l.env.Do(c)
		if r.Err != nil || len(r.Items) > 2 {
			t.Fatalf("got %+v", r)
		}
		for _, item := range r.Items {
			fields = append(fields, string(item.Field))
		}
		if !r.More {
			break
		}
		c.After = r.Bytes
	}
	if got := strings.Join(fields, " "); got != "00001 00300 z" || calls < 3 {
		t.Errorf("fields %s in %d calls", got, calls+1)
	}
}

func TestARangeIsReadOnInEitherDirection(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("set a 1", "hset b f v", "set c 3 px 10", "set d 4")
	l.advanceClock(10)
	l.doLines("set e 5", "del d", "set aa 6")
	for _, reverse := range []bool{false, true} {
		var got []string
		c := &Range{Start: testKeyspace.Span().Start, End: testKeyspace.Span().End, Reverse: reverse, Limit: 2}
		for {
			r := l.env.Do(c)
			for _, item := range r.Items {
				key, _, err := testKeyspace.Split(nil, item.Field)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(key))
			}
			if !r.More {
				break
			}
			if last := r.Items[len(r.Items)-1].Field; reverse {
				c.End = last
			} else {
				c.Start = NextPosition(last)
			}
		}
		want := []string{"a", "aa", "b", "e"}
		if reverse {
			slices.Reverse(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse=%v: got %v, want %v", reverse, got, want)
		}
	}
}

func TestRepliesStayUntilTheNextBatchAndClonesForEver(t *testing.T) {
	l := newTestEnv(t)
	big := strings.Repeat("x", 3000)
	l.doLines("set a first", "hset h f value", "set b "+big)
	l.commit()
	get, all := l.doLines("get a"), l.doLines("hgetall h")
	clone, allClone := get.Clone(), all.Clone()
	for range 100 { // outgrows the memory for replies
		l.doLines("get b", "set c "+big, "get c", "hgetall h")
	}
	if string(get.Bytes) != "first" || string(all.Items[0].Value) != "value" {
		t.Errorf("a reply has changed in its batch: %q, %s", get.Bytes, formatReply(all))
	}
	l.commit()
	l.doLines("get b", "get b", "hgetall h")
	if string(clone.Bytes) != "first" || formatReply(allClone) != `["f"="value"]` {
		t.Errorf("a clone has changed: %q, %s", clone.Bytes, formatReply(allClone))
	}
}

func TestRepliesDoNotAliasEffects(t *testing.T) {
	l := newTestEnv(t)
	l.doLines("set other x", "hset h f v")
	l.commit()
	l.doLines("set a text", "hset h g w")
	before := bytes.Clone(l.env.Effects().Bytes())
	for _, line := range []string{"get a", "set a text get", "hget h g", "hgetall h", "hmget h f g", "getrange a 0 9"} {
		l.doLines("exists other") // what this has read is not part of the reply
		point := l.env.Savepoint()
		r := l.doLines(line)
		clear(r.Bytes)
		for _, item := range r.Items {
			clear(item.Value)
		}
		l.env.RollbackTo(point)
		if !bytes.Equal(l.env.Effects().Bytes(), before) {
			t.Errorf("the reply of %s is part of the effects", line)
		}
	}
}

func TestTheNameOfAFieldIsFoundInItsPosition(t *testing.T) {
	l := newTestEnv(t)
	l.doLines(`hset k "" v`)
	for _, op := range l.parseEffects().All() {
		_, element, err := testKeyspace.Split(nil, op.Key[1:])
		if err != nil {
			t.Fatal(err)
		}
		if name := FieldName(element); (name != nil) != (len(element) > 0) || len(name) != 0 {
			t.Errorf("the field at %q is %q", op.Key, name)
		}
	}
	if name := FieldName([]byte{fieldTag + 1, 'x'}); name != nil {
		t.Errorf("an element that is no field has the name %q", name)
	}
}

func TestLimitsAreRefusedByName(t *testing.T) {
	long, huge := bytes.Repeat([]byte("k"), MaxKeyBytes+1), make([]byte, MaxValueBytes+1)
	many := make([]partition.Position, MaxTxnKeys+1)
	var sets []Command
	var reads []Read
	fields := &HSet{Key: positionOf("many")} // of those there may be any number
	for i := range many {
		many[i] = positionOf(fmt.Sprint(i))
		sets = append(sets, &Set{Key: many[i]})
		reads = append(reads, Read{Key: many[i]})
		fields.Fields = append(fields.Fields, FieldValue{Field: fmt.Append(nil, i)})
	}
	if r := newTestEnv(t).env.Do(fields); r.Err != nil || r.Int != MaxTxnKeys+1 {
		t.Errorf("many fields: %d, %v", r.Int, r.Err)
	}
	half := &Set{Key: positionOf("half"), Value: huge[:MaxTxnBytes/2]}
	for name, test := range map[string]struct {
		c    Command
		want string
	}{
		"value":       {&Set{Key: positionOf("k"), Value: huge}, "value of 67108865 bytes, at most 67108864"},
		"key":         {&Get{Key: positionOf(strings.Repeat("k", maxPositionBytes))}, "at most 16384"},
		"field":       {&HSet{Key: positionOf("k"), Fields: []FieldValue{{long, nil}}}, "field of 16385"},
		"field read":  {&Batch{Commands: []Command{parseCommand("hset k f v"), &HGet{Key: positionOf("k"), Field: long}}}, "field of 16385"},
		"fields":      {&HSet{Key: positionOf("k"), Fields: []FieldValue{{[]byte("a"), half.Value}, {[]byte("b"), half.Value}}}, "transaction of 671088"},
		"field value": {&HSet{Key: positionOf("k"), Fields: []FieldValue{{nil, huge}}}, "value of"},
		"append":      {&Batch{Commands: []Command{&Set{Key: positionOf("k"), Value: huge[:10]}, &Append{Key: positionOf("k"), Suffix: huge[:MaxValueBytes]}}}, "value of"},
		"keys":        {&Delete{Keys: many}, "100001 keys in a transaction, at most 100000"},
		"batch keys":  {&Batch{Commands: sets}, "100001 keys in a transaction"},
		"commit keys": {&Commit{Reads: reads}, "100001 keys in a transaction"},
		"write keys":  {&Write{Commands: sets}, "100001 keys in a transaction"},
		"write bytes": {&Write{Commands: []Command{half, half, half}}, "transaction of"},
		"batch bytes": {&Batch{Commands: []Command{half, half, half}}, "transaction of"},
	} {
		l := newTestEnv(t)
		r := l.env.Do(test.c)
		var limit *LimitError
		if !errors.Is(r.Err, ErrTooLarge) || !errors.As(r.Err, &limit) || !strings.Contains(r.Err.Error(), test.want) {
			t.Errorf("%s: got %v, want an ErrTooLarge with %q", name, r.Err, test.want)
		}
		if l.env.Effects().Len() != 0 {
			t.Errorf("%s: it left effects", name)
		}
	}
	if err := CheckKey(long); !errors.Is(err, ErrTooLarge) || CheckKey(long[1:]) != nil {
		t.Errorf("CheckKey: %v", err)
	}
}

func TestALongKeyCountsForEachOfItsFields(t *testing.T) {
	key := positionOf(strings.Repeat("\x00", MaxKeyBytes)) // each byte is escaped
	var fields []FieldValue
	var names [][]byte
	for i := range MaxTxnBytes/len(key) + 2 {
		names = append(names, fmt.Append(nil, i))
		fields = append(fields, FieldValue{Field: names[i]})
	}
	l := newTestEnv(t)
	if r := l.env.Do(&HSet{Key: key, Fields: fields}); !errors.Is(r.Err, ErrTooLarge) {
		t.Errorf("HSet of %d fields: %v", len(fields), r.Err)
	}
	half := len(fields) / 2
	for _, part := range [][]FieldValue{fields[:half], fields[half:]} {
		if r := l.env.Do(&HSet{Key: key, Fields: part}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	before := l.env.Effects().Len()
	if r := l.env.Do(&HDel{Key: key, Fields: names}); !errors.Is(r.Err, ErrTooLarge) {
		t.Errorf("HDel of %d fields: %v", len(names), r.Err)
	}
	if r := l.env.Do(&HLen{Key: key}); r.Int != int64(len(names)) || l.env.Effects().Len() != before {
		t.Errorf("a refused HDel left %d of %d fields", r.Int, len(names))
	}
}

func TestBadInputIsRefused(t *testing.T) {
	element := append(positionOf("k"), fieldTag)
	for name, test := range map[string]struct {
		c    Command
		want error
	}{
		"no position": {&Get{}, partition.ErrPosition},
		"element":     {&Set{Key: element}, partition.ErrPosition},
		"condition":   {&Set{Key: positionOf("k"), Condition: IfVersion + 1}, ErrSyntax},
		"version":     {&Set{Key: positionOf("k"), Version: 1}, ErrSyntax},
		"no time":     {&Expire{Key: positionOf("k")}, ErrSyntax},
		"keep":        {&Expire{Key: positionOf("k"), Expiry: KeepExpiry()}, ErrSyntax},
		"scan limit":  {&HScan{Key: positionOf("k")}, ErrSyntax},
		"range limit": {&Range{}, ErrSyntax},
		"sweep limit": {&Sweep{Key: positionOf("k")}, ErrSyntax},
		"large sweep": {&Sweep{Key: positionOf("k"), Limit: MaxTxnKeys + 1}, ErrTooLarge},
	} {
		if r := newTestEnv(t).env.Do(test.c); r.Kind != Failed || !errors.Is(r.Err, test.want) {
			t.Errorf("%s: got %v, want %v", name, r.Err, test.want)
		}
	}
}

// rowWriter writes a row of a table of its own and may fail after that.
type rowWriter struct {
	value string
	err   error
}

var testRowKey = effect.Marks.AppendKey(nil, []byte("kept"))

func (c rowWriter) Eval(e *Env) Reply {
	if c.value == "" {
		e.Delete(testRowKey)
	} else {
		e.Put(testRowKey, []byte(c.value))
	}
	return Reply{Kind: OK, Err: c.err}
}

func TestRowsOfOtherTablesAreSeenAndTakenBackLikeAnyOther(t *testing.T) {
	l := newTestEnv(t)
	kept := func() string {
		value, ok, err := l.env.Get(testRowKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return "none"
		}
		return string(value)
	}
	for i, step := range []struct {
		c      rowWriter
		commit bool
		want   string
	}{
		{rowWriter{"a", nil}, false, "a"},
		{rowWriter{"b", errors.New("fails")}, false, "a"},
		{rowWriter{"", errors.New("fails")}, true, "a"},
		{rowWriter{"b", nil}, false, "b"},
		{rowWriter{"", nil}, false, "none"},
		{rowWriter{"", nil}, true, "none"},
	} {
		l.env.Do(step.c)
		if got := kept(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if step.commit {
			l.commit()
		}
		if got := kept(); got != step.want {
			t.Errorf("step %d, committed %v: %s, want %s", i, step.commit, got, step.want)
		}
	}
}

func TestEffectsOfATrialMeanTheSameWhenTheyAreDoneLater(t *testing.T) {
	l, plain := newTestEnv(t), newTestEnv(t)
	for _, lab := range []*testEnv{l, plain} {
		lab.doLines("set a 1", "hset h f 1 g 2")
		lab.commit()
		lab.doLines("set b 2")
	}
	lines := []string{"append a x", "hset h f 3", "set b 9", "set c 1 px 50", "hdel h g", "del a"}
	trial := NewEnv(l.env)
	trial.Begin(effect.Header{ClockMS: l.clockMS}, l.env.NextVersion())
	for _, line := range lines {
		if r := trial.Do(parseCommand(line)); r.Err != nil {
			t.Fatalf("%s: %v", line, r.Err)
		}
		plain.doLines(line)
	}
	if n := l.env.Effects().Len(); n != 1 {
		t.Fatalf("the trial has left %d effects", n)
	}
	batch, err := effect.Parse(trial.Effects().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		l.env.ApplyOp(op)
	}
	l.env.RaiseNextVersion(trial.NextVersion())
	l.env.RaiseNextVersion(1) // never back
	if l.env.NextVersion() != plain.env.NextVersion() {
		t.Errorf("next version %d, want %d", l.env.NextVersion(), plain.env.NextVersion())
	}
	l.commit()
	plain.commit()
	for key, value := range plain.store.rows {
		if l.store.rows[key] != value {
			t.Errorf("%q is %q, want %q", key, l.store.rows[key], value)
		}
	}
	if len(l.store.rows) != len(plain.store.rows) {
		t.Errorf("%d rows, want %d", len(l.store.rows), len(plain.store.rows))
	}
}

const benchKeys = 1024

// newWarmEnv returns an Env over a map of plain keys, and the keys.
func newWarmEnv(tb testing.TB) (*Env, []partition.Position) {
	l := newTestEnv(tb)
	keys := make([]partition.Position, benchKeys)
	for i := range keys {
		keys[i] = positionOf(fmt.Sprintf("key:%012d", i))
		l.env.Do(&Set{Key: keys[i], Value: make([]byte, 64)})
	}
	l.commit()
	return l.env, keys
}

func TestPlainCommandsDoNotAllocateWhenWarm(t *testing.T) {
	e, keys := newWarmEnv(t)
	value := make([]byte, 64)
	set, ttl, get, add, del := &Set{Value: value}, &Set{Value: value, Expiry: ExpireIn(5)}, &Get{}, &Add{Delta: 1}, &Delete{}
	hset, hget := &HSet{Fields: []FieldValue{{[]byte("f"), value}}}, &HGet{Field: []byte("f")}
	all := []Command{set, ttl, get, add, del, hset, hset, hget}
	batch := func() {
		e.Begin(effect.Header{Seq: 1, ClockMS: 1}, 1)
		for i := range 64 {
			set.Key, ttl.Key, get.Key = keys[i], keys[100+i], keys[i+1]
			add.Key = keys[200+i] // not a number: it is taken back
			del.Keys = keys[300+i : 301+i]
			hset.Key, hget.Key = keys[300+i], keys[300+i]
			for _, c := range all {
				if r := e.Do(c); r.Err != nil && c != add {
					t.Fatal(r.Err)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(20, batch); n != 0 {
		t.Errorf("%v allocations in a batch", n)
	}
}

func BenchmarkEnv(b *testing.B) {
	value := make([]byte, 64)
	for _, bm := range []struct {
		name string
		run  func(e *Env, key partition.Position)
	}{
		{"set", func() func(*Env, partition.Position) {
			c := &Set{Value: value}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"set-ttl", func() func(*Env, partition.Position) {
			c := &Set{Value: value, Expiry: ExpireIn(1000)}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"get", func() func(*Env, partition.Position) {
			c := &Get{}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
		{"hset", func() func(*Env, partition.Position) {
			c := &HSet{Fields: []FieldValue{{[]byte("field"), value}}}
			return func(e *Env, key partition.Position) { c.Key = key; e.Do(c) }
		}()},
	} {
		for _, size := range []int{1, 64} {
			b.Run(fmt.Sprintf("op=%s/batch=%d", bm.name, size), func(b *testing.B) {
				e, keys := newWarmEnv(b)
				if bm.name == "hset" {
					for i := range keys {
						keys[i] = positionOf(fmt.Sprintf("hash:%d", i))
					}
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if i%size == 0 {
						e.Begin(effect.Header{Seq: 1, ClockMS: 1}, 1)
					}
					bm.run(e, keys[i%benchKeys])
					i++
				}
			})
		}
	}
}
