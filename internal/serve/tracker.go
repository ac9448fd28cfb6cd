package serve

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/resp"
)

// tracker tells clients that what they have read has changed, so that they can keep it.
//
// It reads the feed, so it hears of every change, whoever makes it: a client, a program
// that embeds the store, an expiry. That a keyspace is gone as a whole is not in the feed, and
// all are told that everything has changed. A client is entered before it reads. So a change
// that its answer does not have is in the feed behind that, and the message about it is
// sent behind the answer: see mailbox. Until it is answered it stays entered whatever it is
// told, since what it reads may be newer than the change that it was told of.
type tracker struct {
	mu sync.Mutex
	// clients are those who track.
	clients map[*client]*tracking
	// keys are who has read a key, by the name of its keyspace and its own, and
	// whether it has its answer.
	keys map[trackedKey]map[*client]bool
	most int
	// bytes is how long the keys are together.
	bytes int
	stop  context.CancelFunc // ends follow and followDrops; nil if they do not run
}

type trackedKey struct{ space, key string }

// tracking is what a client wants to hear.
type tracking struct {
	// prefixes are of the keys that it hears of whether it has read them or not, if
	// broadcast is set.
	broadcast bool
	prefixes  [][]byte
	// optIn tracks what follows CLIENT CACHING YES alone, optOut all but what follows
	// CLIENT CACHING NO.
	optIn, optOut bool
	// to is who is told, nil for the client itself.
	to *client
}

// maxTracked is how many keys are known. If there are more, some are forgotten: who has
// read them is told that they have changed.
const maxTracked = 1_000_000

// maxTrackedBytes is how long they may be together.
const maxTrackedBytes = 256 << 20

// start makes a client one who tracks. From now on it hears of what it reads.
func (k *tracker) start(s *Server, c *client, t *tracking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients == nil {
		k.clients, k.keys, k.most = map[*client]*tracking{}, map[trackedKey]map[*client]bool{}, maxTracked
	}
	if t.to != nil && s.clients.get(t.to.id) == nil {
		t.to = nil // it has gone since it was named, and end has not seen it
	}
	k.clients[c] = t
	if k.stop == nil {
		ctx, stop := context.WithCancel(s.ctx)
		k.stop = stop
		from, drop := s.db.Now(), s.node.NextDrop()
		s.running.Go(func() { k.follow(ctx, s.db, from) })
		s.running.Go(func() { k.followDrops(ctx, s.node, drop) })
	}
}

// end makes a client one who does not. The keys that it has read are forgotten when they
// change.
func (k *tracker) end(c *client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.clients, c)
	for _, t := range k.clients {
		if t.to == c {
			t.to = nil // who was to be told for others is gone
		}
	}
	if len(k.clients) == 0 && k.stop != nil {
		k.stop()
		k.stop = nil
		clear(k.keys)
		k.bytes = 0
	}
}

// len is how many track.
func (k *tracker) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.clients)
}

// read enters a client as one who reads keys.
func (k *tracker) read(c *client, space string, keys ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.clients[c]
	if t == nil || t.broadcast {
		return
	}
	for _, key := range keys {
		at := trackedKey{space, string(key)}
		if k.keys[at] == nil {
			k.forgetSome()
			k.keys[at] = map[*client]bool{}
			k.bytes += len(at.key)
		}
		if readers := k.keys[at]; len(readers) > 2*len(k.clients) { // most of them have gone, and the key does not change
			maps.DeleteFunc(readers, func(c *client, _ bool) bool { return k.clients[c] == nil })
		}
		k.keys[at][c] = false
		c.reads = append(c.reads, at)
	}
}

// answered notes that a client has the answers to all that it has read, if it has. It is
// for the client's owner.
func (k *tracker) answered(c *client) {
	if len(c.reads) == 0 || c.pending > 0 || c.busy || c.waits() || c.queue != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range c.reads {
		if readers := k.keys[at]; readers != nil {
			if _, ok := readers[c]; ok {
				readers[c] = true
			}
		}
	}
	clear(c.reads)
	if c.reads = c.reads[:0]; cap(c.reads) > keepReads {
		c.reads = nil
	}
}

