package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// driver is somebody who drives jobs. It remembers records, and may be overtaken.
type driver struct {
	w    *world
	jobs map[own.Job]*held
	// carriers remember what they have read of the log for each job.
	carriers map[own.Job]*drive.Carrier
}

// held is a record as a driver knows it.
type held struct {
	job mover.Job
	// stored is the record in the catalog: job, or one from which that follows, see
	// mover.Passing.
	stored mover.Job
	// busy tells that another record is on its way to the catalog. What happens
	// meanwhile is lost, and a Timeout makes up for it.
	busy bool
}

func newDriver(w *world) *driver {
	return &driver{w: w, jobs: map[own.Job]*held{}, carriers: map[own.Job]*drive.Carrier{}}
}

func phaseOf(j *mover.Job) string {
	switch {
	case composite(j.Kind):
		return "job " + j.Phase.String()
	case j.Local:
		return "local " + j.Phase.String()
	}
	return "move " + j.Phase.String()
}

// passing is what the phase of a record that is not stored is called.
const passing = ", not stored"

// phase names the phase in which a driver believes a job to be.
func (d *driver) phase(j *mover.Job) string {
	if h := d.jobs[j.ID]; h != nil && h.job.Rev == j.Rev && h.stored.Rev < j.Rev {
		return phaseOf(j) + passing
	}
	return phaseOf(j)
}

// composite tells whether a job is done by others.
func composite(k mover.Kind) bool { return k >= mover.PreSplit }

// look reads the records and goes on with all that have not ended, as after a
// crash or a while.
func (d *driver) look() {
	w := d.w
	w.ask(letter{"surveying", true}, catalogGroup, func() command.Command { return meta.Jobs() }, func(r command.Reply) {
		jobs, err := drive.Records(r)
		w.must(err, "the records of jobs")
		for _, j := range jobs {
			if j.Phase.Final() {
				if _, open := w.phases[j.ID]; open { // nobody heard of its end
					w.follow(j)
				}
				delete(d.jobs, j.ID)
				d.forget(j.ID)
				continue
			}
			h := d.jobs[j.ID]
			if h == nil || h.stored.Rev < j.Rev || h.busy {
				h = &held{job: j, stored: j}
				d.jobs[j.ID] = h
			}
			if h.stored.Paused && (w.healing || w.chance(300)) {
				if next, effects, err := mover.Unpause(h.stored, w.wallMS()); err == nil {
					d.store(h, next, effects)
				}
				continue
			}
			d.handle(j.ID, mover.Timeout{})
		}
	})
}

// forget removes the record of a job that has ended, some time later.
func (d *driver) forget(id own.Job) {
	if c := d.carriers[id]; c != nil {
		c.Close()
		delete(d.carriers, id)
	}
	if w := d.w; w.chance(100) {
		w.ask(letter{"surveying", true}, catalogGroup, func() command.Command {
			return &command.Delete{Keys: []partition.Position{meta.Job(id)}}
		}, func(r command.Reply) { w.must(r.Err, "forget a job") })
	}
}

// handle gives an event to a job.
func (d *driver) handle(id own.Job, ev mover.Event) {
	h := d.jobs[id]
	if h == nil || h.busy {
		return
	}
	next, effects := mover.Step(h.job, ev, d.w.wallMS())
	switch {
	case next.Rev == h.job.Rev:
		for _, x := range effects {
			d.execute(h.job, x)
		}
	case d.w.cfg.Passing && mover.Passing(&h.job, next.Phase):
		d.pass(h, next, effects)
	default:
		d.store(h, next, effects)
	}
}

// pass goes on with a record that is not stored.
func (d *driver) pass(h *held, next mover.Job, effects []mover.Effect) {
	was := h.job.Phase
	h.job = next
	d.w.count("records not stored")
	if phase := d.phase(&next); was != next.Phase {
		d.w.after(0, func() { d.w.entered(phase) })
	}
	for _, x := range effects {
		d.execute(next, x)
	}
}

