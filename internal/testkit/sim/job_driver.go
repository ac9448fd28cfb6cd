package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// jobDriver drives jobs. It remembers records, and may be overtaken.
type jobDriver struct {
	w    *world
	jobs map[ownership.JobID]*knownJob
	// copiers remember what they have read of the log for each job.
	copiers map[ownership.JobID]*protocol.Copier
}

// knownJob is a record as a driver knows it.
type knownJob struct {
	record mover.Job
	// stored is the record in the catalog: job, or one from which that follows, see
	// mover.Passing.
	stored mover.Job
	// isStoring reports whether another record is on its way to the catalog. What happens
	// meanwhile is lost, and a Timeout makes up for it.
	isStoring bool
}

func newJobDriver(w *world) *jobDriver {
	return &jobDriver{w: w, jobs: map[ownership.JobID]*knownJob{}, copiers: map[ownership.JobID]*protocol.Copier{}}
}

func jobPhaseName(j *mover.Job) string {
	switch {
	case isComposite(j.Kind):
		return "job " + j.Phase.String()
	case j.Local:
		return "local " + j.Phase.String()
	}
	return "move " + j.Phase.String()
}

// notStoredSuffix is what the phase of a record that is not stored is called.
const notStoredSuffix = ", not stored"

// phaseName names the phase in which a driver believes a job to be.
func (d *jobDriver) phaseName(j *mover.Job) string {
	if h := d.jobs[j.ID]; h != nil && h.record.Rev == j.Rev && h.stored.Rev < j.Rev {
		return jobPhaseName(j) + notStoredSuffix
	}
	return jobPhaseName(j)
}

// isComposite reports whether a job is done by others.
func isComposite(k mover.Kind) bool { return k >= mover.PreSplit }

// pollJobs reads the records and goes on with all that have not ended, as after a
// crash or a while.
func (d *jobDriver) pollJobs() {
	w := d.w
	w.sendCommand(message{"surveying", true}, catalogGroup, func() command.Command { return catalogKeys.ListJobs() }, func(r command.Reply) {
		jobs, err := protocol.DecodeJobs(r)
		w.must(err, "the records of jobs")
		for _, j := range jobs {
			if j.Phase.IsFinal() {
				if _, open := w.openJobs[j.ID]; open { // the report of its end was lost
					w.trackJob(j)
				}
				delete(d.jobs, j.ID)
				d.deleteRecord(j.ID)
				continue
			}
			h := d.jobs[j.ID]
			if h == nil || h.stored.Rev < j.Rev || h.isStoring {
				h = &knownJob{record: j, stored: j}
				d.jobs[j.ID] = h
			}
			if h.stored.Paused && (w.isQuiescing || w.drawChance(300)) {
				if next, effects, err := mover.Unpause(h.stored, w.wallMS()); err == nil {
					d.storeRecord(h, next, effects)
				}
				continue
			}
			d.handleEvent(j.ID, mover.Timeout{})
		}
	})
}

// deleteRecord removes the record of a job that has ended, some time later.
func (d *jobDriver) deleteRecord(id ownership.JobID) {
	if c := d.copiers[id]; c != nil {
		c.Close()
		delete(d.copiers, id)
	}
	if w := d.w; w.drawChance(100) {
		w.sendCommand(message{"surveying", true}, catalogGroup, func() command.Command {
			return &command.Delete{Keys: []partition.Position{catalogKeys.JobKey(id)}}
		}, func(r command.Reply) { w.must(r.Err, "forget a job") })
	}
}

// handleEvent gives an event to a job.
func (d *jobDriver) handleEvent(id ownership.JobID, ev mover.Event) {
	h := d.jobs[id]
	if h == nil || h.isStoring {
		return
	}
	next, effects := mover.Step(h.record, ev, d.w.wallMS())
	switch {
	case next.Rev == h.record.Rev:
		for _, x := range effects {
			d.runEffect(h.record, x)
		}
	case d.w.cfg.SkipRecords && mover.CanStoreLater(&h.record, next.Phase):
		d.advanceUnstored(h, next, effects)
	default:
		d.storeRecord(h, next, effects)
	}
}

// advanceUnstored goes on with a record that is not stored.
func (d *jobDriver) advanceUnstored(h *knownJob, next mover.Job, effects []mover.Effect) {
	was := h.record.Phase
	h.record = next
	d.w.addCount("records not stored")
	if phase := d.phaseName(&next); was != next.Phase {
		d.w.scheduleAfter(0, func() { d.w.onPhaseEntered(phase) })
	}
	for _, x := range effects {
		d.runEffect(next, x)
	}
}

