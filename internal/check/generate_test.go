package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// isolation is how well the store of a generated history keeps transactions
// apart.
type isolation int

const (
	// serial runs a transaction at one instant: every history of it is right.
	serial isolation = iota
	// snapshot reads from the state at the start, and writes at the end
	// whatever others did.
	snapshot
	// stale runs at one instant, and may read from the past.
	stale
	// ragged runs each step at an instant of its own, failed transactions too.
	ragged
)

// generator drives a store in memory by clients whose calls overlap.
type generator struct {
	Isolation isolation
	Txns      int
	Clients   int
	Keys      int
	Steps     int   // most of one transaction
	Coarse    int64 // events that share an instant
	Faulty    int   // per cent of the calls that fail, and as many that stay open
	Fresh     int   // appends after which a key is given up for a new one; 0 is never
	// Scene, if any, plays when SceneAt transactions have begun.
	Scene   func(*stage)
	SceneAt int

	rng     *rand.Rand
	lists   map[string][]uint64
	past    []map[string][]uint64
	appends map[int]int // to the keys of a number
	element uint64
	history []Txn
}

// running is a transaction that is not done.
type running struct {
	at       int // its place in the history
	next     int // step
	snapshot map[string][]uint64
	orphan   bool // nobody waits for it
}

// run returns a history.
func (g *generator) run() []Txn {
	g.lists, g.appends = map[string][]uint64{}, map[int]int{}
	g.history = make([]Txn, 0, g.Txns)
	clients := make([]*running, g.Clients)
	var orphans []*running
	busy := 0
	for event := int64(0); len(g.history) < g.Txns || busy > 0; event++ {
		if g.Scene != nil && len(g.history) >= g.SceneAt {
			g.Scene(&stage{g, event + 1})
			g.Scene = nil
			event += 11
		}
		now := event / max(g.Coarse, 1)
		if len(orphans) > 0 && g.rng.IntN(4) == 0 {
			if i := g.rng.IntN(len(orphans)); g.execute(orphans[i]) {
				orphans = slices.Delete(orphans, i, i+1)
			}
			continue
		}
		c := g.rng.IntN(g.Clients)
		r := clients[c]
		if r == nil {
			if len(g.history) < g.Txns {
				clients[c] = &running{at: len(g.history)}
				g.history = append(g.history, Txn{Call: Call{Client: c, Invoke: now}, Ops: g.plan()})
				busy++
			}
			continue
		}
		txn := &g.history[r.at]
		executed := r.next == len(txn.Ops)
		switch roll := g.rng.IntN(100); {
		case roll < g.Faulty:
			// Nobody hears of it any more; of its reads those are known that were
			// answered.
			r.orphan = true
			if !executed {
				orphans = append(orphans, r)
			}
			g.forget(txn, r.next)
		case roll < 2*g.Faulty && !executed:
			txn.Status, txn.Return = Failed, now
		case executed:
			txn.Status, txn.Return = OK, now
		default:
			g.execute(r)
			continue
		}
		clients[c] = nil
		busy--
	}
	return g.history
}

// forget leaves out the reads from a step on. What is left to run are appends.
func (g *generator) forget(txn *Txn, from int) {
	txn.Ops = slices.Concat(txn.Ops[:from], slices.DeleteFunc(slices.Clone(txn.Ops[from:]), func(op Op) bool { return op.Read }))
}

// plan makes the steps of a transaction.
func (g *generator) plan() (ops []Op) {
	for range 1 + g.rng.IntN(g.Steps) {
		n := g.rng.IntN(g.Keys)
		key := fmt.Sprintf("k%d", n)
		if g.Fresh > 0 {
			key = fmt.Sprintf("k%d.%d", n, g.appends[n]/g.Fresh)
		}
		if g.rng.IntN(2) == 0 {
			ops = append(ops, Read(key))
			continue
		}
		g.element++
		g.appends[n]++
		ops = append(ops, Append(key, g.element))
	}
	return ops
}

// execute runs the next step, or all. It tells whether none is left.
func (g *generator) execute(r *running) bool {
	ops := g.history[r.at].Ops
	if g.Isolation == ragged {
		if r.next < len(ops) {
			g.step(&ops[r.next], g.lists, g.lists)
			r.next++
		}
		return r.next == len(ops)
	}
	view := g.lists
	switch g.Isolation {
	case stale:
		view = g.lists
		if len(g.past) > 0 && g.rng.IntN(3) == 0 {
			view = g.past[g.rng.IntN(len(g.past))]
		}
		g.past = append(g.past, copyOf(g.lists))
		view = copyOf(view)
	case snapshot:
		if r.snapshot == nil {
			r.snapshot = copyOf(g.lists)
			return false
		}
		view = r.snapshot
	}
	for i := range ops[r.next:] {
		g.step(&ops[r.next+i], view, g.lists)
	}
	r.next = len(ops)
	return true
}

// step reads from the view and writes to both.
func (g *generator) step(op *Op, view, lists map[string][]uint64) {
	if op.Read {
		op.List = slices.Clip(view[op.Key])
		return
	}
	// A reader's list stays as it was: what it shares is never written again.
	view[op.Key] = append(view[op.Key], op.Element)
	if g.Isolation != serial && g.Isolation != ragged {
		lists[op.Key] = append(slices.Clone(lists[op.Key]), op.Element)
		view[op.Key] = slices.Clone(view[op.Key])
	}
}

func copyOf(lists map[string][]uint64) map[string][]uint64 {
	c := make(map[string][]uint64, len(lists))
	for k, list := range lists {
		c[k] = slices.Clone(list)
	}
	return c
}
