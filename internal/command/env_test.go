package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/partition"
	"pgregory.net/rapid"
)

func TestScansMergeTheBatchInOrderBothWaysAndRewindsAreUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[ab]{0,3}`)
		store, want := newSorted(), map[string]string{}
		for range rapid.IntRange(0, 8).Draw(t, "committed") {
			k := key.Draw(t, "key")
			store.rows[k], want[k] = "old", "old"
		}
		e := NewEnv(store)
		type state struct {
			at   Point
			rows map[string]string
		}
		states := []state{{e.Mark(), maps.Clone(want)}}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := key.Draw(t, "key")
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0:
				states = append(states, state{e.Mark(), maps.Clone(want)})
			case 1:
				n := rapid.IntRange(0, len(states)-1).Draw(t, "state")
				states = states[:n+1]
				e.Rewind(states[n].at)
				want = maps.Clone(states[n].rows)
			case 2, 3:
				e.delete([]byte(k))
				delete(want, k)
			default:
				want[k] = fmt.Sprint(i)
				e.put([]byte(k), []byte(want[k]), nil)
			}
		}
		for _, k := range []string{"", "a", "ab", "bbb", "zz"} {
			value, ok, err := e.lookup([]byte(k))
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
	l := newLab(t)
	old := &HSet{Key: at("h")}
	for i := range 3*scanSlack + 7 {
		old.Fields = append(old.Fields, FieldValue{fmt.Appendf(nil, "%05d", i), []byte("old")})
	}
	l.env.Do(old)
	l.do("del h", "hset h 00001 a 00300 b z c")
	var fields []string
	calls := 0
	for c := (&HScan{Key: at("h"), Limit: 2}); ; calls++ {
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
	l := newLab(t)
	l.do("set a 1", "hset b f v", "set c 3 px 10", "set d 4")
	l.advance(10)
	l.do("set e 5", "del d", "set aa 6")
	for _, reverse := range []bool{false, true} {
		var got []string
		c := &Range{Start: space.Span().Start, End: space.Span().End, Reverse: reverse, Limit: 2}
		for {
			r := l.env.Do(c)
			for _, item := range r.Items {
				key, _, err := space.Split(nil, item.Field)
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
				c.Start = After(last)
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
	l := newLab(t)
	big := strings.Repeat("x", 3000)
	l.do("set a first", "hset h f value", "set b "+big)
	l.commit()
	get, all := l.do("get a"), l.do("hgetall h")
	clone, allClone := get.Clone(), all.Clone()
	for range 100 { // outgrows the memory for replies
		l.do("get b", "set c "+big, "get c", "hgetall h")
	}
	if string(get.Bytes) != "first" || string(all.Items[0].Value) != "value" {
		t.Errorf("a reply has changed in its batch: %q, %s", get.Bytes, say(all))
	}
	l.commit()
	l.do("get b", "get b", "hgetall h")
	if string(clone.Bytes) != "first" || say(allClone) != `["f"="value"]` {
		t.Errorf("a clone has changed: %q, %s", clone.Bytes, say(allClone))
	}
}

func TestRepliesDoNotAliasEffects(t *testing.T) {
	l := newLab(t)
	l.do("set other x", "hset h f v")
	l.commit()
	l.do("set a text", "hset h g w")
	before := bytes.Clone(l.env.Effects().Bytes())
	for _, line := range []string{"get a", "set a text get", "hget h g", "hgetall h", "hmget h f g", "getrange a 0 9"} {
		l.do("exists other") // what this has read is not part of the reply
		point := l.env.Mark()
		r := l.do(line)
		clear(r.Bytes)
		for _, item := range r.Items {
			clear(item.Value)
		}
		l.env.Rewind(point)
		if !bytes.Equal(l.env.Effects().Bytes(), before) {
			t.Errorf("the reply of %s is part of the effects", line)
		}
	}
}

func TestTheNameOfAFieldIsFoundInItsPosition(t *testing.T) {
	l := newLab(t)
	l.do(`hset k "" v`)
	for _, op := range l.batch().All() {
		_, element, err := space.Split(nil, op.Key[1:])
		if err != nil {
			t.Fatal(err)
		}
		if name := FieldName(element); (name != nil) != (len(element) > 0) || len(name) != 0 {
			t.Errorf("the field at %q is %q", op.Key, name)
		}
	}
	if name := FieldName([]byte{elementTag + 1, 'x'}); name != nil {
		t.Errorf("an element that is no field has the name %q", name)
	}
}

func TestLimitsAreRefusedByName(t *testing.T) {
	long, huge := bytes.Repeat([]byte("k"), MaxKeyBytes+1), make([]byte, MaxValueBytes+1)
	many := make([]partition.Position, MaxTxnKeys+1)
	var sets []Command
	for i := range many {
		many[i] = at(fmt.Sprint(i))
		sets = append(sets, &Set{Key: many[i]})
	}
	half := &Set{Key: at("half"), Value: huge[:MaxTxnBytes/2]}
	for name, test := range map[string]struct {
		c    Command
		want string
	}{
		"value":       {&Set{Key: at("k"), Value: huge}, "value of 67108865 bytes, at most 67108864"},
		"key":         {&Get{Key: at(strings.Repeat("k", maxPosition))}, "at most 16384"},
		"field":       {&HSet{Key: at("k"), Fields: []FieldValue{{long, nil}}}, "field of 16385"},
		"field read":  {&Batch{Commands: []Command{parse("hset k f v"), &HGet{Key: at("k"), Field: long}}}, "field of 16385"},
		"fields":      {&HSet{Key: at("k"), Fields: []FieldValue{{[]byte("a"), half.Value}, {[]byte("b"), half.Value}}}, "transaction of 671088"},
		"field value": {&HSet{Key: at("k"), Fields: []FieldValue{{nil, huge}}}, "value of"},
		"append":      {&Batch{Commands: []Command{&Set{Key: at("k"), Value: huge[:10]}, &Append{Key: at("k"), Tail: huge[:MaxValueBytes]}}}, "value of"},
		"keys":        {&Delete{Keys: many}, "10001 keys in a transaction, at most 10000"},
		"batch keys":  {&Batch{Commands: sets}, "10001 keys in a transaction"},
		"commit keys": {&Commit{Reads: []Read{{at("k"), 0}}, Writes: Batch{Commands: sets[1:]}}, "10001 keys in a transaction"},
		"write keys":  {&Write{Commands: sets}, "10001 keys in a transaction"},
		"write bytes": {&Write{Commands: []Command{half, half, half}}, "transaction of"},
		"batch bytes": {&Batch{Commands: []Command{half, half, half}}, "transaction of"},
	} {
		l := newLab(t)
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
	key := at(strings.Repeat("\x00", MaxKeyBytes)) // each byte is escaped
	var fields []FieldValue
	var names [][]byte
	for i := range MaxTxnBytes/len(key) + 2 {
		names = append(names, fmt.Append(nil, i))
		fields = append(fields, FieldValue{Field: names[i]})
	}
	l := newLab(t)
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
	element := append(at("k"), elementTag)
	for name, test := range map[string]struct {
		c    Command
		want error
	}{
		"no position": {&Get{}, partition.ErrPosition},
		"element":     {&Set{Key: element}, partition.ErrPosition},
		"condition":   {&Set{Key: at("k"), If: IfVersion + 1}, ErrSyntax},
		"version":     {&Set{Key: at("k"), Version: 1}, ErrSyntax},
		"no time":     {&Expire{Key: at("k")}, ErrSyntax},
		"keep":        {&Expire{Key: at("k"), Expiry: Keep()}, ErrSyntax},
		"scan limit":  {&HScan{Key: at("k")}, ErrSyntax},
		"range limit": {&Range{}, ErrSyntax},
		"sweep limit": {&Sweep{Key: at("k")}, ErrSyntax},
		"large sweep": {&Sweep{Key: at("k"), Limit: MaxTxnKeys + 1}, ErrTooLarge},
	} {
		if r := newLab(t).env.Do(test.c); r.Kind != Failed || !errors.Is(r.Err, test.want) {
			t.Errorf("%s: got %v, want %v", name, r.Err, test.want)
		}
	}
}
