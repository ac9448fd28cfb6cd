package mover

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/testkit/rowtable"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

func TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens(t *testing.T) {
	t.Parallel()
	first, n := tally.SeedRange(t, 60, 50)
	counts := new(tally.Counts)
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(t, seed, counts)
		for range 10 {
			w.runEvents(200)
			w.checkContents()
		}
		w.settleFaults()
	}
	counts.Add("worlds", n)
	if n > 1 {
		counts.Log(t, listNeededCells()...)
	}
}

// listNeededCells names what must have happened.
func listNeededCells() (cells []string) {
	for p := range phaseNames {
		if p != Planned && p != Marking {
			cells = append(cells, "entered "+p.String())
		}
	}
	for k := Split; k <= Undrain; k++ {
		cells = append(cells, fmt.Sprintf("%v done", k))
	}
	return append(cells, "refused", "cancelled too late", "decided with a record that was not stored", "writes that met a freeze", "writes to a wrong group", "reaped", "moves with a pause", "marks of others left", "splits for groups that were added")
}

// planScene returns what to ask for, and in which phase to cancel it, so that a job
// gets into a phase.
func planScene(w *world, p Phase) (r Request, cancelAt Phase) {
	s := slices.Collect(w.m.Owned(1))[0]
	r = Request{Kind: Move, Shard: s.ID, To: 3}
	switch p {
	case Thawing:
		cancelAt = Freezing
	case Abandoning, Wiping, Dismissing:
		cancelAt = CatchingUp
	case Marking, Surveying:
		r = Request{Kind: Drain, Group: 1}
	case Stopping, Unmarking:
		r, cancelAt = Request{Kind: Drain, Group: 1}, Surveying
	case Hosting:
		r = Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}
	case Retiring, Removing:
		r = Request{Kind: Regroup, Groups: 3}
	}
	return r, cancelAt
}

func TestEachFaultInEachPhaseIsSurvived(t *testing.T) {
	t.Parallel()
	counts := new(tally.Counts)
	for _, p := range slices.Sorted(maps.Keys(phaseNames)) {
		if p.IsFinal() {
			continue
		}
		for _, fault := range []string{"crashed", "lost", "late", "repeated", "overtaken", "paused", "cancelled"} {
			for seed := range uint64(2) {
				w := newWorld(t, seed, counts)
				w.target, w.storesLater = &targetFault{phase: p, fault: fault}, false
				w.runScene(p)
				if !w.target.hasHappened {
					t.Errorf("nothing was %s while %v: the test shows nothing", fault, p)
				}
			}
		}
	}
	counts.Log(t)
}

// runScene plays one job with one fault, and writes.
func (w *world) runScene(p Phase) {
	for range 60 {
		w.writeKey()
	}
	r, cancelAt := planScene(w, p)
	w.admitJob(r)
	for i := 0; len(w.openJobs) > 0 && i < 3000; i++ {
		if j := w.records[w.openJobs[0]]; j.Phase == cancelAt {
			w.cancelJob(j.ID)
		}
		switch {
		case len(w.messages) > 0 && !w.drawChance(20):
			w.deliverMessage()
		case w.drawChance(70):
			w.writeKey()
			w.readKey()
		default:
			w.resumeAny()
		}
		if w.drawChance(3) {
			w.nowMS++
			w.unpauseAll()
		}
		w.checkServing()
	}
	w.checkContents()
	w.settleFaults()
}

// One driver is about to decide, from records that it has not stored. Another finds that the
// range has been frozen for too long.
func TestARangeThatIsThawedIsNotDecided(t *testing.T) {
	t.Parallel()
	w := newFaultlessWorld(t, 1)
	w.storesLater = true
	r, _ := planScene(w, Deciding)
	w.admitJob(r)
	id := w.openJobs[0]
	one, other := w.drivers[0], w.drivers[1]
	if _, ok := one.jobs[id]; !ok {
		one, other = other, one
	}
	for n := 0; one.jobs[id].Phase != Deciding; n++ {
		if n > 1000 || len(w.messages) == 0 {
			w.fatalf("job %d is %v, and does not come to its decision", id, one.jobs[id].Phase)
		}
		w.deliverMessage()
	}
	if j, _ := w.loadRecord(id); j.Phase != Freezing {
		w.fatalf("job %d is stored as %v: the test shows nothing", id, j.Phase)
	}
	decision := w.messages
	w.messages, w.nowMS = nil, w.nowMS+10*FreezeLimitMS
	other.resumeJob(id)
	w.deliverMessage()
	for range 100 {
		w.writeKey()
	}
	answer := w.messages
	for w.messages = decision; len(w.messages) > 0; {
		w.deliverMessage()
	}
	w.messages = answer
	w.settleFaults()
}

// runToEnd plays until no job is left.
func (w *world) runToEnd() {
	for n := 0; len(w.openJobs) > 0; n++ {
		switch {
		case n > 10_000:
			w.fatalf("job %d does not end", w.openJobs[0])
		case len(w.messages) > 0:
			w.deliverMessage()
		default:
			w.nowMS += 5
			w.resumeAny()
		}
		w.checkServing()
	}
}

// newFaultlessWorld returns a world in which nothing goes wrong.
func newFaultlessWorld(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed, new(tally.Counts))
	w.target = &targetFault{hasHappened: true}
	return w
}

