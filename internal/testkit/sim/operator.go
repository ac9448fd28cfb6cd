package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// runOperator asks for a job, or interferes with one.
func (w *world) runOperator() {
	if w.isQuiescing {
		return
	}
	if len(w.openJobs) > 0 && w.drawChance(w.cancelPerMille()) {
		w.controlJob()
	}
	if len(w.openJobs) >= 6 {
		return
	}
	if r, ok := w.drawJob(); ok {
		w.admitJob(message{"admitting", false}, r, "jobs")
	}
}

// admitJob asks the catalog for a job, and counts it under a name.
func (w *world) admitJob(l message, r mover.Request, name string) {
	home := func(g partition.GroupID) uint64 { return uint64(w.homeDisk(g).number) }
	w.sendCommand(l, catalogGroup, func() command.Command {
		return &reportedAdmit{AdmitJob: protocol.AdmitJob{Catalog: catalogKeys, Request: r, Home: home, NowMS: w.wallMS()}, w: w}
	}, func(r command.Reply) {
		if r.Err != nil {
			w.addCount(name + " refused")
			w.refreshMap()
			return
		}
		w.addCount(name + " admitted")
		w.jobDrivers[0].pollJobs()
	})
}

// reportedAdmit is an Admit that is reported to the world.
type reportedAdmit struct {
	protocol.AdmitJob
	w *world
}

// Eval admits.
func (c *reportedAdmit) Eval(e *command.Env) command.Reply {
	r := c.AdmitJob.Eval(e)
	if r.Err == nil {
		c.w.storedJobs = append(c.w.storedJobs, c.Job)
	}
	return r
}

// controlJob cancels, pauses or throttles a job, as it is stored.
func (w *world) controlJob() {
	d := pickOne(w, w.jobDrivers)
	h := d.jobs[pickOne(w, w.listOpenJobs()).ID]
	if h == nil || h.isStoring {
		return
	}
	next, effects, err := h.stored, []mover.Effect(nil), error(nil)
	what := ""
	switch n := w.rng.IntN(10); {
	case n < 2:
		what = "jobs paused"
		next, err = mover.Pause(h.stored, w.wallMS())
	case n < 4:
		what = "jobs throttled"
		next, err = mover.SetThrottle(h.stored, pickOne(w, []uint64{0, 64 << 10, 1 << 20}), w.wallMS())
	default:
		what = "jobs cancelled"
		next, effects, err = mover.Cancel(h.stored, w.wallMS())
	}
	if err == nil && next.Rev != h.stored.Rev {
		w.addCount(what)
		d.storeRecord(h, next, effects)
	}
}

// keyKinds are what keys of a letter are for.
var keyKinds = []string{"reg", "list", "bank", "cnt", "scan", "cab", "hash", "hcnt", "lease", "fence", "ros", "size"}

// drawJob is a change of the map at random, biased to where keys are.
func (w *world) drawJob() (r mover.Request, ok bool) {
	m := w.router
	var shards []partition.Shard
	for s := range m.Shards(dataKeyspace.Span()) {
		if s.ID != m.Find(systemKeyspace.Span().Start).ID { // the catalog stays
			shards = append(shards, s)
		}
	}
	if w.drawChance(w.compositePerMille()) {
		return w.drawCompositeJob(m)
	}
	i := w.rng.IntN(len(shards))
	p := positionOf(makeKey(pickOne(w, letters), pickOne(w, keyKinds), w.rng.IntN(3)))
	if w.cfg.Workload == "rounds" && w.drawChance(700) { // where visitors are
		p = positionOf(visitorKey(w.rng.IntN(maxVisitors)))
		i = max(slices.IndexFunc(shards, func(x partition.Shard) bool { return x.ID == m.Find(p).ID }), 0)
	}
	s := shards[i]
	switch n := w.rng.IntN(10); {
	case n < 3 && len(shards) < 14:
		s = m.Find(p)
		if !slices.ContainsFunc(shards, func(x partition.Shard) bool { return x.ID == s.ID }) {
			return r, false
		}
		return mover.Request{Kind: mover.Split, Shard: s.ID, Expect: s.Changed, In: &dataKeyspace, At: []partition.Position{p}}, true
	case n < 5 && i+1 < len(shards) && shards[i+1].Group == s.Group:
		return mover.Request{Kind: mover.Merge, Shard: s.ID, Right: shards[i+1].ID, Expect: s.Changed, ExpectRight: shards[i+1].Changed}, true
	}
	to := pickOne(w, w.groups)
	return mover.Request{Kind: mover.Move, Shard: s.ID, Expect: s.Changed, To: to}, to != s.Group
}

// maxExtraGroups is how many groups there are at most beyond those of the first map.
const maxExtraGroups = 2

// drawCompositeJob asks for a job that is done by others: boundaries in several shards,
// a group without shards, or another number of groups.
func (w *world) drawCompositeJob(m *partition.Map) (r mover.Request, ok bool) {
	groups := m.Groups()
	first := w.cfg.Stores * w.cfg.Groups
	kind := w.rng.IntN(4)
	switch w.pickJobPhase() {
	case "hosting":
		kind = 3
	case "retiring", "removing":
		kind = 2
	case "unmarking", "marking":
		kind = 1
	}
	switch kind {
	case 0:
		var at []partition.Position
		for _, l := range w.pickLetters(3) {
			at = append(at, dataKeyspace.PrefixSpan([]byte(l+"/"+pickOne(w, keyKinds))).Start)
		}
		return mover.Request{Kind: mover.PreSplit, In: &dataKeyspace, At: at}, m.Len() < 16
	case 1:
		g := pickOne(w, groups)
		if g.Draining { // refused while a job still drains it
			return mover.Request{Kind: mover.Undrain, Group: g.ID}, true
		}
		return mover.Request{Kind: mover.Drain, Group: g.ID, Parallel: 1 + w.rng.IntN(3)}, g.ID != catalogGroup
	case 2:
		return mover.Request{Kind: mover.Regroup, Groups: len(groups) - 1, Parallel: 1 + w.rng.IntN(3)}, len(groups) > 2
	}
	return mover.Request{
		Kind: mover.Regroup, Groups: len(groups) + 1, Labels: make([]partition.Labels, 1), Parallel: 1 + w.rng.IntN(3),
	}, len(groups) < first+maxExtraGroups
}

