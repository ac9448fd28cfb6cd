package serve

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	handle(map[string]func(*turn){
		"slowlog|get": slowlogGet,
		"slowlog|len": func(t *turn) { t.out.Int(int64(t.s.slow.len())) },
		"slowlog|reset": func(t *turn) {
			t.s.slow.reset()
			t.out.OK()
		},
		"slowlog|help": help("SLOWLOG", "GET [<count>]", "    Return top <count> entries from the slowlog (default: 10, -1 mean all).", "    Entries are made of:",
			"    id, timestamp, time in microseconds, arguments array, client IP and port,", "    client name", "LEN", "    Return the length of the slowlog.",
			"RESET", "    Reset the slowlog."),
	})
}

// slowlog is the newest of the requests that took long.
//
// The time of a request that is executed with others is that of all of them, from when
// they are handed to a group until they are as durable as they have to be: it is what the
// client has waited for. Of such a batch a few requests are noted, and so of those of a client
// that has waited for rows which were not in memory.
type slowlog struct {
	mu   sync.Mutex
	next int64
	list []slowEntry // the newest first
	// least is from how many nanoseconds on a request is noted, negative for never, and most
	// how many are kept.
	least atomic.Int64
	most  int
}

type slowEntry struct {
	id         int64
	at         time.Time
	took       time.Duration
	args       []string
	from, name string
	// What operators are told, who do not see values.
	command string
	keys    []api.Key
	words   int
	spot    spot
}

// spot is where a request was executed; zero if that was not one place.
type spot struct {
	shard partition.ShardID
	group partition.GroupID
}

// String is the spot as the last argument of an entry.
func (s spot) String() string { return fmt.Sprintf("(shard %v, group %v)", s.shard, s.group) }

const (
	// slowArgs and slowBytes are how much of a request is noted.
	slowArgs  = 32
	slowBytes = 128
	// slowOfBatch is how many requests of a batch are.
	slowOfBatch = 8
	// slowKeys is how many of its keys are.
	slowKeys = 8
)

func (l *slowlog) init() { l.set(10*time.Millisecond, 128) }

// isSlow tells whether something that took so long is noted.
func (l *slowlog) isSlow(took time.Duration) bool {
	least := l.least.Load()
	return least >= 0 && int64(took) >= least
}

// note notes a request, and where it was executed unless the keyspace is nil.
func (l *slowlog) note(c *client, r *redis.Request, took time.Duration, in *node.Space) {
	args, at := r.Args, spot{}
	if in != nil {
		at = c.s.where(in, r)
	}
	e := c.entry(args, took, at)
	c.s.observe("slow", 1, func() slowEntry { return e })
	for i, a := range args {
		if i == slowArgs-1 && len(args) > slowArgs {
			e.args = append(e.args, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		text := string(a[:min(len(a), slowBytes)])
		if len(a) > slowBytes {
			text += fmt.Sprintf("... (%d more bytes)", len(a)-slowBytes)
		}
		e.args = append(e.args, text)
	}
	if at != (spot{}) {
		e.args = append(e.args, at.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.next
	l.next++
	l.list = slices.Insert(l.list, 0, e)
	l.list = l.list[:min(len(l.list), l.most)]
}

// entry is what there is to say about a request without its values.
func (c *client) entry(args [][]byte, took time.Duration, at spot) slowEntry {
	e := slowEntry{at: c.s.opts.Now(), took: took, from: c.from, name: c.seen.get().name, words: len(args), spot: at}
	spec, err := redis.Lookup(args)
	if err != nil {
		return e // a word of the client's own: it may be anything
	}
	e.command = spec.Name
	keys, _ := spec.KeysOf(args) // it was executed
	for _, i := range keys[:min(len(keys), slowKeys)] {
		e.keys = append(e.keys, slices.Clone(args[i][:min(len(args[i]), slowBytes)]))
	}
	return e
}

func (l *slowlog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// set changes the settings.
func (l *slowlog) set(least time.Duration, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most == 0 {
		least = -1
	}
	l.least.Store(int64(least))
	l.most = most
	l.list = l.list[:min(len(l.list), most)]
}

func (l *slowlog) get(n int) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 {
		n = len(l.list)
	}
	return slices.Clone(l.list[:min(n, len(l.list))])
}

func slowlogGet(t *turn) {
	n := 10
	if len(t.Args) > 3 {
		t.out.Fail(redis.Arity(t.Spec.Name))
		return
	}
	if len(t.Args) == 3 {
		var err error
		if n, err = strconv.Atoi(string(t.Args[2])); err != nil || n < -1 {
			t.out.Fail(redis.Error("ERR count should be greater than or equal to -1"))
			return
		}
	}
	list := t.s.slow.get(n)
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Array(6)
		t.out.Int(e.id)
		t.out.Int(e.at.Unix())
		t.out.Int(e.took.Microseconds())
		t.texts(e.args)
		t.out.Text(e.from)
		t.out.Text(e.name)
	}
}

// timed does something for a client and notes it if it took long. The keyspace is nil if it is
// not in one place.
func (c *client) timed(r *redis.Request, in *node.Space, f func()) (took time.Duration) {
	began := time.Now()
	f()
	took = c.waited + time.Since(began)
	if c.s.measured(eventCommand, took) && !secret[r.Spec.Name] {
		c.s.slow.note(c, r, took, in)
	}
	return took
}

// secret are the commands that have passwords in them.
var secret = map[string]bool{"auth": true, "hello": true, "acl|setuser": true, "config|set": true}

// noteBatch notes some requests of a batch that took long.
func (w *worker) noteBatch(b *batch, took time.Duration) {
	slow := w.s.measured(eventBatch, took)
	if !slow && !w.late {
		return
	}
	noted := 0
	for i := range b.asks {
		a := &b.asks[i]
		if took := a.c.waited + took; slow || a.c.waited > 0 && w.s.slow.isSlow(took) {
			r, space := &a.request, a.space
			if a.unit != nil {
				r, space = &a.unit.items[0].Request, a.unit.items[0].space
			}
			w.s.slow.note(a.c, r, took, space)
			if noted++; noted == slowOfBatch {
				return
			}
		}
	}
}

// where is the shard and the group of a request.
func (s *Server) where(space *node.Space, r *redis.Request) spot {
	at, err := r.Spec.KeysOf(r.Args)
	if err != nil || len(at) == 0 {
		return spot{}
	}
	p := space.AppendPosition(nil, r.Args[at[0]])
	return spot{s.node.Map().Find(p).ID, s.node.PartOf(p).ID}
}
