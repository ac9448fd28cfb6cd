package mover

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// testDriver drives jobs. It remembers them, and may be wrong.
type testDriver struct {
	world *world
	jobs  map[ownership.JobID]knownJob
	// life is one more after each crash: answers to an earlier one are lost.
	life int
}

// knownJob is a job as a driver knows it, and the revision of its record that was stored
// last.
type knownJob struct {
	Job
	storedRev uint64
}

// handleEvent gives an event to a job, as far as the driver knows it.
func (d *testDriver) handleEvent(id ownership.JobID, ev Event) {
	h, ok := d.jobs[id]
	if !ok {
		if h, ok = d.loadRecord(id); !ok {
			return
		}
	}
	next, effects := Step(h.Job, ev, d.world.nowMS)
	switch {
	case next.Rev == h.Rev && len(effects) == 0:
		// Nothing has changed for what it knows. It may know too little.
		if stored, _ := d.world.loadRecord(id); stored.Rev != h.storedRev {
			d.reloadRecord(id)
		}
	case next.Rev == h.Rev || d.world.storesLater && CanStoreLater(&h.Job, next.Phase):
		d.setRecord(knownJob{next, h.storedRev}, effects)
	case d.world.swapRecord(h.storedRev, next):
		d.setRecord(knownJob{next, next.Rev}, effects)
	default:
		d.reloadRecord(id)
	}
}

// loadRecord reads a record.
func (d *testDriver) loadRecord(id ownership.JobID) (knownJob, bool) {
	j, ok := d.world.loadRecord(id)
	return knownJob{j, j.Rev}, ok
}

// reloadRecord reads what another driver has stored.
func (d *testDriver) reloadRecord(id ownership.JobID) {
	d.jobs[id], _ = d.loadRecord(id)
	d.world.countFault(d.jobs[id].Job, "overtaken")
}

// setRecord goes on with a record, and does what it wants. It may crash in between.
func (d *testDriver) setRecord(h knownJob, effects []Effect) {
	d.jobs[h.ID] = h
	if d.world.drawFault(3) {
		d.crash(h.Job)
		return
	}
	for _, x := range effects {
		d.runEffect(h.Job, x)
	}
}

// crash forgets everything.
func (d *testDriver) crash(during Job) {
	d.world.countFault(during, "crashed")
	d.jobs, d.life = map[ownership.JobID]knownJob{}, d.life+1
}

// resumeJob reads a record anew and does what it wants, as after a crash or a while.
func (d *testDriver) resumeJob(id ownership.JobID) {
	h, ok := d.loadRecord(id)
	if !ok {
		return
	}
	d.jobs[id] = h
	d.handleEvent(id, Timeout{})
}

// sendAnswer sends an event back to the driver.
func (d *testDriver) sendAnswer(j Job, ev Event) {
	life := d.life
	d.world.sendMessage(j, func() {
		if d.life == life {
			d.handleEvent(j.ID, ev)
		}
	})
}

func (d *testDriver) sendFailure(j Job, round uint64, err error) {
	d.sendAnswer(j, Failed{Round: round, Err: err})
}

// runEffect sends an effect on its way.
func (d *testDriver) runEffect(j Job, x Effect) {
	w := d.world
	switch x := x.(type) {
	case ReadOwnership:
		w.sendMessage(j, func() {
			if w.peers[x.To] == nil {
				d.sendFailure(j, x.Round, errors.New("the group is not open yet"))
				return
			}
			d.sendAnswer(j, OwnershipRead{Round: x.Round, Source: overlappingRanges(w.peers[x.From], x.Span), Dest: overlappingRanges(w.peers[x.To], x.Span)})
		})
	case EvalCommands:
		w.sendMessage(j, func() { d.evalCommands(j, x) })
	case Locate:
		w.sendMessage(j, func() { d.sendAnswer(j, Located{Round: x.Round, Position: w.peers[x.From].disk.lastPosition()}) })
	case Copy:
		w.sendMessage(j, func() { d.copyRows(j, x) })
	case CatchUp:
		w.sendMessage(j, func() { d.catchUp(j, x) })
	case Verify:
		w.sendMessage(j, func() { d.verifyCopy(j, x) })
	case DecideJob:
		rev := d.jobs[j.ID].storedRev
		w.sendMessage(j, func() { d.decideJob(j, rev, x) })
	case PublishMap:
		w.sendMessage(j, func() {
			w.routerMap = w.m
			d.sendAnswer(j, Acknowledged{Round: x.Round})
		})
	case OpenGroups:
		w.sendMessage(j, func() {
			for _, g := range x.Groups {
				w.openGroup(g)
			}
			d.sendAnswer(j, Acknowledged{Round: x.Round})
		})
	case SurveyCluster:
		w.sendMessage(j, func() { d.sendAnswer(j, Surveyed{Round: x.Round, View: w.clusterState()}) })
	case StartJob:
		w.sendMessage(j, func() { w.admitJob(x.Request) })
	case CancelJob:
		w.sendMessage(j, func() { w.cancelJob(x.Job) })
	case CheckNoDecisions:
		w.sendMessage(j, func() {
			if w.drawFault(30) {
				d.sendFailure(j, x.Round, ErrKeepsDecisions)
				return
			}
			d.sendAnswer(j, Acknowledged{Round: x.Round})
		})
	default:
		panic(fmt.Sprintf("unknown effect %T", x))
	}
}

