package group

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// newAdd is a request that adds 1 to a key.
func newAdd(key string, id RequestID) Request {
	return Request{Command: &command.Add{Key: positionOf(key), Delta: 1}, Key: positionOf(key), ID: id}
}

// newAddTxn is the same as a transaction, which goes on with what else it is given.
func newAddTxn(key string, id RequestID, more ...command.Command) Request {
	writes := append([]command.Command{&RecordRequest{Request: newAdd(key, id)}}, more...)
	return Request{Command: &command.Commit{Writes: command.Batch{Commands: writes}}, Key: positionOf(key)}
}

// What is on its way elsewhere gets no record of a request, also of one that changes nothing
// else: it would stay behind, and the request be executed again there.
func TestARecordIsNotWrittenIntoAFrozenRange(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{ID: 1})
	serves := servingRange("a", "m", 1)
	replaceRange(t, g, ownership.Range{}, serves)
	frozen := serves
	frozen.State = ownership.Frozen
	replaceRange(t, g, serves, frozen)
	reply, err := g.Execute(context.Background(), Request{NoWait: true, Key: positionOf("k"), Command: &command.Commit{
		Reads: []command.Read{{Key: positionOf("k")}},
		Writes: command.Batch{Commands: []command.Command{
			&RecordRequest{Request: Request{Key: positionOf("k"), ID: requestAt(g.NowMS(), 7)}},
			&command.Delete{Keys: []partition.Position{positionOf("k")}},
		}},
	}})
	if n := d.countRows(effect.Dedup); err != nil || !errors.Is(reply.Err, ownership.ErrFrozen) || n > 0 {
		t.Errorf("it has %d records: %v, %v", n, err, reply.Err)
	}
}

// A request is known again by its key and its id, in one batch as in two.
func TestOneIDForTwoKeysIsTwoRequests(t *testing.T) {
	g := openGroup(t, newMemoryDisk(true), Options{})
	id := requestAt(g.NowMS(), 7)
	m := &Pipeline{}
	for _, key := range []string{"a", "b", "a", "b"} {
		m.Add(g, Request{Command: &command.Add{Key: positionOf(key), Delta: 1}, Key: positionOf(key), ID: id}, 0)
	}
	m.Execute()
	for i := range 4 {
		if r, err := m.Reply(i); err != nil || r.Err != nil || r.Int != 1 {
			t.Errorf("request %d: %d, %v, %v", i, r.Int, r.Err, err)
		}
	}
	for _, key := range []string{"a", "b"} {
		if r, ok, err := g.Read(context.Background(), positionOf(key), nil); err != nil || !ok || string(r.Payload) != "1" {
			t.Errorf("%s is %q, %v, %v", key, r.Payload, ok, err)
		}
	}
}

// A retry may take another way than the first attempt, which is still on its: once as a
// transaction, once as itself. In one batch, too, they are one request.
func TestARequestAndATransactionOfItInOneBatchAreOne(t *testing.T) {
	id := requestAt(1<<40, 7)
	fails := &command.Add{Key: positionOf("text"), Delta: 1}
	for _, c := range []struct {
		name  string
		batch func() []Request
	}{
		{"the transaction first", func() []Request { return []Request{newAddTxn("k", id), newAdd("k", id), newAdd("k", id)} }},
		{"the transaction second", func() []Request { return []Request{newAdd("k", id), newAddTxn("k", id), newAdd("k", id)} }},
		{"a transaction fails first", func() []Request { return []Request{newAddTxn("k", id, fails), newAdd("k", id), newAddTxn("k", id)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newMemoryDisk(true)
			g := openGroup(t, d, Options{Wall: func() int64 { return 1 << 40 }})
			mustDo(t, g, newSet("text", "x"))
			try := func() *Pipeline {
				m := new(Pipeline)
				for _, r := range c.batch() {
					m.Add(g, r, 0)
				}
				m.Execute()
				return m
			}
			d.refuse = errFull
			for i, m := 0, try(); i < m.Len(); i++ {
				if r, err := m.Reply(i); r.Err == nil && !errors.Is(err, errFull) {
					t.Errorf("request %d on a full disk: %v, %v", i, r, err)
				}
			}
			d.refuse = nil
			for range 2 { // in the batch of the first one, and later
				for i, m := 0, try(); i < m.Len(); i++ {
					r, err := m.Reply(i)
					if plain := c.batch()[i].ID == id; err != nil || plain && (r.Err != nil || r.Int != 1) {
						t.Errorf("request %d: %d, %v, %v", i, r.Int, r.Err, err)
					}
				}
			}
			if got := readText(t, g, "k"); got != "1" {
				t.Errorf("it was executed %s times", got)
			}
		})
	}
}

// The same of several groups: the transaction ends in the batch of the retry, before it in
// the list or in what rides along.
func TestAJointRequestAndATransactionOfItInOneBatchAreOne(t *testing.T) {
	j := newJointFixture(t, 2)
	retry := func(id RequestID) *jointCall {
		return newJointCall([]SubRequest{{j.groups[0], newAdd("a", id)}, {j.groups[1], newAdd("b", RequestID{})}})
	}
	check := func(c *jointCall) {
		t.Helper()
		if c.err != nil || !c.replayed || c.hasFailed() || c.parts[0].reply.Int == 0 || c.parts[1].reply.Int != 0 {
			t.Errorf("the retry: recalled %v, %v, %v", c.replayed, c.listReplies(), c.err)
		}
	}
	id := requestAt(j.nowMS, 1)
	first := retry(id)
	first.parts[0].Request = newAddTxn("a", id)
	calls := []*jointCall{first, retry(id), j.transferCall(0, 1, 1)}
	executeJoint(t.Context(), calls)
	check(calls[1])
	j.checkValues(0, 2)

	id = requestAt(j.nowMS, 2)
	span := spanBetween("a", "b")
	mustDo(t, j.groups[0], &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: j.nowMS + 60_000,
		Participant: txn.Participant{Span: span, Writes: []command.Command{&RecordRequest{Request: newAdd("a", id)}}},
	})
	last := retry(id)
	if err := whilePiggybacking(t, j.groups[0], &txn.Resolve{ID: txn.ID{1}, Span: span, Commit: true, DeadlineMS: j.nowMS + 60_000}, func() {
		executeJoint(t.Context(), []*jointCall{last})
	}); err != nil {
		t.Error(err)
	}
	check(last)
	j.checkValues(1, 2)
}

