package mover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// driver is somebody who drives jobs. It remembers them, and may be wrong.
type driver struct {
	w    *world
	jobs map[own.Job]held
	// life is one more after each crash: answers to an earlier one are lost.
	life int
}

// held is a job as a driver knows it, and the revision of its record that was stored
// last.
type held struct {
	Job
	stored uint64
}

// handle gives an event to a job, as far as the driver knows it.
func (d *driver) handle(id own.Job, ev Event) {
	h, ok := d.jobs[id]
	if !ok {
		if h, ok = d.load(id); !ok {
			return
		}
	}
	next, effects := Step(h.Job, ev, d.w.now)
	switch {
	case next.Rev == h.Rev && len(effects) == 0:
		// Nothing has changed for what it knows. It may know too little.
		if stored, _ := d.w.load(id); stored.Rev != h.stored {
			d.overtaken(id)
		}
	case next.Rev == h.Rev || d.w.passes && Passing(&h.Job, next.Phase):
		d.take(held{next, h.stored}, effects)
	case d.w.swap(h.stored, next):
		d.take(held{next, next.Rev}, effects)
	default:
		d.overtaken(id)
	}
}

// load reads a record.
func (d *driver) load(id own.Job) (held, bool) {
	j, ok := d.w.load(id)
	return held{j, j.Rev}, ok
}

// overtaken reads what somebody else has stored.
func (d *driver) overtaken(id own.Job) {
	d.jobs[id], _ = d.load(id)
	d.w.fault(d.jobs[id].Job, "overtaken")
}

// take goes on with a record, and does what it wants. It may crash in between.
func (d *driver) take(h held, effects []Effect) {
	d.jobs[h.ID] = h
	if d.w.mishap(3) {
		d.crash(h.Job)
		return
	}
	for _, x := range effects {
		d.execute(h.Job, x)
	}
}

// crash forgets everything.
func (d *driver) crash(during Job) {
	d.w.fault(during, "crashed")
	d.jobs, d.life = map[own.Job]held{}, d.life+1
}

// poke reads a record anew and does what it wants, as after a crash or a while.
func (d *driver) poke(id own.Job) {
	h, ok := d.load(id)
	if !ok {
		return
	}
	d.jobs[id] = h
	d.handle(id, Timeout{})
}

// answer sends an event back to the driver.
func (d *driver) answer(j Job, ev Event) {
	life := d.life
	d.w.send(j, func() {
		if d.life == life {
			d.handle(j.ID, ev)
		}
	})
}

func (d *driver) fail(j Job, round uint64, err error) { d.answer(j, Failed{Round: round, Err: err}) }

// execute sends an effect on its way.
func (d *driver) execute(j Job, x Effect) {
	w := d.w
	switch x := x.(type) {
	case Look:
		w.send(j, func() {
			if w.peers[x.To] == nil {
				d.fail(j, x.Round, errors.New("the group is not open yet"))
				return
			}
			d.answer(j, Looked{Round: x.Round, Source: over(w.peers[x.From], x.Span), Dest: over(w.peers[x.To], x.Span)})
		})
	case Evaluate:
		w.send(j, func() { d.evaluate(j, x) })
	case Locate:
		w.send(j, func() { d.answer(j, Located{Round: x.Round, Position: w.peers[x.From].disk.position()}) })
	case Copy:
		w.send(j, func() { d.copy(j, x) })
	case CatchUp:
		w.send(j, func() { d.catchUp(j, x) })
	case Verify:
		w.send(j, func() { d.verify(j, x) })
	case Choose:
		rev := d.jobs[j.ID].stored
		w.send(j, func() { d.choose(j, rev, x) })
	case Publish:
		w.send(j, func() {
			w.routers = w.m
			d.answer(j, Published{Round: x.Round})
		})
	case Host:
		w.send(j, func() {
			for _, g := range x.Groups {
				w.host(g)
			}
			d.answer(j, Published{Round: x.Round})
		})
	case Survey:
		w.send(j, func() { d.answer(j, Surveyed{Round: x.Round, View: w.view()}) })
	case Spawn:
		w.send(j, func() { w.admit(x.Request) })
	case Stop:
		w.send(j, func() { w.cancel(x.Job) })
	case Retire:
		w.send(j, func() {
			if w.mishap(30) {
				d.fail(j, x.Round, ErrDecisions)
				return
			}
			d.answer(j, Published{Round: x.Round})
		})
	default:
		panic(fmt.Sprintf("unknown effect %T", x))
	}
}

func over(p *peer, s partition.Span) []own.Range { return slices.Collect(p.site.List.Over(s)) }

func (d *driver) evaluate(j Job, x Evaluate) {
	w := d.w
	var peers []*peer
	var commands []Bound
	for _, part := range x.Parts {
		peers = append(peers, w.peers[part.Group])
		c := part.Command
		if clear, ok := c.(*Clear); ok {
			small := *clear
			small.Limit = 1 + w.rng.IntN(6)
			c = &small
		}
		commands = append(commands, c)
	}
	if w.mishap(2) {
		d.fail(j, x.Round, errors.New("weather"))
		return
	}
	var reply command.Reply
	if len(peers) > 1 {
		reply = joint(peers, commands, x.Carry)
	} else {
		reply, _ = peers[0].do(commands[0])
	}
	w.check()
	if reply.Err != nil {
		d.fail(j, x.Round, reply.Err)
		return
	}
	d.answer(j, Evaluated{
		Round: x.Round, Rows: uint64(reply.Int), More: reply.More,
		Position: peers[0].disk.position(), NextVersion: peers[0].next, ClockMS: peers[0].clock,
	})
}

