package group

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// numbered makes a command that reads several keys as parts, and those keys.
func numbered(t *testing.T, g *Group, n int) (get []command.Command, want []string) {
	t.Helper()
	for i := range n {
		key, value := fmt.Sprint("k", i), fmt.Sprint("value ", i)
		do(t, g, &command.Set{Key: at(key), Value: []byte(value)})
		get, want = append(get, &command.Get{Key: at(key)}), append(want, value)
	}
	do(t, g, &command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("field")}}})
	return append(get, &command.HGetAll{Key: at("h")}), want
}

func checkParts(t *testing.T, when string, replies []command.Reply, want []string) {
	t.Helper()
	if len(replies) != len(want)+1 {
		t.Fatalf("%s: %d replies, want %d", when, len(replies), len(want)+1)
	}
	for i, w := range want {
		if string(replies[i].Bytes) != w {
			t.Errorf("%s: reply %d is %q, want %q", when, i, replies[i].Bytes, w)
		}
	}
	last := replies[len(want)]
	if len(last.Items) != 1 || string(last.Items[0].Field) != "f" || string(last.Items[0].Value) != "field" {
		t.Errorf("%s: the items are %+v", when, last.Items)
	}
}

// A caller keeps the replies of all parts of its command, however many batches
// come after it and use the same memory.
func TestRepliesOfAllPartsOutliveTheBatch(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7} {
		g := open(t, newDisk(true), Options{})
		get, want := numbered(t, g, n)
		batch := &command.Batch{Commands: get}
		commit := &command.Commit{Writes: command.Batch{Commands: get}}
		reply := do(t, g, &command.HGetAll{Key: at("h")})
		do(t, g, batch)
		do(t, g, commit)
		for i := range 50 { // as long and longer, over the memory of the replies
			do(t, g, &command.Set{Key: at("other"), Value: fmt.Appendf(nil, "%0*d", 1+i*20, 0)})
			do(t, g, &command.Get{Key: at("other")})
			do(t, g, &command.HSet{Key: at("h2"), Fields: []command.FieldValue{{Field: []byte("x"), Value: []byte("xxxxx")}}})
			do(t, g, &command.HGetAll{Key: at("h2")})
		}
		when := fmt.Sprintf("%d parts", n+1)
		checkParts(t, when, batch.Replies, want)
		checkParts(t, when+" of a commit", commit.Writes.Replies, want)
		checkParts(t, "the reply itself", []command.Reply{reply}, nil)
	}
}

// A retry gets the replies of all parts: from the record, from the first call of
// the same batch, and into memory that held others.
func TestARetryGetsTheRepliesOfAllParts(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	get, want := numbered(t, g, 3)
	request := func() (Request, *command.Batch) {
		b := &command.Batch{Commands: get, Replies: make([]command.Reply, 9)}
		return Request{Command: b, Key: at("k0"), ID: requestAt(wall.read(), 1)}, b
	}
	first, a := request()
	second, b := request()
	calls, errs := []*call{{Request: first}, {Request: second}}, make([]error, 2)
	if err := g.actor.CallBatch(context.Background(), calls, errs); err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(err, errs)
	}
	do(t, g, &command.Delete{Keys: []partition.Position{at("k0"), at("k1"), at("k2"), at("h")}})
	do(t, g, &command.Set{Key: at("other"), Value: make([]byte, 500)})
	do(t, g, &command.Get{Key: at("other")})
	third, c := request()
	if reply, err := g.Do(context.Background(), third); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	g = open(t, d.crash(), Options{Wall: wall.read})
	fourth, e := request()
	if reply, err := g.Do(context.Background(), fourth); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	for when, batch := range map[string]*command.Batch{"first": a, "in the same batch": b, "later": c, "after a crash": e} {
		checkParts(t, when, batch.Replies, want)
	}
}
