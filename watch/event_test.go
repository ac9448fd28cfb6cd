package watch

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
)

func cursorAt(i int) cleave.Cursor { return cleave.Cursor(fmt.Sprintf("t-%x", i)) }

// drawChange makes a change at random, as the feed would tell it: n counts them.
func drawChange(rt *rapid.T, n int, hash map[string]bool) (ops []cleave.ChangeOp) {
	key := numberKey(rapid.IntRange(0, 24).Draw(rt, "key"))
	op := cleave.ChangeOp{Keyspace: "k", Key: key, Item: cleave.Item{Key: key, Version: uint64(n)}}
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0:
		op.Deleted, op.Item = true, cleave.Item{}
		hash[string(key)] = false
		return append(ops, op)
	case 1:
		op.Item.Value = fmt.Append(nil, n)
		hash[string(key)] = false
		return append(ops, op)
	}
	op.Created = !hash[string(key)]
	hash[string(key)] = true
	ops = append(ops, op)
	for range rapid.IntRange(1, 3).Draw(rt, "fields") {
		f := cleave.ChangeOp{Keyspace: "k", Key: key, Field: fmt.Appendf(nil, "f%d", rapid.IntRange(0, 30).Draw(rt, "field"))}
		if f.Deleted = rapid.Bool().Draw(rt, "deleted"); !f.Deleted {
			f.Item.Value = fmt.Append(nil, n)
		}
		ops = append(ops, f)
	}
	return ops
}

// A watcher that received an event, and goes on from the place that it names, ends with what
// is there. And what is reported comes in order, the newest state of a key at the last.
func TestWhatIsBehindThePlaceOfAnEventMakesUpForWhatWasNotTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := eventQueue{every: rapid.Bool().Draw(rt, "every"), maxLen: 1 << 20, maxBytes: 1 << 30}
		var log [][]cleave.ChangeOp // change i ends at place i+1
		told, now, hash := newMirror(), newMirror(), map[string]bool{}
		at := cursorAt(0)
		var out []Event
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if rapid.IntRange(0, 2).Draw(rt, "step") > 0 {
				ops := drawChange(rt, len(log)+1, hash)
				for i := range ops {
					q.push(&ops[i], cursorAt(len(log)))
					_ = now.apply(newEvent(&ops[i], false))
				}
				log = append(log, ops)
				continue
			}
			if len(out) == 0 && q.len() > 0 {
				out = q.pop(nil, at, cursorAt(len(log)))
			}
			if len(out) == 0 {
				continue
			}
			if err := told.apply(out[0]); err != nil {
				rt.Fatal(err)
			}
			at, out = out[0].After, out[1:]
			again := told.clone()
			for i, ops := range log {
				if cursorAt(i).Covers(at) {
					for k := range ops {
						_ = again.apply(newEvent(&ops[k], false))
					}
				}
			}
			if d := again.diffFrom(now); d != "" {
				rt.Fatalf("who goes on from %s gets %s", at, d)
			}
		}
		for ; q.len() > 0 || len(out) > 0; out = out[1:] {
			if len(out) == 0 {
				out = q.pop(nil, at, cursorAt(len(log)))
			}
			if err := told.apply(out[0]); err != nil {
				rt.Fatal(err)
			}
			at = out[0].After
		}
		if d := told.diffFrom(now); d != "" {
			rt.Fatalf("at the end it is %s", d)
		}
		if q.bytes != 0 || q.len() != 0 {
			rt.Fatalf("an empty queue has %d bytes and %d keys", q.bytes, q.len())
		}
	})
}

func TestAQueueIsBounded(t *testing.T) {
	op := func(key, value string) *cleave.ChangeOp {
		return &cleave.ChangeOp{Key: []byte(key), Item: cleave.Item{Value: []byte(value)}}
	}
	q := eventQueue{maxLen: 2, maxBytes: 1000}
	for i, step := range []struct {
		key, value string
		ok         bool
	}{
		{"a", "1", true}, {"b", "1", true}, {"a", "2", true}, {"a", string(make([]byte, 300)), true},
		{"a", string(make([]byte, 900)), false}, {"a", "3", true}, {"c", "1", false},
	} {
		if ok := q.push(op(step.key, step.value), ""); ok != step.ok {
			t.Errorf("step %d: %v", i, ok)
		}
	}
	q.clear()
	if !q.push(op("large", string(make([]byte, 5000))), "") {
		t.Error("one that is larger than all room is let in alone")
	}
	if q.push(op("b", "1"), "") {
		t.Error("but nothing beside it")
	}
}