// keepReads is for how many keys a client keeps memory.
const keepReads = 1 << 10

// forgetSome makes room for a key.
func (k *tracker) forgetSome() {
	for at := range k.keys {
		if len(k.keys) < k.most && k.bytes < maxTrackedBytes {
			return
		}
		k.tellReaders(at) // who is not answered yet stays: there are few of them
	}
}

// follow tells what has changed until ctx ends.
func (k *tracker) follow(ctx context.Context, db *cleave.DB, from cleave.Cursor) {
	for pause := time.Duration(0); ; {
		var failed error
		for change, err := range db.Feed(ctx, from) {
			if failed = err; err != nil {
				break
			}
			pause = 0
			k.changed(change.Ops)
		}
		if ctx.Err() != nil || errors.Is(failed, cleave.ErrClosed) {
			return // nobody tracks any more, or the store is closed
		}
		if !errors.Is(failed, cleave.ErrGone) { // a log cannot be read now
			pause = min(2*pause+10*time.Millisecond, time.Second)
			sleep(ctx, pause)
		}
		from = db.Now()
		k.flushed() // it has missed something: all may have changed
	}
}

// followDrops tells that keyspaces were dropped until ctx ends. Who empties one tells so himself.
func (k *tracker) followDrops(ctx context.Context, n *node.Node, drop <-chan struct{}) {
	for {
		select {
		case <-drop:
			drop = n.NextDrop() // before all are told, so that nothing slips through
			k.flushed()
		case <-ctx.Done():
			return
		}
	}
}

// changed tells what has changed.
func (k *tracker) changed(ops []cleave.ChangeOp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range ops {
		op := &ops[i]
		if op.Field != nil {
			continue // the key itself is named too, with its new version
		}
		k.tellReaders(trackedKey{op.Keyspace, string(op.Key)})
		for c, t := range k.clients {
			if t.broadcast && t.hears(op.Key) {
				c.invalidate(t, op.Key)
			}
		}
	}
}

// hears tells whether a key begins with one of the prefixes.
func (t *tracking) hears(key []byte) bool {
	for _, p := range t.prefixes {
		if bytes.HasPrefix(key, p) {
			return true
		}
	}
	return len(t.prefixes) == 0
}

// tellReaders tells those who have read a key, once if they have their answers.
func (k *tracker) tellReaders(at trackedKey) {
	readers := k.keys[at]
	for c, answered := range readers {
		t := k.clients[c]
		if t != nil {
			c.invalidate(t, []byte(at.key))
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

// flushed tells all who track that everything has changed. Who is not answered yet stays:
// what it reads may be newer.
func (k *tracker) flushed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, t := range k.clients {
		c.invalidate(t, nil)
	}
	for at, readers := range k.keys {
		maps.DeleteFunc(readers, func(c *client, answered bool) bool { return answered || k.clients[c] == nil })
		if len(readers) == 0 {
			delete(k.keys, at)
			k.bytes -= len(at.key)
		}
	}
}

// invalidations is the channel that a client of RESP2 listens to if others have named it.
const invalidations = "__redis__:invalidate"

// invalidate tells a client, or who it has named, that a key has changed; nil means all. Who
// could not tell that from an answer is not told: one of RESP2 that does not listen.
func (c *client) invalidate(t *tracking, key []byte) {
	to := c
	if t.to != nil {
		to = t.to
	}
	v := resp.Version(to.seen.version.Load())
	what := func(dst []byte) []byte {
		if key == nil {
			return v.AppendNull(dst)
		}
		return resp.AppendBulk(resp.AppendArray(dst, 1), key)
	}
	switch {
	case v != resp.RESP2:
		to.post(func(dst []byte) []byte {
			return what(resp.AppendBulk(v.AppendPush(dst, 2), "invalidate"))
		})
	case to != c:
		to.s.hub.tell(to, invalidations, func(dst []byte) []byte {
			dst = resp.AppendBulk(resp.AppendArray(dst, 3), "message")
			return what(resp.AppendBulk(dst, invalidations))
		})
	}
}