// store puts a record in the place of the one before, and does what it wants then.
func (d *driver) store(h *held, next mover.Job, effects []mover.Effect) {
	w := d.w
	h.busy = true
	rev := h.stored.Rev
	w.ask(letter{d.phase(&h.job), true}, catalogGroup, func() command.Command {
		return &stored{Swap: drive.Swap{Catalog: meta, Rev: rev, Job: next}, w: w}
	}, func(r command.Reply) {
		if d.jobs[next.ID] != h || h.stored.Rev != rev {
			return
		}
		h.busy = false
		if r.Err != nil {
			w.count("drivers overtaken")
			delete(d.jobs, next.ID) // the next look finds the record that is there
			return
		}
		d.take(h, next, effects)
	})
}

// take goes on with a record that is stored.
func (d *driver) take(h *held, next mover.Job, effects []mover.Effect) {
	h.job, h.stored = next, next
	for _, x := range effects {
		d.execute(next, x)
	}
}

// stored is a Swap of which the world hears.
type stored struct {
	drive.Swap
	w *world
}

// Eval swaps.
func (c *stored) Eval(e *command.Env) command.Reply {
	r := c.Swap.Eval(e)
	if r.Err == nil {
		c.w.news = append(c.w.news, c.Job)
	}
	return r
}

// follow keeps the phases of jobs.
func (w *world) follow(j mover.Job) {
	was, known := w.phases[j.ID]
	if known && was.Decided() && !j.Decided() {
		w.failf("job %d was decided, and is %v", j.ID, j.Phase)
	}
	if ended, undone := j.Ended(); ended {
		delete(w.phases, j.ID)
		w.count(map[bool]string{false: "jobs done", true: "jobs taken back"}[undone])
		if !undone {
			w.count(j.Kind.String() + "s done")
			if j.Kind == mover.Move && !j.Local {
				w.count("moves between stores done")
			}
		}
		return
	}
	w.phases[j.ID] = j
	if was.Phase != j.Phase || !known {
		phase := phaseOf(&j)
		w.after(0, func() { w.entered(phase) })
	}
}

// answer sends an event back to the driver.
func (d *driver) answer(j mover.Job, ev mover.Event) {
	if f, ok := ev.(mover.Failed); ok && (away(f.Err) || errors.Is(f.Err, group.ErrUnknown) || errors.Is(f.Err, group.ErrFailed)) {
		return // nobody is there to say so
	}
	life := d.w.life
	d.w.send(letter{d.phase(&j), true}, func() {
		if d.w.life == life {
			d.handle(j.ID, ev)
		}
	})
}

// execute sends an effect on its way.
func (d *driver) execute(j mover.Job, x mover.Effect) {
	w := d.w
	l := letter{d.phase(&j), true}
	switch x := x.(type) {
	case mover.Look:
		w.send(l, func() { d.answer(j, drive.Look(w.find, x)) })
	case mover.Evaluate:
		d.evaluate(j, x)
	case mover.Locate:
		carrier := d.carrier(j.ID)
		w.send(l, func() { d.answer(j, carrier.Locate(w.find, x, j.Span)) })
	case mover.Copy:
		x.LimitBytes = 100 + w.rng.IntN(400)
		d.carry(j, x, x.NotBeforeMS, x.Round)
	case mover.CatchUp:
		x.LimitBytes = 100 + w.rng.IntN(4000)
		d.carry(j, x, x.NotBeforeMS, x.Round)
	case mover.Verify:
		d.carry(j, x, 0, x.Round)
	case mover.Choose:
		d.choose(j, x)
	case mover.Publish:
		w.ask(l, catalogGroup, func() command.Command { return &command.Get{Key: meta.Map()} }, func(r command.Reply) {
			w.learn(w.decode(r))
			d.handle(j.ID, mover.Published{Round: x.Round})
		})
	case mover.Host:
		w.send(l, func() { d.host(j, x) })
	case mover.Survey:
		d.survey(j, x)
	case mover.Spawn:
		w.admit(l, x.Request)
	case mover.Stop:
		d.stop(x.Job)
	case mover.Retire:
		w.send(l, func() { d.retire(j, x) })
	default:
		w.failf("nobody knows how to %T", x)
	}
}

// notBefore lets something wait for a time of the machine's clock.
func (w *world) notBefore(ms int64, do func()) {
	w.after((ms-w.wallMS())*millisecond, do)
}

