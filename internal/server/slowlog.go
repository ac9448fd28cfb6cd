package server

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	registerHandlers(map[string]func(*call){
		"slowlog|get": handleSlowlogGet,
		"slowlog|len": func(t *call) { t.out.Int(int64(t.s.slowlog.len())) },
		"slowlog|reset": func(t *call) {
			t.s.slowlog.reset()
			t.out.OK()
		},
		"slowlog|help": newHelpHandler("SLOWLOG", "GET [<count>]", "    Return top <count> entries from the slowlog (default: 10, -1 mean all).", "    Entries are made of:",
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
	mu      sync.Mutex
	nextID  int64
	entries []slowlogEntry // the newest first
	// threshold is from how many nanoseconds on a request is noted, negative for never, and most
	// how many are kept.
	threshold atomic.Int64
	maxLen    int
}

type slowlogEntry struct {
	id         int64
	at         time.Time
	took       time.Duration
	args       []string
	from, name string
	// What operators are told, who do not see values.
	command  string
	keys     []api.Key
	argCount int
	location location
}

// location is where a request was executed; zero if that was not one place.
type location struct {
	shard partition.ShardID
	group partition.GroupID
}

// String is the spot as the last argument of an entry.
func (s location) String() string { return fmt.Sprintf("(%v, %v)", s.shard, s.group) }

const (
	// maxSlowlogArgs and maxSlowlogArgBytes are how much of a request is noted.
	maxSlowlogArgs     = 32
	maxSlowlogArgBytes = 128
	// maxSlowlogPerBatch is how many requests of a batch are.
	maxSlowlogPerBatch = 8
	// maxSlowlogKeys is how many of its keys are.
	maxSlowlogKeys = 8
)

func (l *slowlog) init() { l.setLimits(10*time.Millisecond, 128) }

// isSlow reports whether something that took so long is noted.
func (l *slowlog) isSlow(took time.Duration) bool {
	least := l.threshold.Load()
	return least >= 0 && int64(took) >= least
}

// record notes a request, and where it was executed unless the keyspace is nil.
func (l *slowlog) record(c *client, r *redis.Request, took time.Duration, in *node.Keyspace) {
	args, at := r.Args, location{}
	if in != nil {
		at = c.s.locateRequest(in, r)
	}
	e := c.newSlowlogEntry(args, took, at)
	c.s.reportRequest("slow", 1, func() slowlogEntry { return e })
	for i, a := range args {
		if i == maxSlowlogArgs-1 && len(args) > maxSlowlogArgs {
			e.args = append(e.args, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		text := string(a[:min(len(a), maxSlowlogArgBytes)])
		if len(a) > maxSlowlogArgBytes {
			text += fmt.Sprintf("... (%d more bytes)", len(a)-maxSlowlogArgBytes)
		}
		e.args = append(e.args, text)
	}
	if at != (location{}) {
		e.args = append(e.args, at.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = slices.Insert(l.entries, 0, e)
	l.entries = l.entries[:min(len(l.entries), l.maxLen)]
}

// newSlowlogEntry is what there is to say about a request without its values.
func (c *client) newSlowlogEntry(args [][]byte, took time.Duration, at location) slowlogEntry {
	e := slowlogEntry{at: c.s.opts.Now(), took: took, from: c.remoteAddr, name: c.status.loadInfo().name, argCount: len(args), location: at}
	spec, err := redis.LookupRequest(args)
	if err != nil {
		return e // a word of the client's own: it may be anything
	}
	e.command = spec.Name
	keys, _ := spec.KeyIndexes(args) // it was executed
	for _, i := range keys[:min(len(keys), maxSlowlogKeys)] {
		e.keys = append(e.keys, slices.Clone(args[i][:min(len(args[i]), maxSlowlogArgBytes)]))
	}
	return e
}

func (l *slowlog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// setLimits changes the settings.
func (l *slowlog) setLimits(least time.Duration, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most == 0 {
		least = -1
	}
	l.threshold.Store(int64(least))
	l.maxLen = most
	l.entries = l.entries[:min(len(l.entries), most)]
}

func (l *slowlog) listNewest(n int) []slowlogEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 {
		n = len(l.entries)
	}
	return slices.Clone(l.entries[:min(n, len(l.entries))])
}

func handleSlowlogGet(t *call) {
	n := 10
	if len(t.Args) > 3 {
		t.out.Fail(redis.SubcommandArity(&t.Request))
		return
	}
	if len(t.Args) == 3 {
		most, ok := redis.Integer(t.Args[2])
		if n = int(most); !ok || n < -1 {
			t.out.Fail(redis.Error("ERR count should be greater than or equal to -1"))
			return
		}
	}
	list := t.s.slowlog.listNewest(n)
	t.out.Array(len(list))
	for _, e := range list {
		t.out.Array(6)
		t.out.Int(e.id)
		t.out.Int(e.at.Unix())
		t.out.Int(e.took.Microseconds())
		t.writeTexts(e.args)
		t.out.Text(e.from)
		t.out.Text(e.name)
	}
}

// runTimed does something for a client and notes it if it took long. The keyspace is nil if it is
// not in one place.
func (c *client) runTimed(r *redis.Request, in *node.Keyspace, f func()) (took time.Duration) {
	began := time.Now()
	f()
	took = c.waited + time.Since(began)
	if c.s.recordLatency(eventCommand, took) && !secretCommands[r.Spec.Name] {
		c.s.slowlog.record(c, r, took, in)
	}
	return took
}

// secretCommands are the commands that have passwords in them.
var secretCommands = map[string]bool{"auth": true, "hello": true, "acl|setuser": true, "config|set": true}

// recordSlowBatch notes some requests of a batch that took long.
func (w *worker) recordSlowBatch(b *batch, took time.Duration) {
	slow := w.s.recordLatency(eventBatch, took)
	if !slow && !w.hasWaited {
		return
	}
	noted := 0
	for i := range b.requests {
		a := &b.requests[i]
		if took := a.c.waited + took; slow || a.c.waited > 0 && w.s.slowlog.isSlow(took) {
			r, space := &a.request, a.keyspace
			if a.unit != nil {
				r, space = &a.unit.items[0].Request, a.unit.items[0].keyspace
			}
			w.s.slowlog.record(a.c, r, took, space)
			if noted++; noted == maxSlowlogPerBatch {
				return
			}
		}
	}
}

// locateRequest is the shard and the group of a request.
func (s *Server) locateRequest(space *node.Keyspace, r *redis.Request) location {
	at, err := r.Spec.KeyIndexes(r.Args)
	if err != nil || len(at) == 0 {
		return location{}
	}
	p := space.AppendPosition(nil, r.Args[at[0]])
	return location{s.node.Map().Find(p).ID, s.node.GroupHostAt(p).ID}
}
