package group

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// adding is a request that adds 1 to a key.
func adding(key string, id RequestID) Request {
	return Request{Command: &command.Add{Key: at(key), Delta: 1}, Key: at(key), ID: id}
}

// adds is the same as a transaction, which goes on with what else it is given.
func adds(key string, id RequestID, more ...command.Command) Request {
	writes := append([]command.Command{&Once{Request: adding(key, id)}}, more...)
	return Request{Command: &command.Commit{Writes: command.Batch{Commands: writes}}, Key: at(key)}
}

// What is on its way elsewhere gets no record of a request, also of one that changes nothing
// else: it would stay behind, and the request be executed again there.
func TestARecordIsNotWrittenIntoAFrozenRange(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{ID: 1})
	serves := serving("a", "m", 1)
	reown(t, g, own.Range{}, serves)
	frozen := serves
	frozen.State = own.Frozen
	reown(t, g, serves, frozen)
	reply, err := g.Try(context.Background(), Request{Key: at("k"), Command: &command.Commit{
		Reads: []command.Read{{Key: at("k")}},
		Writes: command.Batch{Commands: []command.Command{
			&Once{Request: Request{Key: at("k"), ID: requestAt(g.NowMS(), 7)}},
			&command.Delete{Keys: []partition.Position{at("k")}},
		}},
	}})
	if n := d.count(effect.Dedup); err != nil || !errors.Is(reply.Err, own.ErrFrozen) || n > 0 {
		t.Errorf("it has %d records: %v, %v", n, err, reply.Err)
	}
}

// A request is known again by its key and its id, in one batch as in two.
func TestOneIDForTwoKeysIsTwoRequests(t *testing.T) {
	g := open(t, newDisk(true), Options{})
	id := requestAt(g.NowMS(), 7)
	m := &Many{}
	for _, key := range []string{"a", "b", "a", "b"} {
		m.Add(g, Request{Command: &command.Add{Key: at(key), Delta: 1}, Key: at(key), ID: id}, 0)
	}
	m.Try()
	for i := range 4 {
		if r, err := m.Reply(i); err != nil || r.Err != nil || r.Int != 1 {
			t.Errorf("request %d: %d, %v, %v", i, r.Int, r.Err, err)
		}
	}
	for _, key := range []string{"a", "b"} {
		if r, ok, err := g.Read(context.Background(), at(key), nil); err != nil || !ok || string(r.Payload) != "1" {
			t.Errorf("%s is %q, %v, %v", key, r.Payload, ok, err)
		}
	}
}

// A retry may take another way than the first attempt, which is still on its: once as a
// transaction, once as itself. In one batch, too, they are one request.
func TestARequestAndATransactionOfItInOneBatchAreOne(t *testing.T) {
	id := requestAt(1<<40, 7)
	fails := &command.Add{Key: at("text"), Delta: 1}
	for _, c := range []struct {
		name  string
		batch func() []Request
	}{
		{"the transaction first", func() []Request { return []Request{adds("k", id), adding("k", id), adding("k", id)} }},
		{"the transaction second", func() []Request { return []Request{adding("k", id), adds("k", id), adding("k", id)} }},
		{"a transaction fails first", func() []Request { return []Request{adds("k", id, fails), adding("k", id), adds("k", id)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(true)
			g := open(t, d, Options{Wall: func() int64 { return 1 << 40 }})
			do(t, g, set("text", "x"))
			try := func() *Many {
				m := new(Many)
				for _, r := range c.batch() {
					m.Add(g, r, 0)
				}
				m.Try()
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
			if got := text(t, g, "k"); got != "1" {
				t.Errorf("it was executed %s times", got)
			}
		})
	}
}

// The same of several groups: the transaction ends in the batch of the retry, before it in
// the list or in what rides along.
func TestAJointRequestAndATransactionOfItInOneBatchAreOne(t *testing.T) {
	j := newJointly(t, 2)
	retry := func(id RequestID) *jointCall {
		return &jointCall{pieces: []Piece{{j.groups[0], adding("a", id)}, {j.groups[1], adding("b", RequestID{})}}, replies: make([]command.Reply, 2)}
	}
	check := func(c *jointCall) {
		t.Helper()
		if c.err != nil || !c.recalled || c.failed() || c.replies[0].Int == 0 || c.replies[1].Int != 0 {
			t.Errorf("the retry: recalled %v, %v, %v", c.recalled, c.replies, c.err)
		}
	}
	id := requestAt(j.nowMS, 1)
	first := retry(id)
	first.pieces[0].Request = adds("a", id)
	calls := []*jointCall{first, retry(id), j.pass(0, 1, 1)}
	doJoint(t.Context(), calls)
	check(calls[1])
	j.have(0, 2)

	id = requestAt(j.nowMS, 2)
	span := between("a", "b")
	do(t, j.groups[0], &txn.Prepare{
		ID: txn.ID{1}, Decider: 2, DeadlineMS: j.nowMS + 60_000,
		Part: txn.Part{Span: span, Writes: []command.Command{&Once{Request: adding("a", id)}}},
	})
	last := retry(id)
	if err := whileLate(t, j.groups[0], &txn.Resolve{ID: txn.ID{1}, Span: span, Commit: true, DeadlineMS: j.nowMS + 60_000}, func() {
		doJoint(t.Context(), []*jointCall{last})
	}); err != nil {
		t.Error(err)
	}
	check(last)
	j.have(1, 2)
}
