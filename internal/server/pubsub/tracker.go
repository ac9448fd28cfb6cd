package pubsub

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// Tracker notifies clients that what they have read has changed, so that they can cache it.
//
// It reads the feed, so it sees every change, whatever made it: a client, a program
// that embeds the store, an expiry. The removal of a whole keyspace is not in the feed, and
// all clients are notified that everything has changed. A client is entered before it reads. So a change
// that its answer does not have is in the feed behind that, and the message about it is
// sent behind the answer: see Subscriber. Until it is answered it stays entered whatever it is
// sent, since what it reads may be newer than the change in that message.
type Tracker struct {
	mu sync.Mutex
	// clients are those with tracking on.
	clients map[Subscriber]*Tracking
	// keys are the readers of a key, by the name of its keyspace and its own, and
	// whether it has its answer.
	keys    map[trackedKey]map[Subscriber]bool
	maxKeys int
	// prefixes are the clients that are notified of keys whether they have read them or not.
	prefixes prefixTable
	// bytes is how long the keys are together.
	bytes int
	stop  context.CancelFunc // ends followFeed and followDrops; nil if they do not run

	hub    *Hub
	source *ChangeSource
}

type trackedKey struct{ keyspace, key string }

// UnansweredReads are the keys that a client has read and has no answers to. They belong to the client's owner.
type UnansweredReads []trackedKey

// MaxTrackedKeys is how many keys are known. If there are more, some are forgotten: their
// readers are notified that they have changed.
const MaxTrackedKeys = 1_000_000

// maxTrackedBytes is how long they may be together.
const maxTrackedBytes = 256 << 20

// NewTracker returns a tracker that reads the changes of a store while any client tracks.
func NewTracker(h *Hub, source *ChangeSource) *Tracker { return &Tracker{hub: h, source: source} }

// Start turns tracking on for a client. From now on it is notified of changes to what it reads.
func (k *Tracker) Start(c Subscriber, t *Tracking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients == nil {
		k.clients, k.keys, k.maxKeys = map[Subscriber]*Tracking{}, map[trackedKey]map[Subscriber]bool{}, MaxTrackedKeys
	}
	k.prefixes.remove(c, k.clients[c])
	k.prefixes.add(c, t)
	if t.Redirect != nil && !t.Redirect.IsConnected() {
		t.Redirect = nil // it has gone since it was named, and Stop has not seen it
	}
	k.clients[c] = t
	if k.stop == nil {
		ctx, stop := context.WithCancel(k.source.Ctx)
		k.stop = stop
		from, drop := k.source.DB.Head(), k.source.Node.NextDrop()
		k.source.Running.Go(func() { k.followFeed(ctx, k.source.DB, from) })
		k.source.Running.Go(func() { k.followDrops(ctx, k.source.Node, drop) })
	}
}

// Stop turns it off. The keys that the client has read are forgotten when they
// change.
func (k *Tracker) Stop(c Subscriber) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prefixes.remove(c, k.clients[c])
	delete(k.clients, c)
	for _, t := range k.clients {
		if t.Redirect == c {
			t.Redirect = nil // the client that was to be notified for others is gone
		}
	}
	if len(k.clients) == 0 && k.stop != nil {
		k.stop()
		k.stop = nil
		clear(k.keys)
		k.bytes = 0
	}
}

// Len is how many track.
func (k *Tracker) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.clients)
}

// RecordReads enters a client as a reader of keys.
func (k *Tracker) RecordReads(c Subscriber, unanswered *UnansweredReads, space string, keys ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.clients[c]
	if t == nil || t.Broadcast {
		return
	}
	for _, key := range keys {
		at := trackedKey{space, string(key)}
		if k.keys[at] == nil {
			k.evictKeys()
			k.keys[at] = map[Subscriber]bool{}
			k.bytes += len(at.key)
		}
		if readers := k.keys[at]; len(readers) > 2*len(k.clients) { // most of them have gone, and the key does not change
			maps.DeleteFunc(readers, func(c Subscriber, _ bool) bool { return k.clients[c] == nil })
		}
		k.keys[at][c] = false
		*unanswered = append(*unanswered, at)
	}
}

// RecordAnswered notes that a client has the answers to all that it has read. It is for the client's owner.
func (k *Tracker) RecordAnswered(c Subscriber, unanswered *UnansweredReads) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range *unanswered {
		if readers := k.keys[at]; readers != nil {
			if _, ok := readers[c]; ok {
				readers[c] = true
			}
		}
	}
	clear(*unanswered)
	if *unanswered = (*unanswered)[:0]; cap(*unanswered) > maxRetainedReads {
		*unanswered = nil
	}
}