func (d *driver) evaluate(j mover.Job, x mover.Evaluate) {
	w := d.w
	limit := 1 + w.rng.IntN(8)
	w.notBefore(x.NotBeforeMS, func() {
		w.send(letter{d.phase(&j), true}, func() {
			again := x
			again.Parts = slices.Clone(x.Parts)
			for i, p := range again.Parts {
				again.Parts[i].Command = anew(p.Command, limit)
			}
			from, err := drive.HandedFrom(w.find, &j, w.numberOf)
			if err != nil {
				return // nobody is there to say so
			}
			d.answer(j, drive.EvaluateHanded(ctx, w.find, again, from))
		})
	})
}

// anew copies a command, which each evaluation binds to its own group.
func anew(c mover.Bound, limit int) mover.Bound {
	switch c := c.(type) {
	case *own.Reown:
		again := *c
		return &again
	case *mover.Settle:
		again := *c
		return &again
	case *mover.Thaw:
		again := *c
		return &again
	case *mover.Clear:
		again := *c
		again.Limit = limit
		return &again
	}
	return c
}

// carrier is what reads for a job.
func (d *driver) carrier(id own.Job) *drive.Carrier {
	if d.carriers[id] == nil {
		d.carriers[id] = new(drive.Carrier)
	}
	return d.carriers[id]
}

// carry brings rows from one store to another: what was read on one side may come
// to the other late, or twice.
func (d *driver) carry(j mover.Job, x mover.Effect, notBeforeMS int64, round uint64) {
	w := d.w
	l := letter{d.phase(&j), true}
	carrier := d.carrier(j.ID)
	w.notBefore(notBeforeMS, func() {
		w.send(l, func() {
			load, err := carrier.Read(w.find, x)
			if err != nil {
				d.answer(j, mover.Failed{Round: round, Err: err})
				return
			}
			w.send(l, func() {
				ev := load.Bring(ctx, w.find)
				if c, ok := ev.(mover.CaughtUp); ok {
					c.TookMS = w.rng.Int64N(mover.FreezeLimitMS)
					ev = c
				}
				if v, ok := ev.(mover.Verified); ok && !v.Equal {
					w.count("copies that differed")
				}
				d.answer(j, ev)
			})
		})
	})
}

// choose makes the decision where the records are, with the record that asks for it
// if that is not stored.
func (d *driver) choose(j mover.Job, x mover.Choose) {
	w := d.w
	life := w.life
	l := letter{d.phase(&j), true}
	var before group.Steps
	if h := d.jobs[j.ID]; h != nil && h.stored.Rev < j.Rev {
		before = group.Steps{&drive.Swap{Catalog: meta, Rev: h.stored.Rev, Job: j}}
	}
	w.send(l, func() {
		c := &drive.Choose{Catalog: meta, ID: j.ID, Choose: x, NowMS: w.wallMS()}
		var whole command.Command = c
		if before != nil {
			whole = append(slices.Clip(before), c)
		}
		reply, ok := w.do(catalogGroup, requestOf(whole))
		if !ok {
			return
		}
		if reply.Err == nil {
			// One that is done by others may find nothing to change.
			if v := c.Map.Version(); v != w.newest || !composite(c.Job.Kind) {
				w.made(v, fmt.Sprintf("job %d", j.ID))
			}
			w.follow(c.Job)
			w.removeGroups(c.Map)
		}
		w.send(l, func() {
			h := d.jobs[j.ID]
			if w.life != life || h == nil || h.busy {
				return
			}
			if errors.Is(reply.Err, mover.ErrNotDeciding) || errors.Is(reply.Err, drive.ErrOvertaken) {
				w.count("drivers overtaken")
				delete(d.jobs, j.ID) // the next look finds the record that is there
			} else if reply.Err != nil {
				d.handle(j.ID, mover.Failed{Round: x.Round, Err: reply.Err})
			} else if h.stored.Rev < c.Job.Rev {
				d.take(h, c.Job, c.Effects)
			}
		})
	})
}

// made is told of each version of the map.
func (w *world) made(v partition.Version, by string) {
	if v <= w.newest {
		w.failf("%s made version %d of the map after %d", by, v, w.newest)
	}
	w.newest = v
}

// byPhase orders jobs for what must not depend on a map.
func (w *world) byPhase() []mover.Job {
	var jobs []mover.Job
	for _, j := range w.phases {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b mover.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}
