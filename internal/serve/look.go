package serve

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
)

// The commands that most requests are.
var getSpec, setSpec = redis.Named("get"), redis.Named("set")

// looking is a request of one command on one key whose row is about to be looked at.
// Invariant: those that wait are of one client, whose requests are taken; all that it asks
// for else comes after them.
type looking struct {
	c      *client
	user   *acl.User // who was asked
	part   *node.Part
	row    group.RowKey
	glance group.Glance
	// key is that of a GET that is answered past the queue of its group. It is good until
	// the client's next bytes are taken.
	key []byte
	// command is what is staged for any other request, if the row is known in memory.
	command command.Command
	request redis.Request
}

// look begins a GET. Several are answered together: most of the time of one is waiting
// for memory, and they wait for it together.
func (w *worker) look(c *client, key []byte, row group.RowKey, part *node.Part) {
	w.gets++
	w.lookAt(looking{c: c, part: part, row: row, key: key})
}

// lookAndStage begins another request. Whether its row is in memory is asked for several
// together too.
func (w *worker) lookAndStage(c *client, r redis.Request, row group.RowKey, part *node.Part) {
	cmd := w.build(c, &r, row)
	if cmd == nil {
		return
	}
	c.pending++ // until it is staged
	c.store = part.Store
	w.lookAt(looking{c: c, part: part, row: row, command: cmd, request: r})
}

func (w *worker) lookAt(l looking) {
	l.glance, l.user = l.part.Group.Glance(l.row), l.c.allowed
	if w.looks = append(w.looks, l); len(w.looks) == cap(w.looks) {
		w.see()
	}
}

// see answers the reads that have begun, and stages the other requests.
func (w *worker) see() {
	if len(w.looks) == 0 {
		return
	}
	timed := w.gets > 0 && w.untimed == 0
	var began time.Duration
	if timed {
		w.noteReads() // with the time of the one before
		began = clock()
	}
	looks := w.looks
	w.looks, w.gets = w.looks[:0], 0
	for i := range looks {
		looks[i].glance.Near()
	}
	reads := 0
	for i := range looks {
		if l := &looks[i]; l.command != nil {
			w.stageKnown(l)
		} else if w.seeOne(l) {
			reads++
		}
	}
	switch w.seen += reads; {
	case timed:
		w.each = (clock() - began) / time.Duration(len(looks))
		w.untimed = timedOf - 1
	case reads > 0 && w.untimed > 0:
		w.untimed--
	}
	clear(looks)
}

// timedOf is of how many looks of a round one is timed, and stands for the others: to ask for the time twice
// takes about as long as to find a row.
const timedOf = 4

// noteReads notes how long the reads took that were answered.
func (w *worker) noteReads() {
	if w.seen > 0 {
		w.s.stats.took(getSpec, w.seen, w.each, w.each*time.Duration(w.seen))
	}
	w.seen = 0
}

// timeReads does so, and lets the next look be timed.
func (w *worker) timeReads() {
	w.noteReads()
	w.untimed = 0
}

// stageKnown stages a request if its row is known in memory. If not, the row is brought
// there first, and what the client asks for behind it waits too.
func (w *worker) stageKnown(l *looking) {
	c := l.c
	c.pending--
	size, known := 0, !c.busy && (w.blind(&l.request, l.part) || plant.Bug("serve-cold-staged"))
	if !c.busy && !known {
		size, known = l.part.Group.Knows(l.row)
	}
	if !known {
		w.join(c, l.request, l.user)
		return
	}
	w.weight += size
	w.add(c, l.request, l.row, l.part, l.command)
}

// blind tells whether a request is executed without a look at the row that it replaces.
func (w *worker) blind(r *redis.Request, part *node.Part) bool {
	return r.Spec == setSpec && len(r.Args) == 3 && part.Group.Blind()
}

// seeOne answers a read if the row is known in memory. If not, it is left to do, and so are
// those behind this one: see release.
func (w *worker) seeOne(l *looking) (answered bool) {
	c := l.c
	var row command.Row
	found, known := false, false
	// A keyspace that was emptied is another: see read. That is asked right before the look, since rows
	// of it that are seen gone come before all that is looked at behind them.
	if !c.busy && c.space.Check() == nil {
		row, w.row, found, known = l.glance.Look(w.row[:0])
	}
	if !known {
		w.join(c, getOf(l.key), l.user)
		return false
	}
	start := len(c.out.Bytes)
	c.writeRow(row, found)
	if cap(w.row) > keepOut {
		w.row = nil
	}
	c.hush(getSpec, start)
	c.conn.dirty()
	return true
}

// writeRow answers a GET.
func (c *client) writeRow(row command.Row, found bool) {
	switch {
	case !found:
		c.out.Null()
	case row.Kind != command.String:
		c.out.Fail(command.ErrWrongType)
	default:
		c.out.Bulk(row.Payload)
	}
}

// getOf is the request for a key.
func getOf(key []byte) redis.Request {
	return redis.Request{Spec: getSpec, Args: [][]byte{getWord, key}}
}

var getWord = []byte("GET")

// read answers a GET, and waits as long as it takes.
func (s *Server) read(ctx context.Context, c *client, t *task) {
	start := len(c.out.Bytes)
	p := t.position()
	err := s.routed(ctx, p, func(part *node.Part) error {
		s.warmRow(ctx, part, p)
		row, found, err := part.Group.Read(ctx, p, nil)
		if err == nil {
			c.writeRow(row, found)
		}
		return err
	})
	if err != nil {
		c.out.Fail(err)
	}
	c.hush(getSpec, start)
}

// answerRead answers a GET of a row that was read.
func (c *client) answerRead(t *task) {
	start := len(c.out.Bytes)
	c.writeRow(t.read.Row, t.read.Found)
	c.hush(getSpec, start)
}
