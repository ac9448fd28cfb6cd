package server

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
)

// multiQueue is what a client has sent between MULTI and EXEC.
type multiQueue struct {
	requests []unitRequest
	keyspace *node.Keyspace // that the next request is about
	bytes    int
	flags    redis.Flag // all that its requests are
	failed   bool
}

// watchedKey is a key of WATCH with the version that it had, 0 for absent.
type watchedKey struct {
	keyspace *node.Keyspace
	key      []byte
	version  uint64
}

const (
	// maxQueuedRequests and maxQueuedBytes are how much MULTI gathers.
	maxQueuedRequests = 100_000
	maxQueuedBytes    = 64 << 20
	// watchedKeyOverhead is about how much memory a key of WATCH takes besides its bytes.
	watchedKeyOverhead = 128
)

// clearWatched forgets the keys of WATCH.
func (c *client) clearWatched() { c.watchedKeys, c.watchedByHash, c.watchedBytes = nil, nil, 0 }

// watchedHashSeed keeps clients from choosing keys whose hashes collide.
var watchedHashSeed = maphash.MakeSeed()

// isWatched reports whether the client watches a key. It costs the same however many it watches.
func (c *client) isWatched(k *node.Keyspace, key []byte) bool {
	return slices.ContainsFunc(c.watchedByHash[maphash.Bytes(watchedHashSeed, key)], func(i int32) bool {
		w := &c.watchedKeys[i]
		return w.keyspace == k && bytes.Equal(w.key, key)
	})
}

// addWatched adds a key that the client does not watch yet.
func (c *client) addWatched(w watchedKey) {
	if c.watchedByHash == nil {
		c.watchedByHash = map[uint64][]int32{}
	}
	hash := maphash.Bytes(watchedHashSeed, w.key)
	c.watchedByHash[hash] = append(c.watchedByHash[hash], int32(len(c.watchedKeys)))
	c.watchedKeys = append(c.watchedKeys, w)
	c.watchedBytes += len(w.key) + watchedKeyOverhead
}

// enqueueForExec keeps a request for EXEC.
func (w *worker) enqueueForExec(c *client, r redis.Request) {
	q := c.queue
	it := unitRequest{cloneRequest(r), q.keyspace}
	q.bytes += it.ArgBytes()
	if len(q.requests) >= maxQueuedRequests || q.bytes > maxQueuedBytes {
		q.failed, q.requests = true, nil
		w.replyInOrder(c, nil, func(out *redis.Writer) {
			out.Fail(redis.Error("ERR too many commands in MULTI: use several transactions"))
		})
		return
	}
	if r.Spec.Name == "select" {
		k, err := w.s.findKeyspace(string(r.Args[1]))
		if err == nil {
			q.keyspace = k
		}
	}
	q.requests, q.flags = append(q.requests, it), q.flags|r.Spec.Flags
	w.replyInOrder(c, nil, func(out *redis.Writer) { out.Simple("QUEUED") })
}

// abort ends what MULTI has gathered because EXEC was refused, and returns the client's error.
func (c *client) abort(because error) error {
	c.queue = nil
	c.clearWatched()
	return redis.Error("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(redis.FormatError(because), "ERR "))
}

var execSpec = redis.SpecByName("exec")

// beginExec executes what MULTI has gathered.
func (w *worker) beginExec(c *client) {
	q, keys := c.queue, c.watchedKeys
	if q == nil {
		w.replyInOrder(c, execSpec, func(out *redis.Writer) { out.Fail(redis.Error("ERR EXEC without MULTI")) })
		return
	}
	c.queue = nil
	c.clearWatched()
	switch {
	case q.failed:
		w.replyInOrder(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of previous errors."))
		})
	case q.flags&redis.DenyOOM != 0 && w.s.memory.overLimit.Load():
		w.replyInOrder(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of: " + string(errOOM)))
		})
	case !w.s.isStillPermitted(c, q):
		w.replyInOrder(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of: NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call."))
		})
	case len(q.requests) == 0 && len(keys) == 0:
		w.replyInOrder(c, execSpec, func(out *redis.Writer) { out.Array(0) })
	default:
		for i := range q.requests {
			w.calls.Record(q.requests[i].Spec)
		}
		w.beginUnit(c, &unit{c: c, items: q.requests, multi: true, watchedKeys: keys})
	}
}

// isStillPermitted reports whether the client may do all that it has gathered: its user may have
// been changed since.
func (s *Server) isStillPermitted(c *client, q *multiQueue) bool {
	u := c.account.User()
	if u.IsUnlimited() {
		return true
	}
	for i := range q.requests {
		if s.checkPermission(c, u, q.requests[i].Spec, q.requests[i].Args) != nil {
			return false
		}
	}
	return true
}
