package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// isolationLevel is how well the store of a generated history keeps transactions
// apart.
type isolationLevel int

const (
	// serializable runs a transaction at one instant: every history of it is right.
	serializable isolationLevel = iota
	// snapshotReads reads from the state at the start, and writes at the end
	// whatever others did.
	snapshotReads
	// staleReads runs at one instant, and may read from the past.
	staleReads
	// stepwise runs each step at an instant of its own, failed transactions too.
	stepwise
)

// generator drives a store in memory by clients whose calls overlap.
type generator struct {
	Isolation isolationLevel
	Txns      int
	Clients   int
	Keys      int
	Steps     int   // most of one transaction
	Coarse    int64 // events that share an instant
	Faulty    int   // per cent of the calls that fail, and as many that stay open
	Fresh     int   // appends after which a key is given up for a new one; 0 is never
	// Plant, if any, plays when SceneAt transactions have begun.
	Plant   func(*stage)
	PlantAt int

	rng          *rand.Rand
	lists        map[string][]uint64
	snapshots    []map[string][]uint64
	appendCounts map[int]int // to the keys of a number
	lastElement  uint64
	history      []Txn
}

// runningTxn is a transaction that is not done.
type runningTxn struct {
	index    int // its place in the history
	next     int // step
	snapshot map[string][]uint64
	isOrphan bool // no client waits for it
}

// run returns a history.
func (g *generator) run() []Txn {
	g.lists, g.appendCounts = map[string][]uint64{}, map[int]int{}
	g.history = make([]Txn, 0, g.Txns)
	clients := make([]*runningTxn, g.Clients)
	var orphans []*runningTxn
	busy := 0
	for event := int64(0); len(g.history) < g.Txns || busy > 0; event++ {
		if g.Plant != nil && len(g.history) >= g.PlantAt {
			g.Plant(&stage{g, event + 1})
			g.Plant = nil
			event += 11
		}
		now := event / max(g.Coarse, 1)
		if len(orphans) > 0 && g.rng.IntN(4) == 0 {
			if i := g.rng.IntN(len(orphans)); g.executeSteps(orphans[i]) {
				orphans = slices.Delete(orphans, i, i+1)
			}
			continue
		}
		c := g.rng.IntN(g.Clients)
		r := clients[c]
		if r == nil {
			if len(g.history) < g.Txns {
				clients[c] = &runningTxn{index: len(g.history)}
				g.history = append(g.history, Txn{Call: Call{Client: c, Invoke: now}, Ops: g.planSteps()})
				busy++
			}
			continue
		}
		txn := &g.history[r.index]
		executed := r.next == len(txn.Ops)
		switch roll := g.rng.IntN(100); {
		case roll < g.Faulty:
			// The outcome gets lost; of its reads those are known that were
			// answered.
			r.isOrphan = true
			if !executed {
				orphans = append(orphans, r)
			}
			g.dropReads(txn, r.next)
		case roll < 2*g.Faulty && !executed:
			txn.Status, txn.Return = Failed, now
		case executed:
			txn.Status, txn.Return = OK, now
		default:
			g.executeSteps(r)
			continue
		}
		clients[c] = nil
		busy--
	}
	return g.history
}

// dropReads leaves out the reads from a step on. What is left to run are appends.
func (g *generator) dropReads(txn *Txn, from int) {
	txn.Ops = slices.Concat(txn.Ops[:from], slices.DeleteFunc(slices.Clone(txn.Ops[from:]), func(op Op) bool { return op.Read }))
}

// planSteps makes the steps of a transaction.
func (g *generator) planSteps() (ops []Op) {
	for range 1 + g.rng.IntN(g.Steps) {
		n := g.rng.IntN(g.Keys)
		key := fmt.Sprintf("k%d", n)
		if g.Fresh > 0 {
			key = fmt.Sprintf("k%d.%d", n, g.appendCounts[n]/g.Fresh)
		}
		if g.rng.IntN(2) == 0 {
			ops = append(ops, Read(key))
			continue
		}
		g.lastElement++
		g.appendCounts[n]++
		ops = append(ops, Append(key, g.lastElement))
	}
	return ops
}

