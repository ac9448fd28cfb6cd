package serve

import (
	"context"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
)

// trip is a way to the disk for some clients: it brings what all of them want.
type trip struct {
	wants []wants
	keys  []byte // what the row keys are made of
}

// wants is what is wanted of a group: rows in memory, and rows that are to be read.
type wants struct {
	part        *node.Part
	rows, reads [][]byte
	tasks       []*task // of reads
	reading     group.Reading
}

// trips are those that have ended, to be used again.
var trips = sync.Pool{New: func() any { return new(trip) }}

// keepTrip is for how many bytes of row keys, and keepWants for how many groups, memory is used
// again.
const keepTrip, keepWants = 64 << 10, 8

// tripMost is how many requests of a client are of one trip, and farMost if there is a disk to wait
// for. For the others there is another one: nobody waits for all that others want, and those that
// have left want nothing more.
const tripMost, farMost = 256, 32

// plan returns the trip for some clients. Reads in front are to be read, and the rows of
// other requests to be in memory.
func (s *Server) plan(clients []*client) *trip {
	t := trips.Get().(*trip)
	most := tripMost
	if !s.isNear() {
		most = farMost
	}
	for _, c := range clients {
		front, tasks := true, c.backlog.left()
		tasks = tasks[:min(len(tasks), most)]
		c.backlog.tried = c.backlog.done + len(tasks)
		for i := range tasks {
			a := &tasks[i]
			front = front && a.isRead()
			if !a.isStaged() {
				continue // it looks for itself
			}
			start := len(t.keys)
			t.keys = a.appendRow(t.keys) // if it grows, the others stay where they are
			row := group.RowKey(t.keys[start:len(t.keys):len(t.keys)])
			w := t.of(s.node.PartOf(row.Position()))
			if front {
				w.reads, w.tasks = append(w.reads, row), append(w.tasks, a)
			} else {
				w.rows = append(w.rows, row)
			}
		}
	}
	return t
}

// of is what is wanted of a group.
func (t *trip) of(part *node.Part) *wants {
	for i := range t.wants {
		if t.wants[i].part == part {
			return &t.wants[i]
		}
	}
	if n := len(t.wants); n < cap(t.wants) {
		t.wants = t.wants[:n+1] // with the memory of one that has ended
	} else {
		t.wants = append(t.wants, wants{})
	}
	w := &t.wants[len(t.wants)-1]
	w.part = part
	return w
}

// read reads what is to be read.
func (t *trip) read(ctx context.Context, by func(*group.Group, context.Context, *group.Reading, [][]byte)) {
	for i := range t.wants {
		w := &t.wants[i]
		by(w.part.Group, ctx, &w.reading, w.reads)
		for i, a := range w.tasks {
			a.read = &w.reading.Rows[i]
		}
	}
}

// end lets the memory be used again: nothing that was read is looked at any more.
func (t *trip) end() {
	if cap(t.keys) > keepTrip || cap(t.wants) > keepWants {
		return
	}
	for i := range t.wants {
		w := &t.wants[i]
		clear(w.rows)
		clear(w.reads)
		clear(w.tasks)
		w.part, w.rows, w.reads, w.tasks = nil, w.rows[:0], w.reads[:0], w.tasks[:0]
	}
	t.wants, t.keys = t.wants[:0], t.keys[:0]
	trips.Put(t)
}

// warmUp brings into memory what some clients need, does what it can for them, and lets them go.
func (s *Server) warmUp(ctx context.Context, clients []*client) {
	t := s.plan(clients)
	defer t.end()
	for i := range t.wants {
		s.warm(ctx, t.wants[i].part, t.wants[i].rows)
	}
	t.read(ctx, (*group.Group).ReadMany)
	for _, c := range clients {
		s.rehearseAll(ctx, c)
		s.advance(ctx, c)
		c.conn.resume()
	}
}

// rehearseAll brings into memory what requests of a client need that were refused for that.
func (s *Server) rehearseAll(ctx context.Context, c *client) {
	tasks := c.backlog.tasks[c.backlog.done:c.backlog.tried]
	for i := range tasks {
		t := &tasks[i]
		if t.refused == 0 || !t.isStaged() || ctx.Err() != nil || c.left.Load() {
			continue
		}
		p := t.position()
		if cmd, err := t.compose(p); err == nil {
			s.node.PartOf(p).Group.Rehearse(cmd)
		}
	}
}

// warm brings rows of a part into memory.
func (s *Server) warm(ctx context.Context, part *node.Part, rows [][]byte) {
	for some := range slices.Chunk(rows, coldShare) {
		if ctx.Err() == nil {
			part.Group.Warm(some...)
		}
	}
}