func overlappingRanges(p *peer, s partition.Span) []ownership.Range {
	return slices.Collect(p.site.Table.ScanOverlapping(s))
}

func (d *testDriver) evalCommands(j Job, x EvalCommands) {
	w := d.world
	var peers []*peer
	var commands []SiteCommand
	for _, part := range x.Commands {
		peers = append(peers, w.peers[part.Group])
		c := part.Command
		if clear, ok := c.(*Clear); ok {
			small := *clear
			small.Limit = 1 + w.rng.IntN(6)
			c = &small
		}
		commands = append(commands, c)
	}
	if w.drawFault(2) {
		d.sendFailure(j, x.Round, errors.New("weather"))
		return
	}
	var reply command.Reply
	if len(peers) > 1 {
		reply = evalJoint(peers, commands, x.CarryFloors)
	} else {
		reply, _ = peers[0].evalOne(commands[0])
	}
	w.checkServing()
	if reply.Err != nil {
		d.sendFailure(j, x.Round, reply.Err)
		return
	}
	d.sendAnswer(j, Evaluated{
		Round: x.Round, Rows: uint64(reply.Int), More: reply.More,
		Position: peers[0].disk.lastPosition(), NextVersion: peers[0].next, ClockMS: peers[0].clock,
	})
}

func (d *testDriver) copyRows(j Job, x Copy) {
	var into effect.Builder
	next, err := ReadChunk(d.world.peers[x.From].disk.rows, x.Span, x.Cursor, 40+d.world.rng.IntN(300), &into)
	if err != nil {
		panic(err)
	}
	rows := parseBatch(&into)
	d.world.sendMessage(j, func() {
		c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: x.BasePosition, UpTo: x.BasePosition, Rows: rows}
		reply, _ := d.world.peers[x.To].evalOne(c)
		if reply.Err != nil {
			d.sendFailure(j, x.Round, reply.Err)
			return
		}
		d.sendAnswer(j, Copied{Round: x.Round, Next: next, Rows: uint64(rows.Len()), Bytes: uint64(into.Size())})
	})
}

// findCopiedUpTo returns how far the copy of a job has come, 0 if there is none any more:
// the range may be another job's by now.
func (d *testDriver) findCopiedUpTo(to partition.GroupID, s partition.Span, job ownership.JobID, attempt uint64) uint64 {
	if r, ok := d.world.peers[to].site.Table.FindContaining(s); ok && r.Job == job && r.Attempt == attempt {
		return r.CopiedUpTo
	}
	return 0
}

// readLog reads the log behind a place, at most limit entries, and what is in the
// span.
func (d *testDriver) readLog(from partition.GroupID, after, until uint64, limit int, s partition.Span) (rows effect.Batch, upto uint64, keys [][]byte, more bool) {
	var into effect.Builder
	upto = after
	for _, e := range d.world.peers[from].disk.log {
		if e.position <= after || e.position > until {
			continue
		}
		if limit--; limit < 0 {
			more = true
			break
		}
		AppendSpanOps(e.batch, s, &into)
		upto = e.position
	}
	rows = parseBatch(&into)
	for _, op := range rows.All() {
		keys = append(keys, op.Key)
	}
	slices.SortFunc(keys, bytes.Compare)
	return rows, upto, slices.CompactFunc(keys, bytes.Equal), more
}

