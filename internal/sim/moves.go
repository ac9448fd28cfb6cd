package sim

import (
	"cmp"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// driver is somebody who drives jobs. It remembers records, and may be overtaken.
type driver struct {
	w    *world
	jobs map[own.Job]*held
}

// held is a record as a driver knows it.
type held struct {
	job mover.Job
	// busy tells that another record is on its way to the catalog. What happens
	// meanwhile is lost, and a Timeout makes up for it.
	busy bool
}

func newDriver(w *world) *driver { return &driver{w: w, jobs: map[own.Job]*held{}} }

func phaseOf(j *mover.Job) string {
	if j.Local {
		return "local " + j.Phase.String()
	}
	return "move " + j.Phase.String()
}

// look reads the records and goes on with all that have not ended, as after a
// crash or a while.
func (d *driver) look() {
	w := d.w
	w.ask(letter{"surveying", true}, catalogGroup, func() command.Command { return meta.Jobs() }, func(r command.Reply) {
		jobs, err := drive.Records(r)
		w.must(err, "the records of jobs")
		for _, j := range jobs {
			if j.Phase.Final() {
				delete(d.jobs, j.ID)
				continue
			}
			h := d.jobs[j.ID]
			if h == nil || h.job.Rev < j.Rev || h.busy {
				h = &held{job: j}
				d.jobs[j.ID] = h
			}
			if h.job.Paused && (w.healing || w.chance(300)) {
				if next, effects, err := mover.Unpause(h.job, w.wallMS()); err == nil {
					d.store(h, next, effects)
				}
				continue
			}
			d.handle(j.ID, mover.Timeout{})
		}
	})
}

// handle gives an event to a job.
func (d *driver) handle(id own.Job, ev mover.Event) {
	h := d.jobs[id]
	if h == nil || h.busy {
		return
	}
	next, effects := mover.Step(h.job, ev, d.w.wallMS())
	if next.Rev == h.job.Rev {
		for _, x := range effects {
			d.execute(h.job, x)
		}
		return
	}
	d.store(h, next, effects)
}

// store puts a record in the place of the one before, and does what it wants then.
func (d *driver) store(h *held, next mover.Job, effects []mover.Effect) {
	w := d.w
	h.busy = true
	rev := h.job.Rev
	w.ask(letter{phaseOf(&h.job), true}, catalogGroup, func() command.Command {
		return &stored{Swap: drive.Swap{Catalog: meta, Rev: rev, Job: next}, w: w}
	}, func(r command.Reply) {
		if d.jobs[next.ID] != h || h.job.Rev != rev {
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
	h.job = next
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
	if f, ok := ev.(mover.Failed); ok && away(f.Err) {
		return // nobody is there to say so
	}
	life := d.w.life
	d.w.send(letter{phaseOf(&j), true}, func() {
		if d.w.life == life {
			d.handle(j.ID, ev)
		}
	})
}

// execute sends an effect on its way.
func (d *driver) execute(j mover.Job, x mover.Effect) {
	w := d.w
	l := letter{phaseOf(&j), true}
	switch x := x.(type) {
	case mover.Look:
		w.send(l, func() { d.answer(j, drive.Look(w.find, x)) })
	case mover.Evaluate:
		d.evaluate(j, x)
	case mover.Locate:
		w.send(l, func() { d.answer(j, drive.Locate(w.find, x)) })
	case mover.Copy:
		x.LimitBytes = 100 + w.rng.IntN(400)
		d.carry(j, x, x.NotBeforeMS, x.Round)
	case mover.CatchUp:
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
		w.send(letter{phaseOf(&j), true}, func() {
			again := x
			again.Parts = slices.Clone(x.Parts)
			for i, p := range again.Parts {
				again.Parts[i].Command = fresh(p.Command, limit)
			}
			d.answer(j, drive.Evaluate(ctx, w.find, again))
		})
	})
}

// fresh copies a command, which each evaluation binds to its own group.
func fresh(c mover.Bound, limit int) mover.Bound {
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

// carry brings rows from one store to another: what was read on one side may come
// to the other late, or twice.
func (d *driver) carry(j mover.Job, x mover.Effect, notBeforeMS int64, round uint64) {
	w := d.w
	l := letter{phaseOf(&j), true}
	w.notBefore(notBeforeMS, func() {
		w.send(l, func() {
			load, err := drive.Read(w.find, x)
			if err != nil {
				d.answer(j, mover.Failed{Round: round, Err: err})
				return
			}
			w.send(l, func() {
				ev := load.Bring(ctx, w.find)
				if v, ok := ev.(mover.Verified); ok && !v.Equal {
					w.count("copies that differed")
				}
				d.answer(j, ev)
			})
		})
	})
}

// choose makes the decision where the records are.
func (d *driver) choose(j mover.Job, x mover.Choose) {
	w := d.w
	life := w.life
	l := letter{phaseOf(&j), true}
	w.send(l, func() {
		c := &drive.Choose{Catalog: meta, ID: j.ID, Choose: x, NowMS: w.wallMS()}
		reply, ok := w.do(catalogGroup, requestOf(c))
		if !ok {
			return
		}
		if reply.Err == nil {
			if v := partition.Version(reply.Int); v <= w.newest {
				w.failf("job %d made version %d of the map after %d", j.ID, v, w.newest)
			}
			w.newest = partition.Version(reply.Int)
			w.follow(c.Job)
		}
		w.send(l, func() {
			h := d.jobs[j.ID]
			if w.life != life || h == nil || h.busy {
				return
			}
			if reply.Err != nil {
				d.handle(j.ID, mover.Failed{Round: x.Round, Err: reply.Err})
			} else if h.job.Rev < c.Job.Rev {
				d.take(h, c.Job, c.Effects)
			}
		})
	})
}

// operate asks for a job, or interferes with one.
func (w *world) operate() {
	if w.healing {
		return
	}
	if len(w.phases) > 0 && w.chance(w.cancelRate()) {
		w.interfere()
	}
	if len(w.phases) >= 4 {
		return
	}
	r, ok := w.wish()
	if !ok {
		return
	}
	w.ask(letter{"admitting", false}, catalogGroup, func() command.Command {
		return &admitted{Admit: drive.Admit{Catalog: meta, Request: r, Home: func(g partition.GroupID) uint64 { return uint64(w.homes[g]) }, NowMS: w.wallMS()}, w: w}
	}, func(r command.Reply) {
		if r.Err != nil {
			w.count("jobs refused")
			w.refresh()
			return
		}
		w.count("jobs admitted")
		w.drivers[0].look()
	})
}

// admitted is an Admit of which the world hears.
type admitted struct {
	drive.Admit
	w *world
}

// Eval admits.
func (c *admitted) Eval(e *command.Env) command.Reply {
	r := c.Admit.Eval(e)
	if r.Err == nil {
		c.w.news = append(c.w.news, c.Job)
	}
	return r
}

// interfere cancels or pauses a job.
func (w *world) interfere() {
	var ids []own.Job
	for id := range w.phases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	d := pick(w, w.drivers)
	h := d.jobs[pick(w, ids)]
	if h == nil || h.busy {
		return
	}
	if w.chance(300) {
		if next, err := mover.Pause(h.job, w.wallMS()); err == nil && next.Rev != h.job.Rev {
			d.store(h, next, nil)
		}
		return
	}
	if next, effects, err := mover.Cancel(h.job, w.wallMS()); err == nil && next.Rev != h.job.Rev {
		w.count("jobs cancelled")
		d.store(h, next, effects)
	}
}

// wish is a change of the map at random, biased to where keys are.
func (w *world) wish() (r mover.Request, ok bool) {
	m := w.router
	var shards []partition.Shard
	for s := range m.Shards(space.Span()) {
		if s.ID != m.Find(system.Span().Start).ID { // the catalog stays
			shards = append(shards, s)
		}
	}
	i := w.rng.IntN(len(shards))
	s := shards[i]
	switch n := w.rng.IntN(10); {
	case n < 3 && len(shards) < 14:
		whats := []string{"reg", "list", "bank", "cnt", "scan", "cab"}
		p := at(key(pick(w, letters), pick(w, whats), w.rng.IntN(3)))
		s = m.Find(p)
		if !slices.ContainsFunc(shards, func(x partition.Shard) bool { return x.ID == s.ID }) {
			return r, false
		}
		return mover.Request{Kind: mover.Split, Shard: s.ID, Expect: s.Changed, In: &space, At: []partition.Position{p}}, true
	case n < 5 && i+1 < len(shards) && shards[i+1].Group == s.Group:
		return mover.Request{Kind: mover.Merge, Shard: s.ID, Right: shards[i+1].ID, Expect: s.Changed, ExpectRight: shards[i+1].Changed}, true
	}
	to := pick(w, w.groups)
	return mover.Request{Kind: mover.Move, Shard: s.ID, Expect: s.Changed, To: to}, to != s.Group
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