// executeSteps runs the next step, or all. It reports whether none is left.
func (g *generator) executeSteps(r *runningTxn) bool {
	ops := g.history[r.index].Ops
	if g.Isolation == stepwise {
		if r.next < len(ops) {
			g.executeStep(&ops[r.next], g.lists, g.lists)
			r.next++
		}
		return r.next == len(ops)
	}
	view := g.lists
	switch g.Isolation {
	case staleReads:
		view = g.lists
		if len(g.snapshots) > 0 && g.rng.IntN(3) == 0 {
			view = g.snapshots[g.rng.IntN(len(g.snapshots))]
		}
		g.snapshots = append(g.snapshots, cloneLists(g.lists))
		view = cloneLists(view)
	case snapshotReads:
		if r.snapshot == nil {
			r.snapshot = cloneLists(g.lists)
			return false
		}
		view = r.snapshot
	}
	for i := range ops[r.next:] {
		g.executeStep(&ops[r.next+i], view, g.lists)
	}
	r.next = len(ops)
	return true
}

// executeStep reads from the view and writes to both.
func (g *generator) executeStep(op *Op, view, lists map[string][]uint64) {
	if op.Read {
		op.List = slices.Clip(view[op.Key])
		return
	}
	// A reader's list stays as it was: what it shares is never written again.
	view[op.Key] = append(view[op.Key], op.Element)
	if g.Isolation != serializable && g.Isolation != stepwise {
		lists[op.Key] = append(slices.Clone(lists[op.Key]), op.Element)
		view[op.Key] = slices.Clone(view[op.Key])
	}
}

func cloneLists(lists map[string][]uint64) map[string][]uint64 {
	c := make(map[string][]uint64, len(lists))
	for k, list := range lists {
		c[k] = slices.Clone(list)
	}
	return c
}

