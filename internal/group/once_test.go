package group

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

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
