package saga

import (
	"fmt"
	"os"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// The pure function is checked by visiting every state that a saga, the other side of its
// steps and whatever is still on its way can be in: crashes, answers that are lost,
// calls that come late, runners that were overtaken, cancels and deadlines, all of them
// at every point and in every order.

// effects is what happened of a step.
type effects struct{ did, undid uint8 }

// flight is what a runner that may be dead has sent: it arrives at any time, or never.
type flight struct{ do, undo [4]bool }

// model is a state of everything. It is comparable: what was visited is a set.
type model struct {
	journal int16 // the record, by number
	effects [4]effects
	flight  flight
	// ghost is a write of a record with its effect, if it has one, that is valid only
	// while the record is as it was when it was sent.
	ghost     int16
	ghostStep int8 // the atomic step that it has the effect of, or -1
	// heard is a step whose answer the runner has, and the journal has not; or -1.
	heard     int8
	heardUndo bool
	late      bool // the deadline has passed
	asked     bool // a cancel was acknowledged
}

// universe explores the states of one definition.
type universe struct {
	steps   []Planned
	numbers map[essence]int16
	known   []Record // by number, which is never 0
	edges   map[model][]model
	queue   []model
	broken  string
}

var modelRetry = Retry{Attempts: 2, UndoAttempts: 2, First: 1e6, Max: 1e6}

// essence is what matters of a record: revisions grow for ever, and are the same to who
// was not overtaken.
type essence struct {
	state         State
	at, attempts  int
	doubt         bool
	cancel, cause string
	stuck         Stuck
}

func (u *universe) number(r Record) int16 {
	key := essence{r.State, r.At, r.Attempts, r.Doubt, r.Cancel, r.Cause, r.Stuck}
	n, ok := u.numbers[key]
	if !ok {
		r.NotBeforeMS = 0 // time passes
		u.known = append(u.known, r)
		n = int16(len(u.known))
		u.numbers[key] = n
	}
	return n
}

func (u *universe) record(m model) Record { return u.known[m.journal-1] }

func (m model) now() int64 {
	if m.late {
		return 2000
	}
	return 500
}

// reach notes that a state is followed by another.
func (u *universe) reach(from, to model) {
	if _, seen := u.edges[to]; !seen {
		u.edges[to] = nil
		u.queue = append(u.queue, to)
	}
	u.edges[from] = append(u.edges[from], to)
}

func (u *universe) failf(m model, format string, args ...any) {
	if u.broken == "" {
		u.broken = fmt.Sprintf(format, args...) + fmt.Sprintf("\n%+v", m)
	}
}

// write is the state after a record was written: what was sent for the one before is
// void.
func (u *universe) write(m model, e Event) (model, bool) {
	e.NowMS, e.Retry = 0, modelRetry
	next, err := Next(u.record(m), e)
	if err != nil {
		return m, false
	}
	if err := next.Check(); err != nil {
		u.failf(m, "after %+v: %v", e, err)
	}
	m.journal, m.ghost, m.ghostStep = u.number(next), 0, -1
	return m, true
}

// arrive is the state after a call has arrived at the other side, which keeps the rules.
func (u *universe) arrive(m model, step int, undo bool) model {
	e := &m.effects[step]
	noted := effects{e.did, e.undid & 2} // undid: 1 it happened, 2 it was noted
	switch Judge(undo, noted.did > 0, noted.undid > 0) {
	case Execute:
		u.execute(&m, step, undo)
		if undo {
			e.undid |= 2
		}
	case Note:
		e.undid |= 2
	}
	return m
}

// execute takes effect, in its order and once.
func (u *universe) execute(m *model, step int, undo bool) {
	inEffect := func(i int) bool { return m.effects[i].did == 1 && m.effects[i].undid&1 == 0 }
	// Nothing blocks a Do that comes late if there is no Undo to do it.
	loose := u.steps[step].Lasting && !u.steps[step].Atomic
	for i := range u.steps {
		if i < step && !undo && !inEffect(i) && !loose {
			u.failf(*m, "step %d is done without step %d", step, i)
		}
		if i > step && inEffect(i) && !u.steps[i].Lasting {
			u.failf(*m, "step %d: undo %v while step %d is in effect", step, undo, i)
		}
	}
	e := &m.effects[step]
	switch {
	case undo && (e.did != 1 || e.undid&1 != 0):
		u.failf(*m, "step %d is undone and was not in effect", step)
	case !undo && e.did != 0:
		u.failf(*m, "step %d is done twice", step)
	case undo:
		e.undid |= 1
	default:
		e.did++
	}
}

// follow visits all that can come next.
func (u *universe) follow(m model) {
	r := u.record(m)
	u.weather(m, r)
	if m.heard >= 0 {
		u.hear(m)
		return
	}
	w := Wanted(r, m.now())
	switch w.Kind {
	case Turn:
		u.save(m, Event{Kind: TurnedRound, NowMS: m.now()})
	case Do, Undo:
		if u.steps[w.Step].Atomic {
			u.atomic(m, w.Step, w.Kind == Undo)
			return
		}
		u.elsewhere(m, w.Step, w.Kind == Undo)
	case Wait:
		u.failf(m, "waits at %d until %d", m.now(), w.UntilMS)
	}
}

// hear is what a runner does with an answer: it dies, or writes it down, whatever the
// record is by then.
func (u *universe) hear(m model) {
	dead := m
	dead.heard, dead.heardUndo = -1, false
	u.reach(m, dead)
	kind := Did
	if m.heardUndo {
		kind = Undid
	}
	if next, ok := u.write(m, Event{Kind: kind, Step: int(m.heard)}); ok {
		next.heard, next.heardUndo = -1, false
		u.reach(m, next)
	}
}

// weather is what happens whatever the runner does.
func (u *universe) weather(m model, r Record) {
	for i := range u.steps {
		if m.flight.do[i] {
			next := u.arrive(m, i, false)
			u.reach(m, next) // and again later: the network may double it
			next.flight.do[i] = false
			u.reach(m, next)
		}
		if m.flight.undo[i] {
			next := u.arrive(m, i, true)
			next.flight.undo[i] = false
			u.reach(m, next)
		}
	}
	if m.ghost != 0 {
		next := m
		if m.ghostStep >= 0 {
			u.execute(&next, int(m.ghostStep), r.State == Compensating)
		}
		next.journal, next.ghost, next.ghostStep = m.ghost, 0, -1
		u.reach(m, next)
	}
	if !m.late {
		next := m
		next.late = true
		u.reach(m, next)
	}
	if next, ok := u.write(m, Event{Kind: Cancelled, Why: "c"}); ok && !m.asked {
		next.asked = true
		u.reach(m, next)
	}
	if next, ok := u.write(m, Event{Kind: Took, Owner: "b"}); ok {
		next.heard, next.heardUndo = -1, false // it finds out when it wants to write
		u.reach(m, next)
	}
	if next, ok := u.write(m, Event{Kind: Pushed}); ok && r.Stuck != NotStuck {
		u.reach(m, next)
	}
}

// save is a write of the runner: it happens, or is on its way when the runner dies.
func (u *universe) save(m model, e Event) {
	now := e.NowMS
	next, err := Next(u.record(m), Event{Kind: e.Kind, Step: e.Step, Why: e.Why, Retry: modelRetry, NowMS: now})
	if err != nil {
		u.failf(m, "%+v: %v", e, err)
		return
	}
	if err := next.Check(); err != nil {
		u.failf(m, "after %+v: %v", e, err)
	}
	done := m
	done.journal, done.ghost, done.ghostStep = u.number(next), 0, -1
	u.reach(m, done)
	ghost := m
	ghost.ghost, ghost.ghostStep = u.number(next), -1
	u.reach(m, ghost)
}

// atomic is a call whose effect and record are one.
func (u *universe) atomic(m model, step int, undo bool) {
	did, failed, refused := Did, DoFailed, DoRefused
	if undo {
		did, failed, refused = Undid, UndoFailed, UndoRefused
	}
	next, ok := u.write(m, Event{Kind: did, Step: step})
	if !ok {
		u.failf(m, "step %d is wanted, and its end is refused", step)
		return
	}
	ghost := m // it was sent, and the runner died
	ghost.ghost, ghost.ghostStep = next.journal, int8(step)
	u.reach(m, ghost)
	u.execute(&next, step, undo)
	u.reach(m, next)
	u.save(m, Event{Kind: failed, Step: step, Why: "f"})
	u.save(m, Event{Kind: refused, Step: step, Why: "p"})
}

// elsewhere is a call to another side: it arrives or not, and is heard of or not.
func (u *universe) elsewhere(m model, step int, undo bool) {
	failed, refused := DoFailed, DoRefused
	if undo {
		failed, refused = UndoFailed, UndoRefused
	}
	arrived := u.arrive(m, step, undo)
	u.reach(m, arrived) // and the runner dies
	heard := arrived
	heard.heard, heard.heardUndo = int8(step), undo
	u.reach(m, heard)
	u.save(arrived, Event{Kind: failed, Step: step, Why: "f"}) // the answer is lost
	sent := m                                                  // it is on its way for a long time
	if undo {
		sent.flight.undo[step] = true
	} else {
		sent.flight.do[step] = true
	}
	u.reach(m, sent)
	u.save(sent, Event{Kind: failed, Step: step, Why: "f"})
	// It was refused, and has not happened; another try of it may be on its way.
	if arrived != m {
		u.save(m, Event{Kind: refused, Step: step, Why: "p"})
		u.save(sent, Event{Kind: refused, Step: step, Why: "p"})
	}
}

// judge checks a state by itself.
func (u *universe) judge(m model) {
	r := u.record(m)
	if m.asked && r.State == Completed {
		u.failf(m, "completed although a cancel was acknowledged")
	}
	if !r.State.Ended() {
		return
	}
	for i, p := range u.steps {
		e := m.effects[i]
		switch {
		case r.State == Completed && (e.did != 1 || e.undid&1 != 0):
			u.failf(m, "completed, and step %d is not in effect", i)
		case r.State == Compensated && !p.Lasting && e.did == 1 && e.undid&1 == 0:
			u.failf(m, "compensated, and step %d is in effect", i)
		}
	}
}

func (u *universe) explore() {
	start := Begin("s", "d", u.steps, nil, "a", 0, 1000)
	u.edges[model{journal: u.number(start), ghostStep: -1, heard: -1}] = nil
	for first := range u.edges {
		u.queue = append(u.queue, first)
	}
	for len(u.queue) > 0 && u.broken == "" {
		m := u.queue[len(u.queue)-1]
		u.queue = u.queue[:len(u.queue)-1]
		u.judge(m)
		u.follow(m)
	}
	if u.broken == "" {
		u.endings()
	}
}

// endings checks that from every state an end can be reached: nothing is in vain.
func (u *universe) endings() {
	back := map[model][]model{}
	var queue []model
	ends := map[model]bool{}
	for m, next := range u.edges {
		for _, n := range next {
			back[n] = append(back[n], m)
		}
		if u.record(m).State.Ended() {
			ends[m] = true
			queue = append(queue, m)
		}
	}
	for len(queue) > 0 {
		m := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, b := range back[m] {
			if !ends[b] {
				ends[b] = true
				queue = append(queue, b)
			}
		}
	}
	for m := range u.edges {
		if !ends[m] {
			u.failf(m, "it never ends from here")
		}
	}
}

// stepKinds are told apart. The first two have an Undo.
var stepKinds = []Planned{{Atomic: true}, {}, {Atomic: true, Lasting: true}, {Lasting: true}}

// sagasOf are all sagas of n steps of some kinds.
func sagasOf(n int, kinds []Planned) (all [][]Planned) {
	if n == 0 {
		return [][]Planned{nil}
	}
	for _, before := range sagasOf(n-1, kinds) {
		for _, kind := range kinds {
			kind.Name = fmt.Sprint(n)
			all = append(all, append(before[:len(before):len(before)], kind))
		}
	}
	return all
}

func TestEverySagaEndsWholeOrUndoneWhateverHappens(t *testing.T) {
	all := append(sagasOf(1, stepKinds), sagasOf(2, stepKinds)...)
	if !testing.Short() {
		all = append(all, sagasOf(3, stepKinds[:2])...)
	}
	if os.Getenv("CLEAVE_SOAK") != "" {
		all = append(all, sagasOf(3, stepKinds)...)
		all = append(all, sagasOf(4, stepKinds[:2])...)
	}
	states := 0
	for _, steps := range all {
		u := &universe{steps: steps, numbers: map[essence]int16{}, edges: map[model][]model{}}
		u.explore()
		if u.broken != "" {
			t.Fatalf("steps %+v: %s", steps, u.broken)
		}
		states += len(u.edges)
	}
	tally.Add(t, "sagas explored", len(all))
	tally.Add(t, "states of sagas", states)
}
