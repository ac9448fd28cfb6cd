package mover

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/tally"
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
	disks  []*disk
	peers  map[partition.GroupID]*peer
	groups []partition.GroupID // of peers, in order
	// m and records are the catalog: the newest map, and the jobs. open are those
	// that have not ended.
	m       *partition.Map
	records map[own.Job]Job
	open    []own.Job
	nextJob own.Job
	// drained are the groups that drained when a job was admitted.
	drained map[own.Job][]partition.GroupID
	drivers []*driver
	routers *partition.Map
	// net has what is on its way, and late what comes when nobody thinks of it
	// any more.
	net, late []message
	truth     *table
	// versions and clocks are the last that were seen of each key.
	versions map[string]uint64
	clocks   map[string]int64
	now      int64
	serial   int
	healing  bool
	// calm worlds have fewer mishaps, so that jobs come further; one with an aim
	// has none but that.
	calm bool
	aim  *aim
	// passes tells that drivers go on before a record is stored, where they may.
	passes bool
	// checked are the lists as they were checked last, and gap tells that a key
	// was served by nobody then.
	checked []*own.List
	gap     bool
}

// aim is a fault that is to happen in a phase.
type aim struct {
	phase Phase
	fault string
	hit   bool
}

type message struct {
	job     own.Job
	deliver func()
}

var allKeys = []string{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "d1", "d2", "d3"}

func newWorld(t *testing.T, seed uint64, counts *tally.Counts) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), counts: counts, peers: map[partition.GroupID]*peer{},
		records: map[own.Job]Job{}, drained: map[own.Job][]partition.GroupID{}, truth: newTable(), versions: map[string]uint64{}, clocks: map[string]int64{},
		now: 1_000_000, calm: seed%2 == 0, passes: seed/2%2 == 0,
	}
	for i := range 2 {
		w.disks = append(w.disks, &disk{id: uint64(i), rows: newTable()})
	}
	m, err := partition.First(make([]partition.Group, 4), &space, at("b1"), at("c1"), at("d1"))
	if err != nil {
		t.Fatal(err)
	}
	w.m, w.routers = m, m
	for _, g := range m.Groups() {
		w.host(g.ID)
		for s := range m.Owned(g.ID) {
			r := own.Range{Span: s.Span, Version: s.Changed, State: own.Serving}
			w.peers[g.ID].do(&own.Reown{Become: []own.Range{r}})
		}
	}
	for range 2 {
		w.drivers = append(w.drivers, &driver{w: w, jobs: map[own.Job]held{}})
	}
	return w
}

// host opens a group, if it is not there. Two groups live on each store.
func (w *world) host(g partition.GroupID) {
	if w.peers[g] == nil {
		w.peers[g] = newPeer(g, w.disks[w.home(g)])
		w.groups = slices.Sorted(maps.Keys(w.peers))
	}
}

func (w *world) home(g partition.GroupID) uint64 { return uint64(g) / 2 % 2 }

func (w *world) view() View {
	return View{Map: w.m, Home: w.home, Jobs: w.live(), Sizes: w.size, Middle: middle}
}

// size counts the keys of a shard that there may be.
func (w *world) size(id partition.ShardID) Size {
	s, _ := w.m.Shard(id)
	n := uint64(len(keysIn(s.Span)))
	return Size{Rows: n, Bytes: 100 * n}
}

func keysIn(s partition.Span) []string {
	return slices.DeleteFunc(slices.Clone(allKeys), func(key string) bool { return !s.Contains(at(key)) })
}

// middle is where half of the keys are on each side.
func middle(s partition.Shard) (partition.Position, *partition.Keyspace, bool) {
	keys := keysIn(s.Span)
	if len(keys) < 2 {
		return nil, nil, false
	}
	return at(keys[len(keys)/2]), &space, true
}