// plantedAnomalies are what a broken store does once, in the midst of a history that is
// right otherwise and goes on over what the scene left. The transactions of a
// scene run from instant 0 to 9 of it.
var plantedAnomalies = []struct {
	name  string
	play  func(*stage)
	found func(*Report) bool
}{
	{"aborted read", func(s *stage) {
		a := s.newElement()
		s.addTxn(failedTxn(0, 9, Append("k0", a)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0", a)...)))
	}, hasKind(G1a)},
	{"intermediate read", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Append("k0", a), Append("k0", b)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0", a)...)))
		s.writeElements("k0", a, b)
	}, hasKind(G1b)},
	{"duplicate", func(s *stage) {
		a := s.newElement()
		s.addTxn(okTxn(0, 9, Append("k0", a)))
		s.writeElements("k0", a, a)
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...)))
	}, hasKind(Duplicate)},
	{"reordered list", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Append("k0", a)))
		s.addTxn(okTxn(0, 9, Append("k0", b)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0", b, a)...)))
		s.writeElements("k0", a, b)
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...)))
	}, hasKind(Forked)},
	{"lost append", func(s *stage) {
		s.addTxn(okTxn(0, 5, Append("k0", s.newElement())))
		s.addTxn(okTxn(6, 9, Read("k0", s.listWith("k0")...)))
	}, hasKind(Lost)},
	{"lost update", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...), Append("k0", a)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...), Append("k0", b)))
		s.writeElements("k0", a, b)
	}, hasName("lost update")},
	{"write skew", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...), Append("k1", a)))
		s.addTxn(okTxn(0, 9, Read("k1", s.listWith("k1")...), Append("k0", b)))
		s.writeElements("k1", a)
		s.writeElements("k0", b)
	}, hasName("write skew")},
	{"fractured read", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Append("k0", a), Append("k1", b)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0", a)...), Read("k1", s.listWith("k1")...)))
		s.writeElements("k0", a)
		s.writeElements("k1", b)
	}, hasName("fractured read")},
	{"long fork", func(s *stage) {
		a, b := s.newElement(), s.newElement()
		s.addTxn(okTxn(0, 9, Append("k0", a)))
		s.addTxn(okTxn(0, 9, Append("k1", b)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0", a)...), Read("k1", s.listWith("k1")...)))
		s.addTxn(okTxn(0, 9, Read("k0", s.listWith("k0")...), Read("k1", s.listWith("k1", b)...)))
		s.writeElements("k0", a)
		s.writeElements("k1", b)
	}, hasName("long fork")},
	{"stale read", func(s *stage) {
		a := s.newElement()
		s.addTxn(okTxn(0, 5, Append("k0", a)))
		s.addTxn(okTxn(6, 9, Read("k0", s.listWith("k0")...)))
		s.writeElements("k0", a)
	}, hasName("stale read")},
	{"stale read of an open append", func(s *stage) {
		a := s.newElement()
		s.addTxn(openTxn(0, Append("k0", a)))
		s.addTxn(okTxn(0, 5, Read("k0", s.listWith("k0", a)...)))
		s.addTxn(okTxn(6, 9, Read("k0", s.listWith("k0")...)))
		s.writeElements("k0", a)
	}, hasName("stale read")},
}

func hasKind(k Kind) func(*Report) bool               { return func(r *Report) bool { return r.Has(k) } }
func hasName(name string) func(*Report) bool          { return func(r *Report) bool { return r.HasName(name) } }
func (s *stage) newElement() uint64                   { s.g.lastElement++; return s.g.lastElement }
func (s *stage) writeElements(k string, es ...uint64) { s.g.lists[k] = s.listWith(k, es...) }

// stage is where a scene plays.
type stage struct {
	g         *generator
	startTick int64
}

// listWith returns the list of a key with elements behind it.
func (s *stage) listWith(k string, more ...uint64) []uint64 {
	return slices.Concat(s.g.lists[k], more)
}

// addTxn adds a transaction to the history.
func (s *stage) addTxn(t Txn) {
	t.Client = -1
	t.Invoke += s.startTick
	t.Return += s.startTick
	s.g.history = append(s.g.history, t)
}

func TestPlantedAnomaliesAreFoundAndNamed(t *testing.T) {
	var counts tally.Counts
	runSeeds(t, 150, func(rng *rand.Rand) {
		for _, scene := range plantedAnomalies {
			g := generator{
				rng:  rng,
				Txns: 1 + rng.IntN(200), Clients: 1 + rng.IntN(8), Keys: 2 + rng.IntN(4), Steps: 1 + rng.IntN(4),
				Faulty: rng.IntN(10), Plant: scene.play,
			}
			g.PlantAt = rng.IntN(g.Txns)
			h := g.run()
			r := Lists(h)
			if !scene.found(r) {
				t.Errorf("%s not found: %v\n%s", scene.name, r, formatHistory(h))
			}
			if err := checkCycles(h, r); err != nil {
				t.Error(err)
			}
			counts.Add("planted anomalies", 1)
		}
	})
	logCounts(t, &counts, "planted anomalies")
}

// hasOrder reports whether some order of the transactions explains a history:
// the definition of strict serializability, tried out in all ways.
func hasOrder(history []Txn) bool {
	placed := make([]bool, len(history))
	return placeNext(history, placed, map[string][]uint64{})
}

// placeNext puts one more transaction behind those that are placed.
func placeNext(history []Txn, placed []bool, lists map[string][]uint64) bool {
	complete := true
	for i, t := range history {
		if placed[i] || t.Status == Failed {
			continue
		}
		if t.Status == OK {
			complete = false // an open one may be left out
		}
		if mustWait(history, placed, t) {
			continue
		}
		after, ok := replayTxn(t, lists)
		if !ok {
			continue
		}
		placed[i] = true
		if placeNext(history, placed, after) {
			return true
		}
		placed[i] = false
	}
	return complete
}

// mustWait reports whether a transaction that is not placed returned before t began.
func mustWait(history []Txn, placed []bool, t Txn) bool {
	for i, other := range history {
		if !placed[i] && other.Status == OK && other.Return < t.Invoke {
			return true
		}
	}
	return false
}

// replayTxn runs a transaction alone and compares what it reads.
func replayTxn(t Txn, lists map[string][]uint64) (after map[string][]uint64, ok bool) {
	after = cloneLists(lists)
	for _, op := range t.Ops {
		if !op.Read {
			after[op.Key] = append(after[op.Key], op.Element)
		} else if !slices.Equal(op.List, after[op.Key]) {
			return nil, false
		}
	}
	return after, true
}
