package server

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
)

var twoStores = serverShape{name: "two stores", stores: 2, groups: 2}

// keysOfStore returns some keys of a store.
func (l *testServer) keysOfStore(h *node.StoreHost, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("k", i)
		if l.s.node.GroupHostAt(l.s.defaultKeyspace().AppendPosition(nil, []byte(key))).Store == h.Store {
			keys = append(keys, key)
		}
	}
	return keys
}

// keysOfStores returns a key of each store.
func (l *testServer) keysOfStores() (keys []string) {
	for _, h := range l.s.node.StoreHosts() {
		keys = append(keys, l.keysOfStore(h, 1)...)
	}
	return keys
}

// What a client asks for of several stores in one round is one batch for each of them.
func TestRound_OfSeveralStores_IsOneBatchForEach(t *testing.T) {
	l := startServer(t, twoStores, Options{})
	keys := l.keysOfStores()
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	want := ""
	for i := range 100 {
		w.takeRequests(h.c, fmt.Appendf(nil, "SET %s %d\r\nAPPEND %s x\r\n", keys[i%2], i, keys[i%2]))
		want += fmt.Sprintf("+OK\r\n:%d\r\n", len(fmt.Sprint(i))+1)
	}
	if len(w.usedBatches) != 2 || len(w.staged) != 200 {
		t.Errorf("%d requests are staged in %d batches, not 200 in 2", len(w.staged), len(w.usedBatches))
	}
	if w.commit(); string(h.c.Out.Bytes) != want {
		t.Errorf("the replies are %q, want %q", h.c.Out.Bytes, want)
	}
}

// A request that its store refuses holds up the replies behind it, and no request of another store: the client gets
// its replies in the order of its requests.
func TestRound_WhereOneStoreRefuses_IsAnsweredInOrder(t *testing.T) {
	l := startServer(t, twoStores, Options{})
	keys := l.keysOfStores()
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	for locked, key := range keys {
		free := keys[1-locked]
		unlock := l.lockKey(key)
		requests := fmt.Sprintf("SET %[2]s 5\r\nSET %[1]s 1\r\nINCR %[2]s\r\nINCR %[1]s\r\nGET %[2]s\r\nMULTI\r\nINCR %[2]s\r\nEXEC\r\nGET nothing\r\n", key, free)
		h.c.In = w.takeRequests(h.c, []byte(requests))
		w.commit()
		l.dial().runScript("GET " + free + " -> 6") // executed, though its reply waits
		if got := string(h.c.Out.Bytes); got != "+OK\r\n" {
			t.Errorf("while %s is locked the replies are %q", key, got)
		}
		unlock()
		h.takeRest(w)
		const want = "+OK\r\n+OK\r\n:6\r\n:2\r\n$1\r\n6\r\n+OK\r\n+QUEUED\r\n*1\r\n:7\r\n$-1\r\n"
		if got := string(h.c.Out.Bytes); got != want {
			t.Errorf("the replies are %q, want %q", got, want)
		}
		h.c.Out.Bytes = nil
	}
}

// A key that moves to another store between two requests of a round is changed by them in their order.
func TestRound_WhileItsKeyMoves_KeepsTheOrderOfItsRequests(t *testing.T) {
	l := startServer(t, twoStores, Options{})
	key := l.keysOfStores()[0]
	for _, request := range []string{"APPEND " + key + " 8\r\n", "MSET " + key + " 78 {" + key + "}other 1\r\n", "MULTI\r\nAPPEND " + key + " 8\r\nEXEC\r\n"} {
		w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
		w.takeRequests(h.c, []byte("SET "+key+" 7\r\n"))
		l.moveToOtherStore(key)
		h.c.In = w.takeRequests(h.c, []byte(request))
		w.commit()
		h.takeRest(w)
		l.dial().runScript("GET " + key + " -> 78")
	}
}

// takeRest takes the requests that were not taken while the client was busy.
func (h *manualClient) takeRest(w *worker) {
	for h.finishBacklog(w); len(h.c.In) > 0; h.finishBacklog(w) {
		h.c.In = w.takeRequests(h.c, h.c.In)
		w.commit()
	}
}

// moveToOtherStore moves the shard of a key to the other of two stores.
func (l *testServer) moveToOtherStore(key string) {
	l.t.Helper()
	p := l.s.defaultKeyspace().AppendPosition(nil, []byte(key))
	from := l.s.node.GroupHostAt(p)
	for _, g := range l.db.Groups() {
		if g.ID != from.ID {
			job, err := l.db.Start(ctx, cleave.Move{Shard: l.s.node.Map().Find(p).ID, To: g.ID})
			if err == nil {
				_, err = job.Wait(ctx)
			}
			if err != nil {
				l.t.Fatal(err)
			}
		}
	}
	if l.s.node.GroupHostAt(p).Store == from.Store {
		l.t.Fatal("it is in the same store")
	}
}