// newReads makes a command that reads several keys as parts, and those keys.
func newReads(t *testing.T, g *Group, n int) (get []command.Command, want []string) {
	t.Helper()
	for i := range n {
		key, value := fmt.Sprint("k", i), fmt.Sprint("value ", i)
		mustDo(t, g, &command.Set{Key: positionOf(key), Value: []byte(value)})
		get, want = append(get, &command.Get{Key: positionOf(key)}), append(want, value)
	}
	mustDo(t, g, &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("field")}}})
	return append(get, &command.HGetAll{Key: positionOf("h")}), want
}

func checkReplies(t *testing.T, when string, replies []command.Reply, want []string) {
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
		g := openGroup(t, newMemoryDisk(true), Options{})
		get, want := newReads(t, g, n)
		batch := &command.Batch{Commands: get}
		commit := &command.Commit{Writes: command.Batch{Commands: get}}
		reply := mustDo(t, g, &command.HGetAll{Key: positionOf("h")})
		mustDo(t, g, batch)
		mustDo(t, g, commit)
		for i := range 50 { // as long and longer, over the memory of the replies
			mustDo(t, g, &command.Set{Key: positionOf("other"), Value: fmt.Appendf(nil, "%0*d", 1+i*20, 0)})
			mustDo(t, g, &command.Get{Key: positionOf("other")})
			mustDo(t, g, &command.HSet{Key: positionOf("h2"), Fields: []command.FieldValue{{Field: []byte("x"), Value: []byte("xxxxx")}}})
			mustDo(t, g, &command.HGetAll{Key: positionOf("h2")})
		}
		when := fmt.Sprintf("%d parts", n+1)
		checkReplies(t, when, batch.Replies, want)
		checkReplies(t, when+" of a commit", commit.Writes.Replies, want)
		checkReplies(t, "the reply itself", []command.Reply{reply}, nil)
	}
}

// A retry gets the replies of all parts: from the record, from the first call of
// the same batch, and into memory that held others.
func TestARetryGetsTheRepliesOfAllParts(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	get, want := newReads(t, g, 3)
	request := func() (Request, *command.Batch) {
		b := &command.Batch{Commands: get, Replies: make([]command.Reply, 9)}
		return Request{Command: b, Key: positionOf("k0"), ID: requestAt(wall.readMS(), 1)}, b
	}
	first, a := request()
	second, b := request()
	calls, errs := []*call{{Request: first}, {Request: second}}, make([]error, 2)
	if err := g.actor.CallBatch(context.Background(), calls, errs); err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(err, errs)
	}
	mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf("k0"), positionOf("k1"), positionOf("k2"), positionOf("h")}})
	mustDo(t, g, &command.Set{Key: positionOf("other"), Value: make([]byte, 500)})
	mustDo(t, g, &command.Get{Key: positionOf("other")})
	third, c := request()
	if reply, err := g.Execute(context.Background(), third); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	g = openGroup(t, d.crashCopy(), Options{Wall: wall.readMS})
	fourth, e := request()
	if reply, err := g.Execute(context.Background(), fourth); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	for when, batch := range map[string]*command.Batch{"first": a, "in the same batch": b, "later": c, "after a crash": e} {
		checkReplies(t, when, batch.Replies, want)
	}
}