// Boundaries are new ones each time, so what was given away is cut in ever other
// places.
func TestListsDoNotGrowWhileShardsMoveToAndFro(t *testing.T) {
	t.Parallel()
	w := newFaultlessWorld(t, 1)
	longest := 0
	for i := range 300 {
		shards := slices.Collect(w.m.Shards(partition.Whole))
		s := pickOne(w, shards)
		n := slices.IndexFunc(shards, func(o partition.Shard) bool { return o.ID == s.ID })
		switch {
		case len(shards) < 10:
			key := positionOf(fmt.Sprintf("%c%06d", "abcd"[w.rng.IntN(4)], w.rng.IntN(1e6)))
			w.admitJob(Request{Kind: Split, Shard: w.m.Find(key).ID, In: &testKeyspace, At: []partition.Position{key}})
		case n > 0 && shards[n-1].Group == s.Group:
			w.admitJob(Request{Kind: Merge, Shard: shards[n-1].ID, Right: s.ID})
		default:
			w.admitJob(Request{Kind: Move, Shard: s.ID, To: pickOne(w, w.m.Groups()).ID})
		}
		w.runToEnd()
		for _, g := range w.groups {
			list, served := w.peers[g].site.Table, 0
			for r := range list.All() {
				if r.IsReadable() {
					served++
				}
			}
			// Between two that are served lies at most one that was given away, but for
			// what the last job has left.
			if list.Len() > 2*served+4 {
				w.fatalf("after %d jobs %v has %v", i, g, slices.Collect(list.All()))
			}
			longest = max(longest, list.Len())
		}
	}
	if longest < 6 {
		t.Errorf("the longest list had %d ranges: the test shows nothing", longest)
	}
}

// checkServing checks what must hold after every event.
func (w *world) checkServing() {
	lists := make([]*ownership.Table, len(w.groups))
	for i, g := range w.groups {
		lists[i] = w.peers[g].site.Table
	}
	if !w.hasGap && slices.Equal(lists, w.checkedTables) {
		return
	}
	w.checkedTables, w.hasGap = lists, false
	for _, key := range allKeys {
		p := positionOf(key)
		var owner *peer
		for _, g := range w.groups {
			if w.peers[g].site.CheckPosition(p, false) != nil {
				continue
			}
			if owner != nil {
				w.fatalf("%v and %v both serve %s", owner.id, g, key)
			}
			owner = w.peers[g]
		}
		if owner == nil {
			w.checkHandover(key, !w.hasGap)
			w.hasGap = true
		}
	}
}

// checkHandover checks that a key that no group serves is being handed over, and that the group
// that had it has not deleted it. One key is enough for that.
func (w *world) checkHandover(key string, first bool) {
	for _, j := range w.listOpenJobs() {
		if !j.Span.Contains(positionOf(key)) || j.Kind != Move || !j.IsDecided() {
			continue
		}
		if first && !w.hasTrueRows(w.peers[j.From], j.Span) {
			w.fatalf("%v has dropped %v before %v serves it", j.From, j.Span, j.To)
		}
		return
	}
	w.fatalf("nobody serves %s", key)
}

// hasTrueRows reports whether a group's store has exactly the true rows of a span. It
// does not use the code that is tested.
func (w *world) hasTrueRows(p *peer, s partition.Span) bool {
	rows := func(t *rowtable.Table) (found []string) {
		for _, key := range t.Keys {
			if effect.Table(key[0]) != effect.State && s.Contains(partition.Position(key[1:])) {
				found = append(found, key, t.Rows[key])
			}
		}
		return found
	}
	return slices.Equal(rows(p.disk.rows), rows(w.expected))
}

// checkContents checks that the group that serves a range has what was acknowledged.
func (w *world) checkContents() {
	for _, g := range w.groups {
		p := w.peers[g]
		for r := range p.site.Table.All() {
			if r.IsReadable() && !w.hasTrueRows(p, r.Span) {
				w.fatalf("%v serves %v, and has not what was acknowledged there", g, r)
			}
		}
	}
}

// settleFaults lets everything come to rest.
func (w *world) settleFaults() {
	w.isSettling = true
	w.messages = append(w.messages, w.delayed...)
	w.delayed = nil
	for range 400 {
		for n := 0; len(w.messages) > 0; n++ {
			if w.deliverMessage(); n > 100_000 {
				w.fatalf("the net does not run dry")
			}
			w.checkServing()
		}
		w.unpauseAll()
		if len(w.listOpenJobs()) == 0 {
			break
		}
		w.nowMS += 5
		w.resumeAny()
	}
	w.checkFinalState()
}

// checkFinalState checks a world in which nothing is left to do.
func (w *world) checkFinalState() {
	for _, j := range w.listOpenJobs() {
		w.fatalf("job %d, a %v, is %v for ever: %s", j.ID, j.Kind, j.Phase, j.Reason)
	}
	w.checkServing()
	w.checkContents()
	for _, g := range w.groups {
		for r := range w.peers[g].site.Table.All() {
			if r.State == ownership.Frozen || r.State == ownership.Incoming || r.State == ownership.Foreign && r.Attempt != ownership.AttemptDropped {
				w.fatalf("%v is left with %v of job %d", g, r, r.Job)
			}
		}
	}
	for s := range w.m.Shards(partition.Whole) {
		r, ok := w.peers[s.Group].site.Table.FindContaining(s.Span)
		if !ok || !isSameSpan(r.Span, s.Span) || r.State != ownership.Serving || r.Version != s.Changed {
			w.fatalf("%v has %v for %v of version %d", s.Group, r, s.ID, s.Changed)
		}
	}
	w.checkNoLeftovers()
}

// checkNoLeftovers checks that a store has no rows that none of its groups serves.
func (w *world) checkNoLeftovers() {
	for _, d := range w.disks {
		for _, key := range d.rows.Keys {
			if effect.Table(key[0]) == effect.State {
				continue
			}
			p := partition.Position(key[1:])
			if w.peers[w.m.Owner(p).Group].disk != d {
				w.fatalf("store %d has a row at %q left, which %v owns", d.id, key, w.m.Owner(p).Group)
			}
		}
	}
}
