package serve

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){"multi": multi, "discard": discard, "unwatch": unwatch})
	handleSlow(map[string]func(*turn){"watch": watch})
}

// queue is what a client has said between MULTI and EXEC.
type queue struct {
	items  []item
	space  *node.Space // that the next request is about
	bytes  int
	needs  redis.Flag // all that its requests are
	failed bool
}

// watched is a key of WATCH with the version that it had, 0 for absent.
type watched struct {
	space   *node.Space
	key     []byte
	version uint64
}

const (
	// maxQueue and maxQueueBytes are how much MULTI gathers.
	maxQueue      = 100_000
	maxQueueBytes = 64 << 20
)

func multi(t *turn) {
	if t.c.queue != nil {
		t.out.Fail(redis.Error("ERR MULTI calls can not be nested"))
		return
	}
	t.c.queue = &queue{space: t.c.space}
	t.out.OK()
}

func discard(t *turn) {
	if t.c.queue == nil {
		t.out.Fail(redis.Error("ERR DISCARD without MULTI"))
		return
	}
	t.c.queue, t.c.watched = nil, nil
	t.out.OK()
}

func unwatch(t *turn) {
	t.c.watched = nil
	t.out.OK()
}

// watch notes the versions of keys.
func watch(t *turn) {
	if t.c.queue != nil {
		t.out.Fail(redis.Error("ERR WATCH inside MULTI is not allowed"))
		return
	}
	have := map[string]bool{}
	for _, w := range t.c.watched {
		if w.space == t.c.space {
			have[string(w.key)] = true
		}
	}
	for _, key := range t.Args[1:] {
		if err := command.CheckKey(key); err != nil {
			t.out.Fail(err)
			return
		}
		if have[string(key)] {
			continue
		}
		have[string(key)] = true
		if len(t.c.watched) == maxWatched {
			t.out.Fail(redis.Error("ERR too many watched keys: at most " + strconv.Itoa(maxWatched)))
			return
		}
		version, err := t.s.version(t.ctx, t.c.space, key)
		if err == nil {
			err = t.ctx.Err()
		}
		if err != nil {
			t.out.Fail(err)
			return
		}
		t.c.watched = append(t.c.watched, watched{t.c.space, key, version})
	}
	t.out.OK()
}

// enqueue keeps a request for EXEC.
func (w *worker) enqueue(c *client, r redis.Request) {
	q := c.queue
	it := item{kept(r), q.space}
	q.bytes += it.Bytes()
	if len(q.items) >= maxQueue || q.bytes > maxQueueBytes {
		q.failed, q.items = true, nil
		w.say(c, nil, func(out *redis.Writer) {
			out.Fail(redis.Error("ERR too many commands in MULTI: use several transactions"))
		})
		return
	}
	if r.Spec.Name == "select" {
		k, err := w.s.spaceOf(string(r.Args[1]))
		if err == nil {
			q.space = k
		}
	}
	q.items, q.needs = append(q.items, it), q.needs|r.Spec.Flags
	w.say(c, nil, func(out *redis.Writer) { out.Simple("QUEUED") })
}

var execSpec = redis.Named("exec")

// exec executes what MULTI has gathered.
func (w *worker) exec(c *client) {
	q, keys := c.queue, c.watched
	if q == nil {
		w.say(c, execSpec, func(out *redis.Writer) { out.Fail(redis.Error("ERR EXEC without MULTI")) })
		return
	}
	c.queue, c.watched = nil, nil
	switch {
	case q.failed:
		w.say(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of previous errors."))
		})
	case q.needs&redis.DenyOOM != 0 && w.s.memory.over.Load():
		w.say(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of: " + string(errOOM)))
		})
	case !w.s.stillMay(c, q):
		w.say(c, execSpec, func(out *redis.Writer) {
			out.Fail(redis.Error("EXECABORT Transaction discarded because of: NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call."))
		})
	case len(q.items) == 0 && len(keys) == 0:
		w.say(c, execSpec, func(out *redis.Writer) { out.Array(0) })
	default:
		for i := range q.items {
			w.s.stats.called(q.items[i].Spec, nil)
		}
		w.unit(c, &unit{c: c, items: q.items, multi: true, watched: keys})
	}
}

// stillMay tells whether the client may do all that it has gathered: its user may have
// been changed since.
func (s *Server) stillMay(c *client, q *queue) bool {
	u := c.account.User()
	if u.All() {
		return true
	}
	for i := range q.items {
		if s.permitted(c, u, q.items[i].Spec, q.items[i].Args) != nil {
			return false
		}
	}
	return true
}
