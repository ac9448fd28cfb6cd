package mover

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/testkit/rowtable"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// world is groups in memory, a catalog, two drivers, clients, and everything
// that goes wrong. It is played one event at a time. What the groups hold is
// compared with the truth: the rows that acknowledged writes have made.
type world struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	counts *tally.Counts
	disks  []*memoryDisk
	peers  map[partition.GroupID]*peer
	groups []partition.GroupID // of peers, in order
	// m and records are the catalog: the newest map, and the jobs. open are those
	// that have not ended.
	m        *partition.Map
	records  map[ownership.JobID]Job
	openJobs []ownership.JobID
	nextJob  ownership.JobID
	// drainedBefore are the groups that drained when a job was admitted.
	drainedBefore map[ownership.JobID][]partition.GroupID
	drivers       []*testDriver
	routerMap     *partition.Map
	// messages are in flight; delayed are delivered long after their jobs are over.
	messages, delayed []message
	expected          *rowtable.Table
	// versions and clocks are the last that were seen of each key.
	versions   map[string]uint64
	clocks     map[string]int64
	nowMS      int64
	serial     int
	isSettling bool
	// hasFewFaults worlds have fewer mishaps, so that jobs come further; one with an aim
	// has none but that.
	hasFewFaults bool
	target       *targetFault
	// storesLater reports whether drivers go on before a record is stored, where they may.
	storesLater bool
	// checkedTables are the tables as they were checked last, and hasGap reports whether no
	// group served a key then.
	checkedTables []*ownership.Table
	hasGap        bool
}

// targetFault is a fault that is to happen in a phase.
type targetFault struct {
	phase       Phase
	fault       string
	hasHappened bool
}

type message struct {
	job     ownership.JobID
	deliver func()
}

var allKeys = []string{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "d1", "d2", "d3"}

func newWorld(t *testing.T, seed uint64, counts *tally.Counts) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), counts: counts, peers: map[partition.GroupID]*peer{},
		records: map[ownership.JobID]Job{}, drainedBefore: map[ownership.JobID][]partition.GroupID{}, expected: rowtable.New(), versions: map[string]uint64{}, clocks: map[string]int64{},
		nowMS: 1_000_000, hasFewFaults: seed%2 == 0, storesLater: seed/2%2 == 0,
	}
	for i := range 2 {
		w.disks = append(w.disks, &memoryDisk{id: uint64(i), rows: rowtable.New()})
	}
	m, err := partition.NewMap(make([]partition.Group, 4), &testKeyspace, positionOf("b1"), positionOf("c1"), positionOf("d1"))
	if err != nil {
		t.Fatal(err)
	}
	w.m, w.routerMap = m, m
	for _, g := range m.Groups() {
		w.openGroup(g.ID)
		for s := range m.Owned(g.ID) {
			r := ownership.Range{Span: s.Span, Version: s.Changed, State: ownership.Serving}
			w.peers[g.ID].evalOne(&ownership.ChangeOwnership{Become: []ownership.Range{r}})
		}
	}
	for range 2 {
		w.drivers = append(w.drivers, &testDriver{world: w, jobs: map[ownership.JobID]knownJob{}})
	}
	return w
}

// openGroup opens a group, if it is not there. Two groups live on each store.
func (w *world) openGroup(g partition.GroupID) {
	if w.peers[g] == nil {
		w.peers[g] = newPeer(g, w.disks[w.storeID(g)])
		w.groups = slices.Sorted(maps.Keys(w.peers))
	}
}

func (w *world) storeID(g partition.GroupID) uint64 { return uint64(g) / 2 % 2 }

func (w *world) clusterState() ClusterState {
	return ClusterState{Map: w.m, HomeStore: w.storeID, Jobs: w.listOpenJobs(), ShardSize: w.shardSize, SplitPoint: findMiddle}
}

// shardSize counts the keys of a shard that there may be.
func (w *world) shardSize(id partition.ShardID) Size {
	s, _ := w.m.Shard(id)
	n := uint64(len(keysIn(s.Span)))
	return Size{Rows: n, Bytes: 100 * n}
}