// maxRetainedReads is for how many keys a client keeps memory.
const maxRetainedReads = 1 << 10

// evictKeys makes room for a key.
func (k *Tracker) evictKeys() {
	for at := range k.keys {
		if len(k.keys) < k.maxKeys && k.bytes < maxTrackedBytes {
			return
		}
		k.invalidateReaders(at) // a client without its answer stays: there are few of them
	}
}

// followFeed sends invalidations for what has changed until ctx ends.
func (k *Tracker) followFeed(ctx context.Context, db *cleave.DB, from cleave.Cursor) {
	for pause := time.Duration(0); ; {
		var failed error
		for change, err := range db.Feed(ctx, cleave.FeedOptions{From: from}) {
			if failed = err; err != nil {
				break
			}
			pause = 0
			k.invalidateChanged(change.Ops)
		}
		if ctx.Err() != nil || errors.Is(failed, cleave.ErrClosed) {
			return // no client tracks any more, or the store is closed
		}
		if !errors.Is(failed, cleave.ErrGone) { // a log cannot be read now
			pause = min(2*pause+10*time.Millisecond, time.Second)
			wait(ctx, pause)
		}
		from = db.Head()
		k.InvalidateAll() // it has missed something: all may have changed
	}
}

// followDrops notifies the clients of dropped keyspaces until ctx ends. A command that empties one does so itself.
func (k *Tracker) followDrops(ctx context.Context, n *node.Node, drop <-chan struct{}) {
	for {
		select {
		case <-drop:
			drop = n.NextDrop() // before all are notified, so that nothing slips through
			k.InvalidateAll()
		case <-ctx.Done():
			return
		}
	}
}

// invalidateChanged sends invalidations for what has changed.
func (k *Tracker) invalidateChanged(ops []cleave.ChangeOp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range ops {
		op := &ops[i]
		if op.Field != nil {
			continue // the key itself is named too, with its new version
		}
		k.invalidateReaders(trackedKey{op.Keyspace, string(op.Key)})
		for c := range k.prefixes.clientsFor(op.Key) {
			k.sendInvalidation(c, k.clients[c], op.Key)
		}
	}
}

// invalidateReaders notifies the readers of a key, once if they have their answers.
func (k *Tracker) invalidateReaders(at trackedKey) {
	readers := k.keys[at]
	for c, answered := range readers {
		t := k.clients[c]
		if t != nil {
			k.sendInvalidation(c, t, []byte(at.key))
		}
		if answered || t == nil {
			delete(readers, c)
		}
	}
	if len(readers) == 0 && readers != nil {
		delete(k.keys, at)
		k.bytes -= len(at.key)
	}
}

// InvalidateAll notifies all tracking clients that everything has changed. One without its answer stays:
// what it reads may be newer.
func (k *Tracker) InvalidateAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, t := range k.clients {
		k.sendInvalidation(c, t, nil)
	}
	for at, readers := range k.keys {
		maps.DeleteFunc(readers, func(c Subscriber, answered bool) bool { return answered || k.clients[c] == nil })
		if len(readers) == 0 {
			delete(k.keys, at)
			k.bytes -= len(at.key)
		}
	}
}

// invalidationChannel is the channel that a client of RESP2 listens to if others have named it.
const invalidationChannel = "__redis__:invalidate"

// sendInvalidation notifies a client, or its redirect, that a key has changed; nil means all. A client that
// would take that for an answer is not notified: one of RESP2 that does not listen.
func (k *Tracker) sendInvalidation(c Subscriber, t *Tracking, key []byte) {
	to := c
	if t.Redirect != nil {
		to = t.Redirect
	}
	v := to.Protocol()
	what := func(dst []byte) []byte {
		if key == nil {
			return v.AppendNull(dst)
		}
		return resp.AppendBulk(resp.AppendArray(dst, 1), key)
	}
	switch {
	case v != resp.RESP2:
		to.Post(func(dst []byte) []byte {
			return what(resp.AppendBulk(v.AppendPush(dst, 2), "invalidate"))
		})
	case to != c:
		k.hub.sendToSubscriber(to, invalidationChannel, func(dst []byte) []byte {
			dst = resp.AppendBulk(resp.AppendArray(dst, 3), "message")
			return what(resp.AppendBulk(dst, invalidationChannel))
		})
	}
}