const noLimit = 1 << 30

func (d *testDriver) catchUp(j Job, x CatchUp) {
	w := d.world
	if w.drawFault(4) {
		d.sendFailure(j, x.Round, ErrGone)
		return
	}
	after := max(d.findCopiedUpTo(x.To, x.Span, x.Job, x.Attempt), x.CopiedUpTo)
	until, limit := uint64(noLimit), 1+w.rng.IntN(8)
	rows, upto, _, more := d.readLog(x.From, after, until, limit, x.Span)
	w.sendMessage(j, func() {
		if upto > after {
			c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, UpTo: upto, Rows: rows}
			reply, _ := w.peers[x.To].evalOne(c)
			if reply.Err != nil {
				d.sendFailure(j, x.Round, reply.Err)
				return
			}
			upto = max(upto, uint64(reply.Int))
		}
		size := uint64(0)
		if rows.Len() > 0 {
			size = 1
		}
		d.sendAnswer(j, CaughtUp{Round: x.Round, CopiedUpTo: upto, More: more, Rows: uint64(rows.Len()), Bytes: size})
	})
}

// verifyCopy compares both sides at one place: all rows, or those that were touched.
func (d *testDriver) verifyCopy(j Job, x Verify) {
	w := d.world
	source := w.peers[x.From].disk
	snap, place := source.rows.Clone(), source.lastPosition()
	after := max(d.findCopiedUpTo(x.To, x.Span, x.Job, x.Attempt), x.CopiedUpTo)
	if place < after {
		panic("the destination is ahead of the source")
	}
	rows, _, _, _ := d.readLog(x.From, after, place, noLimit, x.Span)
	_, _, keys, _ := d.readLog(x.From, x.Since, place, noLimit, x.Span)
	w.sendMessage(j, func() {
		to := w.peers[x.To]
		if place > after {
			c := &Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, UpTo: place, Rows: rows}
			if reply, _ := to.evalOne(c); reply.Err != nil {
				d.sendFailure(j, x.Round, reply.Err)
				return
			}
		}
		if d.findCopiedUpTo(x.To, x.Span, x.Job, x.Attempt) != place {
			d.sendFailure(j, x.Round, errors.New("another driver was faster"))
			return
		}
		same := true
		if x.Since == 0 {
			a, errA := SumSpan(snap, x.Span)
			b, errB := SumSpan(to.disk.rows, x.Span)
			same = a == b && errA == nil && errB == nil
		} else {
			a, errA := SumKeys(snap, keys)
			b, errB := SumKeys(to.disk.rows, keys)
			same = a == b && errA == nil && errB == nil
		}
		// As long as nothing of the log has come, a piece of the copy that is
		// newer than the snapshot may have.
		if !same && place != j.BasePosition {
			w.fatalf("the copy of job %d differs from its source", j.ID)
		}
		if w.drawFault(3) {
			same = false
		}
		d.sendAnswer(j, Verified{Round: x.Round, CopiedUpTo: place, Equal: same, ComparedRows: uint64(rows.Len())})
	})
}

// decideJob makes a decision where the records are. The driver's own record comes with it, if that
// was not stored: it takes the place of the one of revision rev.
func (d *testDriver) decideJob(j Job, rev uint64, x DecideJob) {
	w := d.world
	stored, ok := d.loadRecord(j.ID)
	if !ok {
		return
	}
	if rev != j.Rev {
		if stored.Rev != rev {
			d.reloadRecord(j.ID)
			return
		}
		w.counts.Add("decided with a record that was not stored", 1)
		stored.Job = j
	}
	next, m, effects, err := Decide(stored.Job, x, w.m, w.nowMS)
	if err != nil {
		d.sendFailure(j, x.Round, err)
		return
	}
	w.m = m // with the record, as one
	if !w.swapRecord(stored.storedRev, next) {
		panic("a decision is one step")
	}
	d.setRecord(knownJob{next, next.Rev}, effects)
}

func parseBatch(b *effect.Builder) effect.Batch {
	batch, err := effect.Parse(bytes.Clone(b.Bytes()))
	if err != nil {
		panic(err)
	}
	return batch
}
