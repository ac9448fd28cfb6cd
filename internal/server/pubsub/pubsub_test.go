package pubsub

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// listener is a subscriber that keeps what is sent to it.
type listener struct {
	id   uint64
	mu   sync.Mutex
	sent []byte
}

func (c *listener) ClientID() uint64 { return c.id }

func (c *listener) Protocol() resp.Version { return resp.RESP3 }

func (c *listener) IsConnected() bool { return true }

func (c *listener) Post(message func(dst []byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = message(c.sent)
}

// A change costs the same however many prefixes others track.
func TestTracker_WithManyPrefixes_LooksForEachLengthOnce(t *testing.T) {
	var p prefixTable
	clients := make([]*listener, 40)
	for i := range clients {
		clients[i] = &listener{id: uint64(i)}
		want := &Tracking{Broadcast: true}
		for j := range maxPrefixes {
			want.Prefixes = append(want.Prefixes, fmt.Appendf(nil, "%02d:%06d:", i, j))
		}
		if err := checkPrefixes(want.Prefixes); err != nil {
			t.Fatal(err)
		}
		p.add(clients[i], want)
		defer func() {
			if p.remove(clients[i], want); i == 0 && (len(p.clients) != 0 || len(p.lengthCounts) != 0 || len(p.sortedLengths) != 0) {
				t.Errorf("%d prefixes of %d lengths are left", len(p.clients), len(p.sortedLengths))
			}
		}()
	}
	everything := &listener{id: 100}
	p.add(everything, &Tracking{Broadcast: true})
	defer p.remove(everything, &Tracking{Broadcast: true})
	if len(p.sortedLengths) != 2 {
		t.Errorf("400,000 prefixes of one length, and the empty one, are looked for %d times", len(p.sortedLengths))
	}
	for key, want := range map[string]int{"07:000042:x": 2, "07:000042:": 2, "07:00004": 1, "": 1, "zz:000042:x": 1} {
		if got := slices.Collect(p.clientsFor([]byte(key))); len(got) != want || !slices.Contains(got, Subscriber(everything)) {
			t.Errorf("%q is heard of by %d", key, len(got))
		}
	}
}

// Clients that have gone are not remembered for ever as readers of a key that does not change.
func TestWhoHasGoneIsNotTrackedForEver(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var e *engine.DB
	db.Engine(&e)
	k := NewTracker(NewHub(), &ChangeSource{DB: db, Engine: e, Node: e.Node(), Log: slog.New(slog.DiscardHandler), Ctx: ctx, Running: &running})
	read := func(c Subscriber) {
		var unanswered UnansweredReads
		k.Start(c, &Tracking{})
		k.RecordReads(c, &unanswered, "default", []byte("k"))
		k.RecordAnswered(c, &unanswered)
	}
	read(&listener{})
	const gone = 100
	for i := range gone {
		c := &listener{id: uint64(i + 1)}
		read(c)
		k.Stop(c)
	}
	for at, readers := range k.keys {
		if len(readers) > gone/2 {
			t.Errorf("of %v %d readers are remembered", at, len(readers))
		}
	}
	if len(k.keys) != 1 {
		t.Errorf("%d keys are remembered, and one was read", len(k.keys))
	}
}