// live returns the jobs that have not ended.
func (w *world) live() (jobs []Job) {
	for _, id := range w.open {
		jobs = append(jobs, w.records[id])
	}
	return jobs
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nreplay with CLEAVE_SEED=%d go test -run '^%s$' ./internal/mover", fmt.Sprintf(format, args...), w.seed, w.t.Name())
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// mishap tells whether something goes wrong now.
func (w *world) mishap(percent int) bool {
	if w.aim != nil {
		return false
	}
	if w.calm {
		return !w.healing && w.rng.IntN(400) < percent
	}
	return !w.healing && w.chance(percent)
}

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// fault counts what has happened to a job, by its phase.
func (w *world) fault(j Job, what string) {
	if !w.healing {
		w.counts.Add(fmt.Sprintf("%s while %v", what, j.Phase), 1)
	}
}

// load reads a record of the catalog.
func (w *world) load(id own.Job) (Job, bool) {
	j, ok := w.records[id]
	return j, ok
}

// keep writes a record down and reads it again.
func (w *world) keep(j Job) {
	read, err := Decode(j.Append(nil))
	if err != nil {
		w.fatalf("job %d, %v: %v", j.ID, j.Phase, err)
	}
	w.records[j.ID] = read
	if j.Phase.Final() {
		w.open = slices.DeleteFunc(w.open, func(id own.Job) bool { return id == j.ID })
	}
}

// swap stores a record in the place of the one of revision rev.
func (w *world) swap(rev uint64, next Job) bool {
	was, _ := w.load(next.ID)
	if was.Rev != rev {
		return false
	}
	if was.Phase.Final() || was.Decided() && (!next.Decided() || next.Version != was.Version) {
		w.fatalf("job %d was %v at version %d and is %v at %d", next.ID, was.Phase, was.Version, next.Phase, next.Version)
	}
	if !was.Phase.undoing() || next.Phase.undoing() || next.Phase == RolledBack {
		w.keep(next)
	} else {
		w.fatalf("job %d was taken back and is %v", next.ID, next.Phase)
	}
	if was.Phase != next.Phase {
		w.counts.Add("entered "+next.Phase.String(), 1)
	}
	if next.Phase == Done {
		w.counts.Add(fmt.Sprintf("%v done", next.Kind), 1)
		w.finished(next)
	}
	if next.Phase == RolledBack {
		w.unmarked(next)
	}
	return true
}

// finished checks what a job has promised.
func (w *world) finished(j Job) {
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
	if j.Kind == Move && j.Cost.LongestMS > 0 {
		w.counts.Add("moves with a pause", 1)
	}
}

// unmarked checks that a job that was taken back leaves its groups as they were: nobody
// else may mark them meanwhile.
func (w *world) unmarked(j Job) {
	for _, id := range j.Groups {
		was := slices.Contains(w.drained[j.ID], id)
		if g, ok := w.m.Group(id); ok && g.Draining != was {
			w.fatalf("%v drains: %v, and before a %v that was taken back: %v", id, g.Draining, j.Kind, was)
		}
		if was && j.Kind != Undrain {
			w.counts.Add("marks of others left", 1)
		}
	}
}

// play lets events happen at random.
func (w *world) play(events int) {
	for range events {
		if w.chance(8) {
			w.now += int64(1 + w.rng.IntN(2))
		}
		switch n := w.rng.IntN(100); {
		case n < 62 && len(w.net) > 0:
			w.deliver()
		case n < 76:
			w.write()
		case n < 84:
			w.read()
		case n < 86:
			w.reap()
		case n < 89:
			w.request()
		case n < 93:
			w.poke()
		case n < 94:
			w.control()
		case n < 95:
			w.undrain()
		case n < 97:
			w.restart()
		default:
			w.peers[pick(w, w.groups)].clock += int64(w.rng.IntN(40))
		}
		w.check()
	}
}

func (w *world) send(j Job, deliver func()) { w.net = append(w.net, message{j.ID, deliver}) }

// deliver brings something to where it was going: once, twice, late or never.
func (w *world) deliver() {
	if n := len(w.late); n > 0 && w.chance(4) {
		i := w.rng.IntN(n)
		w.net = append(w.net, w.late[i])
		w.late = slices.Delete(w.late, i, i+1)
	}
	i := w.rng.IntN(len(w.net))
	m := w.net[i]
	j, _ := w.load(m.job)
	if w.mishap(10) {
		w.fault(j, "repeated")
		if w.chance(50) {
			w.late = append(w.late, m)
		} else {
			w.net = append(w.net, m)
		}
	}
	w.net[i] = w.net[len(w.net)-1]
	w.net = w.net[:len(w.net)-1]
	switch {
	case w.aimed(j, m):
	case w.mishap(8):
		w.fault(j, "lost")
	case w.mishap(6):
		w.fault(j, "late")
		w.late = append(w.late, m)
	default:
		m.deliver()
	}
}

// aimed lets the fault happen that is aimed at. It tells whether the message is
// gone by that.
func (w *world) aimed(j Job, m message) (gone bool) {
	if w.aim == nil || w.aim.hit || j.Phase != w.aim.phase {
		return false
	}
	w.aim.hit = true
	w.fault(j, w.aim.fault)
	switch w.aim.fault {
	case "lost":
		return true
	case "late":
		w.late = append(w.late, m)
		return true
	case "repeated":
		w.late = append(w.late, m)
	case "crashed":
		for _, d := range w.drivers {
			d.crash(j)
		}
		return true
	case "overtaken":
		for _, d := range w.drivers {
			d.poke(j.ID)
		}
	case "cancelled":
		w.cancel(j.ID)
	case "paused":
		if next, err := Pause(j, w.now); err == nil {
			w.swap(j.Rev, next)
		}
	}
	return false
}

func (w *world) poke() {
	if jobs := w.live(); len(jobs) > 0 {
		pick(w, w.drivers).poke(pick(w, jobs).ID)
	}
}

// control is somebody who changes his mind.
func (w *world) control() {
	jobs := w.live()
	if len(jobs) == 0 || w.healing {
		return
	}
	j := pick(w, jobs)
	switch w.rng.IntN(4) {
	case 0:
		w.cancel(j.ID)
	case 1:
		if next, err := Pause(j, w.now); err == nil && next.Rev != j.Rev {
			w.swap(j.Rev, next)
			w.fault(j, "paused")
		}
	case 2:
		if next, err := Throttle(j, 1<<20, w.now); err == nil {
			w.swap(j.Rev, next)
		}
	default:
		w.unpause()
	}
}

func (w *world) unpause() {
	for _, j := range w.live() {
		if next, _, err := Unpause(j, w.now); err == nil && next.Rev != j.Rev {
			w.swap(j.Rev, next)
		}
	}
}

func (w *world) cancel(id own.Job) {
	j, ok := w.load(id)
	if !ok {
		return
	}
	next, effects, err := Cancel(j, w.now)
	switch {
	case errors.Is(err, ErrTooLate):
		w.counts.Add("cancelled too late", 1)
	case err == nil && next.Rev != j.Rev:
		w.fault(j, "cancelled")
		w.swap(j.Rev, next)
		for _, x := range effects {
			w.drivers[0].execute(next, x)
		}
	}
}

// restart lets a group read its list anew.
func (w *world) restart() {
	p := w.peers[pick(w, w.groups)]
	before := slices.Collect(p.site.List.All())
	p.open()
	if after := slices.Collect(p.site.List.All()); !slices.EqualFunc(before, after, equal) {
		w.fatalf("%v has %v, and after a crash %v", p.id, before, after)
	}
}

// undrain lets a group take shards again.
func (w *world) undrain() {
	for _, g := range w.m.Groups() {
		if g.Draining && !slices.ContainsFunc(w.live(), func(j Job) bool { return slices.Contains(j.Groups, g.ID) }) {
			w.admit(Request{Kind: Undrain, Group: g.ID})
		}
	}
}

// request asks for a job. Some are refused.
func (w *world) request() {
	if len(w.live()) >= 6 {
		return
	}
	shards := slices.Collect(w.m.Shards(partition.Whole))
	s := pick(w, shards)
	r := Request{Shard: s.ID, Expect: s.Changed, In: &space, Parallel: 1 + w.rng.IntN(3)}
	switch n := w.rng.IntN(40); {
	case n < 22:
		r.Kind, r.To = Move, pick(w, w.m.Groups()).ID
	case n < 27:
		r.Kind, r.At = Split, []partition.Position{at(pick(w, allKeys))}
	case n < 34:
		r.Kind, r.Right = Merge, pick(w, shards).ID
		if i := slices.IndexFunc(shards, func(o partition.Shard) bool { return o.ID == s.ID }); i+1 < len(shards) {
			r.Right = shards[i+1].ID
		}
	case n < 35:
		r.Kind, r.At = PreSplit, []partition.Position{at("a2"), at("b2"), at("c2")}
	case n < 38:
		r.Kind, r.Group = Drain, pick(w, w.m.Groups()).ID
	default:
		have := len(w.m.Groups())
		if r.Kind, r.Groups = Regroup, have-1; have < 4 || have < 6 && w.chance(50) {
			r.Groups, r.Labels = have+1, make([]partition.Labels, 1)
		}
	}
	w.admit(r)
}

// admit admits a job where records are kept.
func (w *world) admit(r Request) {
	w.nextJob++
	j, err := Admit(w.view(), r, w.nextJob, w.now)
	if err != nil {
		w.counts.Add("refused", 1)
		return
	}
	w.open = append(w.open, j.ID)
	w.keep(j)
	for _, g := range w.m.Groups() {
		if g.Draining {
			w.drained[j.ID] = append(w.drained[j.ID], g.ID)
		}
	}
	w.counts.Add(fmt.Sprintf("%v admitted", j.Kind), 1)
	if j.Kind == Split && w.records[j.Parent].Kind == Regroup {
		w.counts.Add("splits for groups that were added", 1)
	}
	pick(w, w.drivers).poke(j.ID)
}

// write is a client. Sometimes it asks somebody who does not own the key.
func (w *world) write() {
	key := pick(w, allKeys)
	p := w.route(key)
	w.serial++
	c := &client{site: p.site, p: at(key), id: byte(w.rng.IntN(16)), delete: w.chance(30), value: fmt.Sprint("v", w.serial)}
	if w.chance(20) {
		c.expiry = command.In(int64(1 + w.rng.IntN(60)))
	}
	reply, batch := p.do(c)
	switch {
	case errors.Is(reply.Err, own.ErrFrozen):
		w.counts.Add("writes that met a freeze", 1)
	case errors.Is(reply.Err, own.ErrWrongGroup):
		w.counts.Add("writes to a wrong group", 1)
	case reply.Err != nil:
		w.fatalf("%v", reply.Err)
	default:
		w.apply(key, p, reply, batch)
	}
}

// apply makes an acknowledged write true.
func (w *world) apply(key string, p *peer, reply command.Reply, batch effect.Batch) {
	for _, op := range batch.All() {
		w.truth.redo(op)
	}
	if reply.Version > 0 && reply.Version <= w.versions[key] {
		w.fatalf("%v gives %s version %d after %d", p.id, key, reply.Version, w.versions[key])
	}
	w.versions[key] = max(w.versions[key], reply.Version)
	w.seen(key, p)
}

// seen checks that the time of a key does not go back.
func (w *world) seen(key string, p *peer) {
	if p.clock < w.clocks[key] {
		w.fatalf("%v serves %s at time %d, and it was %d already", p.id, key, p.clock, w.clocks[key])
	}
	w.clocks[key] = p.clock
}

// route finds a group for a key: by a map that may be old, or anybody.
func (w *world) route(key string) *peer {
	switch {
	case w.chance(10):
		return w.peers[pick(w, w.groups)]
	case w.chance(30):
		return w.peers[w.routers.Owner(at(key)).Group]
	}
	return w.peers[w.m.Owner(at(key)).Group]
}

func (w *world) read() {
	key := pick(w, allKeys)
	p := w.route(key)
	if p.site.Check(at(key), false) != nil {
		return
	}
	row := effect.Rows.AppendKey(nil, at(key))
	got, _, _ := p.disk.rows.Get(row, nil)
	want, _, _ := w.truth.Get(row, nil)
	if !bytes.Equal(got, want) {
		w.fatalf("%v reads %q for %s, which is %q", p.id, got, key, want)
	}
	w.seen(key, p)
}

// reap removes keys that have expired, as a group does for itself.
func (w *world) reap() {
	p := w.peers[pick(w, w.groups)]
	for _, key := range allKeys {
		span := partition.Span{Start: at(key), End: command.After(at(key))}
		if p.site.CheckPart(span) != nil {
			continue
		}
		value, ok, _ := p.disk.rows.Get(effect.Rows.AppendKey(nil, at(key)), nil)
		row, err := command.DecodeRow(value)
		if !ok || err != nil || row.Alive(p.clock) {
			continue
		}
		reply, batch := p.do(&command.Reap{Key: at(key), Version: row.Version})
		w.counts.Add("reaped", 1)
		w.apply(key, p, reply, batch)
	}
}
