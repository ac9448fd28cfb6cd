package server

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
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
	keys    map[trackedKey]map[*client]bool
	maxKeys int
	// prefixes are those who hear of keys whether they have read them or not.
	prefixes prefixTable
	// bytes is how long the keys are together.
	bytes int
	stop  context.CancelFunc // ends follow and followDrops; nil if they do not run
}

type trackedKey struct{ keyspace, key string }

// tracking is what a client wants to hear.
type tracking struct {
	// prefixes are of the keys that it hears of whether it has read them or not, if
	// broadcast is set.
	broadcast bool
	prefixes  [][]byte
	// optIn tracks what follows CLIENT CACHING YES alone, optOut all but what follows
	// CLIENT CACHING NO.
	optIn, optOut bool
	// redirect is who is told, nil for the client itself.
	redirect *client
}

// maxTrackedKeys is how many keys are known. If there are more, some are forgotten: who has
// read them is told that they have changed.
const maxTrackedKeys = 1_000_000

// maxTrackedBytes is how long they may be together.
const maxTrackedBytes = 256 << 20

// startTracking makes a client one who tracks. From now on it hears of what it reads.
func (k *tracker) startTracking(s *Server, c *client, t *tracking) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients == nil {
		k.clients, k.keys, k.maxKeys = map[*client]*tracking{}, map[trackedKey]map[*client]bool{}, maxTrackedKeys
	}
	k.prefixes.remove(c, k.clients[c])
	k.prefixes.add(c, t)
	if t.redirect != nil && s.clients.get(t.redirect.id) == nil {
		t.redirect = nil // it has gone since it was named, and end has not seen it
	}
	k.clients[c] = t
	if k.stop == nil {
		ctx, stop := context.WithCancel(s.ctx)
		k.stop = stop
		from, drop := s.db.Head(), s.node.NextDrop()
		s.running.Go(func() { k.followFeed(ctx, s.db, from) })
		s.running.Go(func() { k.followDrops(ctx, s.node, drop) })
	}
}