func (d *driver) copy(j Job, x Copy) {
	var into effect.Builder
	next, err := ReadChunk(d.w.peers[x.From].disk.rows, x.Span, x.Cursor, 40+d.w.rng.IntN(300), &into)
	if err != nil {
		panic(err)
	}
	rows := parse(&into)
	d.w.send(j, func() {
		c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: x.Base, Upto: x.Base, Rows: rows}
		reply, _ := d.w.peers[x.To].do(c)
		if reply.Err != nil {
			d.fail(j, x.Round, reply.Err)
			return
		}
		d.answer(j, Copied{Round: x.Round, Next: next, Rows: uint64(rows.Len()), Bytes: uint64(into.Size())})
	})
}

// upto returns how far the copy of a job has come, 0 if there is none any more:
// the range may be another job's by now.
func (d *driver) upto(to partition.GroupID, s partition.Span, job own.Job, attempt uint64) uint64 {
	if r, ok := d.w.peers[to].site.List.One(s); ok && r.Job == job && r.Attempt == attempt {
		return r.Upto
	}
	return 0
}

// feed reads the log behind a place, at most limit entries, and what is in the
// span.
func (d *driver) feed(from partition.GroupID, after, until uint64, limit int, s partition.Span) (rows effect.Batch, upto uint64, keys [][]byte, more bool) {
	var into effect.Builder
	upto = after
	for _, e := range d.w.peers[from].disk.log {
		if e.pos <= after || e.pos > until {
			continue
		}
		if limit--; limit < 0 {
			more = true
			break
		}
		Pick(e.batch, s, &into)
		upto = e.pos
	}
	rows = parse(&into)
	for _, op := range rows.All() {
		keys = append(keys, op.Key)
	}
	slices.SortFunc(keys, bytes.Compare)
	return rows, upto, slices.CompactFunc(keys, bytes.Equal), more
}

const everything = 1 << 30

func (d *driver) catchUp(j Job, x CatchUp) {
	w := d.w
	if w.mishap(4) {
		d.fail(j, x.Round, ErrGone)
		return
	}
	after := max(d.upto(x.To, x.Span, x.Job, x.Attempt), x.Upto)
	until, limit := uint64(everything), 1+w.rng.IntN(8)
	rows, upto, _, more := d.feed(x.From, after, until, limit, x.Span)
	w.send(j, func() {
		if upto > after {
			c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, Upto: upto, Rows: rows}
			reply, _ := w.peers[x.To].do(c)
			if reply.Err != nil {
				d.fail(j, x.Round, reply.Err)
				return
			}
			upto = max(upto, uint64(reply.Int))
		}
		size := uint64(0)
		if rows.Len() > 0 {
			size = 1
		}
		d.answer(j, CaughtUp{Round: x.Round, Upto: upto, More: more, Rows: uint64(rows.Len()), Bytes: size})
	})
}

// verify compares both sides at one place: all rows, or those that were touched.
func (d *driver) verify(j Job, x Verify) {
	w := d.w
	source := w.peers[x.From].disk
	snap, place := source.rows.clone(), source.position()
	after := max(d.upto(x.To, x.Span, x.Job, x.Attempt), x.Upto)
	if place < after {
		panic("the destination is ahead of the source")
	}
	rows, _, _, _ := d.feed(x.From, after, place, everything, x.Span)
	_, _, keys, _ := d.feed(x.From, x.Since, place, everything, x.Span)
	w.send(j, func() {
		to := w.peers[x.To]
		if place > after {
			c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, Upto: place, Rows: rows}
			if reply, _ := to.do(c); reply.Err != nil {
				d.fail(j, x.Round, reply.Err)
				return
			}
		}
		if d.upto(x.To, x.Span, x.Job, x.Attempt) != place {
			d.fail(j, x.Round, errors.New("another driver was faster"))
			return
		}
		same := true
		if x.Since == 0 {
			a, errA := Sum(snap, x.Span)
			b, errB := Sum(to.disk.rows, x.Span)
			same = a == b && errA == nil && errB == nil
		} else {
			a, errA := SumKeys(snap, keys)
			b, errB := SumKeys(to.disk.rows, keys)
			same = a == b && errA == nil && errB == nil
		}
		// As long as nothing of the log has come, a piece of the copy that is
		// newer than the snapshot may have.
		if !same && place != j.Base {
			w.fatalf("the copy of job %d differs from its source", j.ID)
		}
		if w.mishap(3) {
			same = false
		}
		d.answer(j, Verified{Round: x.Round, Upto: place, Equal: same, Compared: uint64(rows.Len())})
	})
}

// choose makes a decision where the records are. The driver's own record comes with it, if that
// was not stored: it takes the place of the one of revision rev.
func (d *driver) choose(j Job, rev uint64, x Choose) {
	w := d.w
	stored, ok := d.load(j.ID)
	if !ok {
		return
	}
	if rev != j.Rev {
		if stored.Rev != rev {
			d.overtaken(j.ID)
			return
		}
		w.counts.Add("decided with a record that was not stored", 1)
		stored.Job = j
	}
	next, m, effects, err := Decide(stored.Job, x, w.m, w.now)
	if err != nil {
		d.fail(j, x.Round, err)
		return
	}
	w.m = m // with the record, as one
	if !w.swap(stored.stored, next) {
		panic("a decision is one step")
	}
	d.take(held{next, next.Rev}, effects)
}

func parse(b *effect.Builder) effect.Batch {
	batch, err := effect.Parse(bytes.Clone(b.Bytes()))
	if err != nil {
		panic(err)
	}
	return batch
}