// storeRecord puts a record in the place of the one before, and does what it wants then.
func (d *jobDriver) storeRecord(h *knownJob, next mover.Job, effects []mover.Effect) {
	w := d.w
	h.isStoring = true
	rev := h.stored.Rev
	w.sendCommand(message{d.phaseName(&h.record), true}, catalogGroup, func() command.Command {
		return &reportedSwap{SwapJob: protocol.SwapJob{Catalog: catalogKeys, Rev: rev, Job: next}, w: w}
	}, func(r command.Reply) {
		if d.jobs[next.ID] != h || h.stored.Rev != rev {
			return
		}
		h.isStoring = false
		if r.Err != nil {
			w.addCount("drivers overtaken")
			delete(d.jobs, next.ID) // the next look finds the record that is there
			return
		}
		d.setRecord(h, next, effects)
	})
}

// setRecord goes on with a record that is stored.
func (d *jobDriver) setRecord(h *knownJob, next mover.Job, effects []mover.Effect) {
	h.record, h.stored = next, next
	for _, x := range effects {
		d.runEffect(next, x)
	}
}

// reportedSwap is a Swap that is reported to the world.
type reportedSwap struct {
	protocol.SwapJob
	w *world
}

// Eval swaps.
func (c *reportedSwap) Eval(e *command.Env) command.Reply {
	r := c.SwapJob.Eval(e)
	if r.Err == nil {
		c.w.storedJobs = append(c.w.storedJobs, c.Job)
	}
	return r
}

// trackJob keeps the phases of jobs.
func (w *world) trackJob(j mover.Job) {
	was, known := w.openJobs[j.ID]
	if known && was.IsDecided() && !j.IsDecided() {
		w.failf("job %d was decided, and is %v", j.ID, j.Phase)
	}
	if ended, undone := j.HasEnded(); ended {
		delete(w.openJobs, j.ID)
		w.addCount(map[bool]string{false: "jobs done", true: "jobs taken back"}[undone])
		if !undone {
			w.addCount(j.Kind.String() + "s done")
			if j.Kind == mover.Move && !j.Local {
				w.addCount("moves between stores done")
			}
		}
		return
	}
	w.openJobs[j.ID] = j
	if was.Phase != j.Phase || !known {
		phase := jobPhaseName(&j)
		w.scheduleAfter(0, func() { w.onPhaseEntered(phase) })
	}
}

// sendEvent sends an event back to the driver.
func (d *jobDriver) sendEvent(j mover.Job, ev mover.Event) {
	if f, ok := ev.(mover.Failed); ok && (isGroupNotOpen(f.Err) || errors.Is(f.Err, group.ErrUnknown) || errors.Is(f.Err, group.ErrFailed)) {
		return // there is no process to report it
	}
	life := d.w.life
	d.w.sendMessage(message{d.phaseName(&j), true}, func() {
		if d.w.life == life {
			d.handleEvent(j.ID, ev)
		}
	})
}

// runEffect sends an effect on its way.
func (d *jobDriver) runEffect(j mover.Job, x mover.Effect) {
	w := d.w
	l := message{d.phaseName(&j), true}
	switch x := x.(type) {
	case mover.ReadOwnership:
		w.sendMessage(l, func() { d.sendEvent(j, protocol.ReadOwnership(w.findHost, x)) })
	case mover.EvalCommands:
		d.evalCommands(j, x)
	case mover.Locate:
		carrier := d.findCopier(j.ID)
		w.sendMessage(l, func() { d.sendEvent(j, carrier.Locate(w.findHost, x, j.Span)) })
	case mover.Copy:
		x.LimitBytes = 100 + w.rng.IntN(400)
		d.copyRows(j, x, x.NotBeforeMS, x.Round)
	case mover.CatchUp:
		x.LimitBytes = 100 + w.rng.IntN(4000)
		d.copyRows(j, x, x.NotBeforeMS, x.Round)
	case mover.Verify:
		d.copyRows(j, x, 0, x.Round)
	case mover.DecideJob:
		d.runDecision(j, x)
	case mover.PublishMap:
		w.sendCommand(l, catalogGroup, func() command.Command { return &command.Get{Key: catalogKeys.MapKey()} }, func(r command.Reply) {
			w.updateRouter(w.decodeMap(r))
			d.handleEvent(j.ID, mover.Acknowledged{Round: x.Round})
		})
	case mover.OpenGroups:
		w.sendMessage(l, func() { d.openGroups(j, x) })
	case mover.SurveyCluster:
		d.surveyCluster(j, x)
	case mover.StartJob:
		w.admitJob(l, x.Request, "jobs of jobs")
	case mover.CancelJob:
		d.cancelJob(x.Job)
	case mover.CheckNoDecisions:
		w.sendMessage(l, func() { d.checkNoDecisions(j, x) })
	default:
		w.failf("nobody knows how to %T", x)
	}
}