// openGroups opens groups that the map has got, as far as they are not removed again by
// the time the message comes.
func (d *jobDriver) openGroups(j mover.Job, x mover.OpenGroups) {
	w := d.w
	for _, id := range x.Groups {
		at := w.homeDisk(id)
		if at.store == nil {
			return // there is no process to answer
		}
		if _, open := at.hosts[id]; open || w.removed[id] {
			continue
		}
		if !at.openGroup(id) {
			return
		}
		at.groups = append(at.groups, id)
		w.groups = append(w.groups, id)
		slices.Sort(w.groups)
		w.scheduleEvery(100*millisecond, func() { w.housekeep(id) })
		w.addCount("groups added")
	}
	d.sendEvent(j, mover.Acknowledged{Round: x.Round})
}

// surveyCluster looks at the map and all jobs.
func (d *jobDriver) surveyCluster(j mover.Job, x mover.SurveyCluster) {
	w := d.w
	w.sendCommand(message{d.phaseName(&j), true}, catalogGroup, func() command.Command { return surveyCommand{} }, func(r command.Reply) {
		jobs, err := protocol.DecodeJobs(r)
		w.must(err, "the records of jobs")
		m, err := partition.Decode(r.Bytes)
		w.must(err, "the map in the catalog")
		home := func(g partition.GroupID) uint64 { return uint64(w.homeDisk(g).number) }
		d.handleEvent(j.ID, mover.Surveyed{Round: x.Round, View: mover.ClusterState{Map: m, Jobs: jobs, HomeStore: home, IsFixed: catalogKeys.IsFixed}})
	})
}

// surveyCommand reads the map and all jobs.
type surveyCommand struct{}

// Eval reads.
func (surveyCommand) Eval(e *command.Env) command.Reply {
	jobs, m := e.Do(catalogKeys.ListJobs()), e.Do(&command.Get{Key: catalogKeys.MapKey()})
	if m.Err != nil {
		return m
	}
	jobs.Bytes = m.Bytes
	return jobs
}

// cancelJob cancels a job for another, if this driver knows it.
func (d *jobDriver) cancelJob(id ownership.JobID) {
	h := d.jobs[id]
	if h == nil || h.isStoring {
		return
	}
	if next, effects, err := mover.Cancel(h.stored, d.w.wallMS()); err == nil && next.Rev != h.stored.Rev {
		d.w.addCount("jobs stopped by others")
		d.storeRecord(h, next, effects)
	}
}

// checkNoDecisions looks whether groups keep decisions.
func (d *jobDriver) checkNoDecisions(j mover.Job, x mover.CheckNoDecisions) {
	for _, id := range x.Groups {
		p, err := d.w.findHost(id)
		if err != nil {
			return
		}
		if d.w.countDecisions(p, id) > 0 {
			d.w.addCount("groups that could not be removed yet")
			d.sendEvent(j, mover.Failed{Round: x.Round, Err: mover.ErrKeepsDecisions})
			return
		}
	}
	d.sendEvent(j, mover.Acknowledged{Round: x.Round})
}

// countDecisions counts what a group has decided and keeps.
func (w *world) countDecisions(p protocol.GroupHost, id partition.GroupID) (n int) {
	w.must(txn.ScanDecisions(p.Store, id, func(txn.Decision) bool { n++; return true }), "look for decisions")
	return n
}

// closeRemovedGroups closes groups that a map has no more, a little later: what was on
// its way to them comes to one that knows nothing of its end.
func (w *world) closeRemovedGroups(m *partition.Map) {
	for _, id := range w.groups {
		if _, there := m.Group(id); there || w.removed[id] || id >= m.NextGroup() {
			continue
		}
		w.removed[id] = true
		w.addCount("groups removed")
		w.checkRemovable(id)
		w.scheduleAfter(w.rng.Int64N(20*millisecond), func() { w.closeGroup(id) })
	}
}

// closeGroup closes a group for ever.
func (w *world) closeGroup(id partition.GroupID) {
	w.checkRemovable(id)
	d := w.homeDisk(id)
	d.groups = slices.DeleteFunc(d.groups, func(g partition.GroupID) bool { return g == id })
	w.groups = slices.DeleteFunc(w.groups, func(g partition.GroupID) bool { return g == id })
	delete(d.hosts, id)
	delete(w.tables, id)
}

// checkRemovable checks that a group is not needed any more.
func (w *world) checkRemovable(id partition.GroupID) {
	p, err := w.findHost(id)
	if err != nil {
		return
	}
	for r := range p.Group.OwnershipTable().All() {
		if r.State != ownership.Foreign {
			w.failf("%v is removed and has %v", id, r)
		}
	}
	w.must(txn.ScanDecisions(p.Store, id, func(x txn.Decision) bool {
		if x.Outcome == txn.Committed {
			w.failf("%v is removed and keeps a decision: %+v", id, x)
		}
		return true
	}), "look for decisions")
}