func keysIn(s partition.Span) []string {
	return slices.DeleteFunc(slices.Clone(allKeys), func(key string) bool { return !s.Contains(positionOf(key)) })
}

// findMiddle is where half of the keys are on each side.
func findMiddle(s partition.Shard) (partition.Position, *partition.Keyspace, bool) {
	keys := keysIn(s.Span)
	if len(keys) < 2 {
		return nil, nil, false
	}
	return positionOf(keys[len(keys)/2]), &testKeyspace, true
}

// listOpenJobs returns the jobs that have not ended.
func (w *world) listOpenJobs() (jobs []Job) {
	for _, id := range w.openJobs {
		jobs = append(jobs, w.records[id])
	}
	return jobs
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nreplay with CLEAVE_SEED=%d go test -run '^%s$' ./internal/reshard/mover", fmt.Sprintf(format, args...), w.seed, w.t.Name())
}

func (w *world) drawChance(percent int) bool { return w.rng.IntN(100) < percent }

// drawFault reports whether something goes wrong now.
func (w *world) drawFault(percent int) bool {
	if w.target != nil {
		return false
	}
	if w.hasFewFaults {
		return !w.isSettling && w.rng.IntN(400) < percent
	}
	return !w.isSettling && w.drawChance(percent)
}

func pickOne[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// countFault counts what has happened to a job, by its phase.
func (w *world) countFault(j Job, what string) {
	if !w.isSettling {
		w.counts.Add(fmt.Sprintf("%s while %v", what, j.Phase), 1)
	}
}

// loadRecord reads a record of the catalog.
func (w *world) loadRecord(id ownership.JobID) (Job, bool) {
	j, ok := w.records[id]
	return j, ok
}

// storeRecord writes a record down and reads it again.
func (w *world) storeRecord(j Job) {
	read, err := DecodeRecord(j.AppendRecord(nil))
	if err != nil {
		w.fatalf("job %d, %v: %v", j.ID, j.Phase, err)
	}
	w.records[j.ID] = read
	if j.Phase.IsFinal() {
		w.openJobs = slices.DeleteFunc(w.openJobs, func(id ownership.JobID) bool { return id == j.ID })
	}
}

// swapRecord stores a record in the place of the one of revision rev.
func (w *world) swapRecord(rev uint64, next Job) bool {
	was, _ := w.loadRecord(next.ID)
	if was.Rev != rev {
		return false
	}
	if was.Phase.IsFinal() || was.IsDecided() && (!next.IsDecided() || next.Version != was.Version) {
		w.fatalf("job %d was %v at version %d and is %v at %d", next.ID, was.Phase, was.Version, next.Phase, next.Version)
	}
	if !was.Phase.isUndoing() || next.Phase.isUndoing() || next.Phase == RolledBack {
		w.storeRecord(next)
	} else {
		w.fatalf("job %d was taken back and is %v", next.ID, next.Phase)
	}
	if was.Phase != next.Phase {
		w.counts.Add("entered "+next.Phase.String(), 1)
	}
	if next.Phase == Done {
		w.counts.Add(fmt.Sprintf("%v done", next.Kind), 1)
		w.checkFinished(next)
	}
	if next.Phase == RolledBack {
		w.checkUnmarked(next)
	}
	return true
}

// checkFinished checks what a job has promised.
func (w *world) checkFinished(j Job) {
	if j.Kind == Drain {
		for s := range w.m.Owned(j.Groups[0]) {
			w.fatalf("%v is drained and has %v", j.Groups[0], s.ID)
		}
	}
	if j.Kind == Undrain {
		if g, ok := w.m.Group(j.Groups[0]); ok && g.Draining {
			w.fatalf("%v may have shards again, and drains", g.ID)
		}
	}
	if j.Kind == Move && j.Cost.LongestPauseMS > 0 {
		w.counts.Add("moves with a pause", 1)
	}
}

// checkUnmarked checks that a job that was taken back leaves its groups as they were: no other
// job may mark them meanwhile.
func (w *world) checkUnmarked(j Job) {
	for _, id := range j.Groups {
		was := slices.Contains(w.drainedBefore[j.ID], id)
		if g, ok := w.m.Group(id); ok && g.Draining != was {
			w.fatalf("%v drains: %v, and before a %v that was taken back: %v", id, g.Draining, j.Kind, was)
		}
		if was && j.Kind != Undrain {
			w.counts.Add("marks of others left", 1)
		}
	}
}

// runEvents lets events happen at random.
func (w *world) runEvents(events int) {
	for range events {
		if w.drawChance(8) {
			w.nowMS += int64(1 + w.rng.IntN(2))
		}
		switch n := w.rng.IntN(100); {
		case n < 62 && len(w.messages) > 0:
			w.deliverMessage()
		case n < 76:
			w.writeKey()
		case n < 84:
			w.readKey()
		case n < 86:
			w.reapKeys()
		case n < 89:
			w.requestJob()
		case n < 93:
			w.resumeAny()
		case n < 94:
			w.controlJob()
		case n < 95:
			w.undrainGroups()
		case n < 97:
			w.restartPeer()
		default:
			w.peers[pickOne(w, w.groups)].clock += int64(w.rng.IntN(40))
		}
		w.checkServing()
	}
}

func (w *world) sendMessage(j Job, deliver func()) {
	w.messages = append(w.messages, message{j.ID, deliver})
}

// deliverMessage delivers a message to its destination: once, twice, late or never.
func (w *world) deliverMessage() {
	if n := len(w.delayed); n > 0 && w.drawChance(4) {
		i := w.rng.IntN(n)
		w.messages = append(w.messages, w.delayed[i])
		w.delayed = slices.Delete(w.delayed, i, i+1)
	}
	i := w.rng.IntN(len(w.messages))
	m := w.messages[i]
	j, _ := w.loadRecord(m.job)
	if w.drawFault(10) {
		w.countFault(j, "repeated")
		if w.drawChance(50) {
			w.delayed = append(w.delayed, m)
		} else {
			w.messages = append(w.messages, m)
		}
	}
	w.messages[i] = w.messages[len(w.messages)-1]
	w.messages = w.messages[:len(w.messages)-1]
	switch {
	case w.injectTarget(j, m):
	case w.drawFault(8):
		w.countFault(j, "lost")
	case w.drawFault(6):
		w.countFault(j, "late")
		w.delayed = append(w.delayed, m)
	default:
		m.deliver()
	}
}

// injectTarget lets the fault happen that is aimed at. It reports whether the message is
// gone by that.
func (w *world) injectTarget(j Job, m message) (gone bool) {
	if w.target == nil || w.target.hasHappened || j.Phase != w.target.phase {
		return false
	}
	w.target.hasHappened = true
	w.countFault(j, w.target.fault)
	switch w.target.fault {
	case "lost":
		return true
	case "late":
		w.delayed = append(w.delayed, m)
		return true
	case "repeated":
		w.delayed = append(w.delayed, m)
	case "crashed":
		for _, d := range w.drivers {
			d.crash(j)
		}
		return true
	case "overtaken":
		for _, d := range w.drivers {
			d.resumeJob(j.ID)
		}
	case "cancelled":
		w.cancelJob(j.ID)
	case "paused":
		if next, err := Pause(j, w.nowMS); err == nil {
			w.swapRecord(j.Rev, next)
		}
	}
	return false
}

func (w *world) resumeAny() {
	if jobs := w.listOpenJobs(); len(jobs) > 0 {
		pickOne(w, w.drivers).resumeJob(pickOne(w, jobs).ID)
	}
}

// controlJob plays an operator that changes its mind.
func (w *world) controlJob() {
	jobs := w.listOpenJobs()
	if len(jobs) == 0 || w.isSettling {
		return
	}
	j := pickOne(w, jobs)
	switch w.rng.IntN(4) {
	case 0:
		w.cancelJob(j.ID)
	case 1:
		if next, err := Pause(j, w.nowMS); err == nil && next.Rev != j.Rev {
			w.swapRecord(j.Rev, next)
			w.countFault(j, "paused")
		}
	case 2:
		if next, err := SetThrottle(j, 1<<20, w.nowMS); err == nil {
			w.swapRecord(j.Rev, next)
		}
	default:
		w.unpauseAll()
	}
}

func (w *world) unpauseAll() {
	for _, j := range w.listOpenJobs() {
		if next, _, err := Unpause(j, w.nowMS); err == nil && next.Rev != j.Rev {
			w.swapRecord(j.Rev, next)
		}
	}
}

func (w *world) cancelJob(id ownership.JobID) {
	j, ok := w.loadRecord(id)
	if !ok {
		return
	}
	next, effects, err := Cancel(j, w.nowMS)
	switch {
	case errors.Is(err, ErrTooLate):
		w.counts.Add("cancelled too late", 1)
	case err == nil && next.Rev != j.Rev:
		w.countFault(j, "cancelled")
		w.swapRecord(j.Rev, next)
		for _, x := range effects {
			w.drivers[0].runEffect(next, x)
		}
	}
}

// restartPeer lets a group read its list anew.
func (w *world) restartPeer() {
	p := w.peers[pickOne(w, w.groups)]
	before := slices.Collect(p.site.Table.All())
	p.reopen()
	if after := slices.Collect(p.site.Table.All()); !slices.EqualFunc(before, after, isSameRange) {
		w.fatalf("%v has %v, and after a crash %v", p.id, before, after)
	}
}

// undrainGroups lets a group take shards again.
func (w *world) undrainGroups() {
	for _, g := range w.m.Groups() {
		if g.Draining && !slices.ContainsFunc(w.listOpenJobs(), func(j Job) bool { return slices.Contains(j.Groups, g.ID) }) {
			w.admitJob(Request{Kind: Undrain, Group: g.ID})
		}
	}
}

// requestJob asks for a job. Some are refused.
func (w *world) requestJob() {
	if len(w.listOpenJobs()) >= 6 {
		return
	}
	shards := slices.Collect(w.m.Shards(partition.Whole))
	s := pickOne(w, shards)
	r := Request{Shard: s.ID, Expect: s.Changed, In: &testKeyspace, Parallel: 1 + w.rng.IntN(3)}
	switch n := w.rng.IntN(40); {
	case n < 22:
		r.Kind, r.To = Move, pickOne(w, w.m.Groups()).ID
	case n < 27:
		r.Kind, r.At = Split, []partition.Position{positionOf(pickOne(w, allKeys))}
	case n < 34:
		r.Kind, r.Right = Merge, pickOne(w, shards).ID
		if i := slices.IndexFunc(shards, func(o partition.Shard) bool { return o.ID == s.ID }); i+1 < len(shards) {
			r.Right = shards[i+1].ID
		}
	case n < 35:
		r.Kind, r.At = PreSplit, []partition.Position{positionOf("a2"), positionOf("b2"), positionOf("c2")}
	case n < 38:
		r.Kind, r.Group = Drain, pickOne(w, w.m.Groups()).ID
	default:
		have := len(w.m.Groups())
		if r.Kind, r.Groups = Regroup, have-1; have < 4 || have < 6 && w.drawChance(50) {
			r.Groups, r.Labels = have+1, make([]partition.Labels, 1)
		}
	}
	w.admitJob(r)
}

// admitJob admits a job where records are kept.
func (w *world) admitJob(r Request) {
	w.nextJob++
	j, err := Admit(w.clusterState(), r, w.nextJob, w.nowMS)
	if err != nil {
		w.counts.Add("refused", 1)
		return
	}
	w.openJobs = append(w.openJobs, j.ID)
	w.storeRecord(j)
	for _, g := range w.m.Groups() {
		if g.Draining {
			w.drainedBefore[j.ID] = append(w.drainedBefore[j.ID], g.ID)
		}
	}
	w.counts.Add(fmt.Sprintf("%v admitted", j.Kind), 1)
	if j.Kind == Split && w.records[j.Parent].Kind == Regroup {
		w.counts.Add("splits for groups that were added", 1)
	}
	pickOne(w, w.drivers).resumeJob(j.ID)
}

// writeKey is a client. Sometimes it asks a group that does not own the key.
func (w *world) writeKey() {
	key := pickOne(w, allKeys)
	p := w.findPeer(key)
	w.serial++
	c := &clientWrite{site: p.site, position: positionOf(key), id: byte(w.rng.IntN(16)), isDelete: w.drawChance(30), value: fmt.Sprint("v", w.serial)}
	if w.drawChance(20) {
		c.expiry = command.ExpireIn(int64(1 + w.rng.IntN(60)))
	}
	reply, batch := p.evalOne(c)
	switch {
	case errors.Is(reply.Err, ownership.ErrFrozen):
		w.counts.Add("writes that met a freeze", 1)
	case errors.Is(reply.Err, ownership.ErrWrongGroup):
		w.counts.Add("writes to a wrong group", 1)
	case reply.Err != nil:
		w.fatalf("%v", reply.Err)
	default:
		w.recordWrite(key, p, reply, batch)
	}
}

// recordWrite makes an acknowledged write true.
func (w *world) recordWrite(key string, p *peer, reply command.Reply, batch effect.Batch) {
	for _, op := range batch.All() {
		w.expected.Apply(op)
	}
	if reply.Version > 0 && reply.Version <= w.versions[key] {
		w.fatalf("%v gives %s version %d after %d", p.id, key, reply.Version, w.versions[key])
	}
	w.versions[key] = max(w.versions[key], reply.Version)
	w.checkClock(key, p)
}

// checkClock checks that the time of a key does not go back.
func (w *world) checkClock(key string, p *peer) {
	if p.clock < w.clocks[key] {
		w.fatalf("%v serves %s at time %d, and it was %d already", p.id, key, p.clock, w.clocks[key])
	}
	w.clocks[key] = p.clock
}

// findPeer finds a group for a key: by a map that may be old, or any group.
func (w *world) findPeer(key string) *peer {
	switch {
	case w.drawChance(10):
		return w.peers[pickOne(w, w.groups)]
	case w.drawChance(30):
		return w.peers[w.routerMap.Owner(positionOf(key)).Group]
	}
	return w.peers[w.m.Owner(positionOf(key)).Group]
}

func (w *world) readKey() {
	key := pickOne(w, allKeys)
	p := w.findPeer(key)
	if p.site.CheckPosition(positionOf(key), false) != nil {
		return
	}
	row := effect.Rows.AppendKey(nil, positionOf(key))
	got, _, _ := p.disk.rows.Get(row, nil)
	want, _, _ := w.expected.Get(row, nil)
	if !bytes.Equal(got, want) {
		w.fatalf("%v reads %q for %s, which is %q", p.id, got, key, want)
	}
	w.checkClock(key, p)
}

// reapKeys removes keys that have expired, as a group does for itself.
func (w *world) reapKeys() {
	p := w.peers[pickOne(w, w.groups)]
	for _, key := range allKeys {
		span := partition.Span{Start: positionOf(key), End: command.NextPosition(positionOf(key))}
		if p.site.CheckWriteSpan(span) != nil {
			continue
		}
		value, ok, _ := p.disk.rows.Get(effect.Rows.AppendKey(nil, positionOf(key)), nil)
		row, err := command.DecodeRow(value)
		if !ok || err != nil || row.IsAlive(p.clock) {
			continue
		}
		reply, batch := p.evalOne(&command.Reap{Key: positionOf(key), Version: row.Version})
		w.counts.Add("reaped", 1)
		w.recordWrite(key, p, reply, batch)
	}
}