// scheduleAtMS lets something wait for a time of the machine's clock.
func (w *world) scheduleAtMS(ms int64, do func()) {
	w.scheduleAfter((ms-w.wallMS())*millisecond, do)
}

func (d *jobDriver) evalCommands(j mover.Job, x mover.EvalCommands) {
	w := d.w
	limit := 1 + w.rng.IntN(8)
	w.scheduleAtMS(x.NotBeforeMS, func() {
		w.sendMessage(message{d.phaseName(&j), true}, func() {
			again := x
			again.Commands = slices.Clone(x.Commands)
			for i, p := range again.Commands {
				again.Commands[i].Command = cloneCommand(p.Command, limit)
			}
			from, err := protocol.HandoverSource(w.findHost, &j, w.findStoreNumber)
			if err != nil {
				return // there is no process to report it
			}
			d.sendEvent(j, protocol.EvalHandover(ctx, w.findHost, again, from))
		})
	})
}

// cloneCommand copies a command, which each evaluation binds to its own group.
func cloneCommand(c mover.SiteCommand, limit int) mover.SiteCommand {
	switch c := c.(type) {
	case *ownership.ChangeOwnership:
		again := *c
		return &again
	case *mover.ChangeDestination:
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

// findCopier is what reads for a job.
func (d *jobDriver) findCopier(id ownership.JobID) *protocol.Copier {
	if d.copiers[id] == nil {
		d.copiers[id] = new(protocol.Copier)
	}
	return d.copiers[id]
}

// copyRows brings rows from one store to another: what was read on one side may come
// to the other late, or twice.
func (d *jobDriver) copyRows(j mover.Job, x mover.Effect, notBeforeMS int64, round uint64) {
	w := d.w
	l := message{d.phaseName(&j), true}
	carrier := d.findCopier(j.ID)
	w.scheduleAtMS(notBeforeMS, func() {
		w.sendMessage(l, func() {
			load, err := carrier.ReadChunk(w.findHost, x)
			if err != nil {
				d.sendEvent(j, mover.Failed{Round: round, Err: err})
				return
			}
			w.sendMessage(l, func() {
				ev := load.Apply(ctx, w.findHost)
				if c, ok := ev.(mover.CaughtUp); ok {
					c.TookMS = w.rng.Int64N(mover.FreezeLimitMS)
					ev = c
				}
				if v, ok := ev.(mover.Verified); ok && !v.Equal {
					w.addCount("copies that differed")
				}
				d.sendEvent(j, ev)
			})
		})
	})
}

// runDecision makes the decision where the records are, with the record that asks for it
// if that is not stored.
func (d *jobDriver) runDecision(j mover.Job, x mover.DecideJob) {
	w := d.w
	life := w.life
	l := message{d.phaseName(&j), true}
	var before group.Steps
	if h := d.jobs[j.ID]; h != nil && h.stored.Rev < j.Rev {
		before = group.Steps{&protocol.SwapJob{Catalog: catalogKeys, Rev: h.stored.Rev, Job: j}}
	}
	w.sendMessage(l, func() {
		c := &protocol.DecideJob{Catalog: catalogKeys, ID: j.ID, Choose: x, NowMS: w.wallMS()}
		var whole command.Command = c
		if before != nil {
			whole = append(slices.Clip(before), c)
		}
		reply, ok := w.tryRequest(catalogGroup, newRequest(whole))
		if !ok {
			return
		}
		if reply.Err == nil {
			// One that is done by others may find nothing to change.
			if v := c.Map.Version(); v != w.newestVersion || !isComposite(c.Job.Kind) {
				w.checkMapVersion(v, fmt.Sprintf("job %d", j.ID))
			}
			w.trackJob(c.Job)
			w.closeRemovedGroups(c.Map)
		}
		w.sendMessage(l, func() {
			h := d.jobs[j.ID]
			if w.life != life || h == nil || h.isStoring {
				return
			}
			if errors.Is(reply.Err, mover.ErrNotDeciding) || errors.Is(reply.Err, protocol.ErrStaleRecord) {
				w.addCount("drivers overtaken")
				delete(d.jobs, j.ID) // the next look finds the record that is there
			} else if reply.Err != nil {
				d.handleEvent(j.ID, mover.Failed{Round: x.Round, Err: reply.Err})
			} else if h.stored.Rev < c.Job.Rev {
				d.setRecord(h, c.Job, c.Effects)
			}
		})
	})
}

// checkMapVersion is called with each version of the map.
func (w *world) checkMapVersion(v partition.Version, by string) {
	if v <= w.newestVersion {
		w.failf("%s made version %d of the map after %d", by, v, w.newestVersion)
	}
	w.newestVersion = v
}

// listOpenJobs orders jobs for what must not depend on a map.
func (w *world) listOpenJobs() []mover.Job {
	var jobs []mover.Job
	for _, j := range w.openJobs {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b mover.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}