// stopTracking makes a client one who does not. The keys that it has read are forgotten when they
// change.
func (k *tracker) stopTracking(c *client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prefixes.remove(c, k.clients[c])
	delete(k.clients, c)
	for _, t := range k.clients {
		if t.redirect == c {
			t.redirect = nil // who was to be told for others is gone
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

// recordReads enters a client as one who reads keys.
func (k *tracker) recordReads(c *client, space string, keys ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.clients[c]
	if t == nil || t.broadcast {
		return
	}
	for _, key := range keys {
		at := trackedKey{space, string(key)}
		if k.keys[at] == nil {
			k.evictKeys()
			k.keys[at] = map[*client]bool{}
			k.bytes += len(at.key)
		}
		if readers := k.keys[at]; len(readers) > 2*len(k.clients) { // most of them have gone, and the key does not change
			maps.DeleteFunc(readers, func(c *client, _ bool) bool { return k.clients[c] == nil })
		}
		k.keys[at][c] = false
		c.unansweredReads = append(c.unansweredReads, at)
	}
}

// recordAnswered notes that a client has the answers to all that it has read, if it has. It is
// for the client's owner.
func (k *tracker) recordAnswered(c *client) {
	if len(c.unansweredReads) == 0 || c.staged > 0 || c.busy || c.hasBacklog() || c.queue != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, at := range c.unansweredReads {
		if readers := k.keys[at]; readers != nil {
			if _, ok := readers[c]; ok {
				readers[c] = true
			}
		}
	}
	clear(c.unansweredReads)
	if c.unansweredReads = c.unansweredReads[:0]; cap(c.unansweredReads) > maxRetainedReads {
		c.unansweredReads = nil
	}
}

// maxRetainedReads is for how many keys a client keeps memory.
const maxRetainedReads = 1 << 10

// evictKeys makes room for a key.
func (k *tracker) evictKeys() {
	for at := range k.keys {
		if len(k.keys) < k.maxKeys && k.bytes < maxTrackedBytes {
			return
		}
		k.invalidateReaders(at) // who is not answered yet stays: there are few of them
	}
}

// followFeed tells what has changed until ctx ends.
func (k *tracker) followFeed(ctx context.Context, db *cleave.DB, from cleave.Cursor) {
	for pause := time.Duration(0); ; {
		var failed error
		for change, err := range db.Feed(ctx, from) {
			if failed = err; err != nil {
				break
			}
			pause = 0
			k.invalidateChanged(change.Ops)
		}
		if ctx.Err() != nil || errors.Is(failed, cleave.ErrClosed) {
			return // nobody tracks any more, or the store is closed
		}
		if !errors.Is(failed, cleave.ErrGone) { // a log cannot be read now
			pause = min(2*pause+10*time.Millisecond, time.Second)
			sleepContext(ctx, pause)
		}
		from = db.Head()
		k.invalidateAll() // it has missed something: all may have changed
	}
}

// followDrops tells that keyspaces were dropped until ctx ends. Who empties one tells so himself.
func (k *tracker) followDrops(ctx context.Context, n *node.Node, drop <-chan struct{}) {
	for {
		select {
		case <-drop:
			drop = n.NextDrop() // before all are told, so that nothing slips through
			k.invalidateAll()
		case <-ctx.Done():
			return
		}
	}
}

// invalidateChanged tells what has changed.
func (k *tracker) invalidateChanged(ops []cleave.ChangeOp) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range ops {
		op := &ops[i]
		if op.Field != nil {
			continue // the key itself is named too, with its new version
		}
		k.invalidateReaders(trackedKey{op.Keyspace, string(op.Key)})
		for c := range k.prefixes.clientsFor(op.Key) {
			c.sendInvalidation(k.clients[c], op.Key)
		}
	}
}

// invalidateReaders tells those who have read a key, once if they have their answers.
func (k *tracker) invalidateReaders(at trackedKey) {
	readers := k.keys[at]
	for c, answered := range readers {
		t := k.clients[c]
		if t != nil {
			c.sendInvalidation(t, []byte(at.key))
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

// invalidateAll tells all who track that everything has changed. Who is not answered yet stays:
// what it reads may be newer.
func (k *tracker) invalidateAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, t := range k.clients {
		c.sendInvalidation(t, nil)
	}
	for at, readers := range k.keys {
		maps.DeleteFunc(readers, func(c *client, answered bool) bool { return answered || k.clients[c] == nil })
		if len(readers) == 0 {
			delete(k.keys, at)
			k.bytes -= len(at.key)
		}
	}
}

// invalidationChannel is the channel that a client of RESP2 listens to if others have named it.
const invalidationChannel = "__redis__:invalidate"

// sendInvalidation tells a client, or who it has named, that a key has changed; nil means all. Who
// could not tell that from an answer is not told: one of RESP2 that does not listen.
func (c *client) sendInvalidation(t *tracking, key []byte) {
	to := c
	if t.redirect != nil {
		to = t.redirect
	}
	v := resp.Version(to.status.protocol.Load())
	what := func(dst []byte) []byte {
		if key == nil {
			return v.AppendNull(dst)
		}
		return resp.AppendBulk(resp.AppendArray(dst, 1), key)
	}
	switch {
	case v != resp.RESP2:
		to.postMessage(func(dst []byte) []byte {
			return what(resp.AppendBulk(v.AppendPush(dst, 2), "invalidate"))
		})
	case to != c:
		to.s.hub.sendToSubscriber(to, invalidationChannel, func(dst []byte) []byte {
			dst = resp.AppendBulk(resp.AppendArray(dst, 3), "message")
			return what(resp.AppendBulk(dst, invalidationChannel))
		})
	}
}

// prefixTable find the clients that hear of a key by how it begins. What a key costs does not depend on how many
// prefixes there are: it is looked for once for each length that a prefix has.
type prefixTable struct {
	clients map[string]map[*client]bool
	// lengthCounts are how many prefixes have a length, and sorted are the lengths.
	lengthCounts  map[int]int
	sortedLengths []int
}

const (
	// maxPrefixes and maxPrefixBytes are how many prefixes a client may track, and how long each: a change of
	// a long key is looked for once for each length.
	maxPrefixes    = 10_000
	maxPrefixBytes = 1 << 10
	// prefixOverhead is about how much memory a prefix takes besides its bytes.
	prefixOverhead = 200
)

// checkPrefixes refuses prefixes that are too many or too long, and those of which one begins with another:
// whoever has both would be told twice. The error is that of Redis.
func checkPrefixes(list [][]byte) error {
	if len(list) > maxPrefixes {
		return redis.Error("ERR too many prefixes: at most " + strconv.Itoa(maxPrefixes) + " of a connection")
	}
	for _, p := range list {
		if len(p) > maxPrefixBytes {
			return &command.LimitError{What: "prefix", Got: len(p), Limit: maxPrefixBytes}
		}
	}
	sorted := make([]string, len(list))
	for i, p := range list {
		sorted[i] = string(p)
	}
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; len(a) <= len(b) && a == b[:len(a)] {
			return redis.Error("ERR Prefix '" + a + "' overlaps with another provided prefix '" + b + "'. Prefixes for a single client must not overlap.")
		}
	}
	return nil
}

// add adds the prefixes of a client: the empty one if it names none.
func (p *prefixTable) add(c *client, t *tracking) {
	if p.clients == nil {
		p.clients, p.lengthCounts = map[string]map[*client]bool{}, map[int]int{}
	}
	for _, prefix := range t.broadcastPrefixes() {
		all := p.clients[string(prefix)]
		if all == nil {
			all = map[*client]bool{}
			p.clients[string(prefix)] = all
			p.addLength(len(prefix), 1)
		}
		all[c] = true
	}
}

// remove is the opposite of add. There is nothing to do for a client that did not track.
func (p *prefixTable) remove(c *client, t *tracking) {
	if t == nil {
		return
	}
	for _, prefix := range t.broadcastPrefixes() {
		all := p.clients[string(prefix)]
		if delete(all, c); all != nil && len(all) == 0 {
			delete(p.clients, string(prefix))
			p.addLength(len(prefix), -1)
		}
	}
}

// addLength notes that there is a prefix of a length more, or less.
func (p *prefixTable) addLength(length, more int) {
	switch p.lengthCounts[length] += more; {
	case p.lengthCounts[length] == 0:
		delete(p.lengthCounts, length)
		at, _ := slices.BinarySearch(p.sortedLengths, length)
		p.sortedLengths = slices.Delete(p.sortedLengths, at, at+1)
	case p.lengthCounts[length] == 1 && more > 0:
		at, _ := slices.BinarySearch(p.sortedLengths, length)
		p.sortedLengths = slices.Insert(p.sortedLengths, at, length)
	}
}

// clientsFor are the clients that hear of a key, each once: their prefixes do not overlap.
func (p *prefixTable) clientsFor(key []byte) iter.Seq[*client] {
	return func(yield func(*client) bool) {
		for _, n := range p.sortedLengths {
			if n > len(key) {
				return
			}
			for c := range p.clients[string(key[:n])] {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// broadcastPrefixes are the prefixes of keys that a client hears of whether it has read them or not.
func (t *tracking) broadcastPrefixes() [][]byte {
	switch {
	case !t.broadcast:
		return nil
	case len(t.prefixes) == 0:
		return [][]byte{nil}
	}
	return t.prefixes
}

// memoryBytes is about how much memory the prefixes take.
func (t *tracking) memoryBytes() (n int) {
	for _, p := range t.prefixes {
		n += len(p) + prefixOverhead
	}
	return n
}
