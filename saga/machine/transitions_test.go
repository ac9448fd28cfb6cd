package machine

import (
	"fmt"
	"os"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// The pure function is checked by visiting every state that a saga, the other side of its
// steps and whatever is still on its way can be in: crashes, answers that are lost,
// calls that come late, runners that were overtaken, cancels and deadlines, all of them
// at every point and in every order.

// effects is what happened of a step.
type effects struct{ did, undid uint8 }

// inFlight is what a runner that may be dead has sent: it arrives at any time, or never.
type inFlight struct{ do, undo [4]bool }

// model is a state of everything. It is comparable: what was visited is a set.
type model struct {
	journal  int16 // the record, by number
	effects  [4]effects
	inFlight inFlight
	// pendingWrite is a write of a record with its effect, if it has one, that is valid only
	// while the record is as it was when it was sent.
	pendingWrite int16
	pendingStep  int8 // the atomic step that it has the effect of, or -1
	// answeredStep is a step whose answer the runner has, and the journal has not; or -1.
	answeredStep   int8
	answeredUndo   bool
	deadlinePassed bool // the deadline has passed
	cancelAcked    bool // a cancel was acknowledged
}

// stateExplorer explores the states of one definition.
type stateExplorer struct {
	steps   []Planned
	numbers map[recordKey]int16
	records []Record // by number, which is never 0
	edges   map[model][]model
	queue   []model
	failure string
}

var modelRetry = Retry{Attempts: 2, UndoAttempts: 2, First: 1e6, Max: 1e6}

// recordKey is what matters of a record: revisions grow for ever, and are the same to a runner
// that was not overtaken.
type recordKey struct {
	state         State
	at, attempts  int
	doubt         bool
	cancel, cause string
	stuck         Stuck
}

func (u *stateExplorer) numberOf(r Record) int16 {
	key := recordKey{r.State, r.At, r.Attempts, r.Doubt, r.Cancel, r.Cause, r.Stuck}
	n, ok := u.numbers[key]
	if !ok {
		r.NotBeforeMS = 0 // time passes
		u.records = append(u.records, r)
		n = int16(len(u.records))
		u.numbers[key] = n
	}
	return n
}

func (u *stateExplorer) recordOf(m model) Record { return u.records[m.journal-1] }

func (m model) clockMS() int64 {
	if m.deadlinePassed {
		return 2000
	}
	return 500
}

// addEdge notes that a state is followed by another.
func (u *stateExplorer) addEdge(from, to model) {
	if _, seen := u.edges[to]; !seen {
		u.edges[to] = nil
		u.queue = append(u.queue, to)
	}
	u.edges[from] = append(u.edges[from], to)
}

func (u *stateExplorer) failf(m model, format string, args ...any) {
	if u.failure == "" {
		u.failure = fmt.Sprintf(format, args...) + fmt.Sprintf("\n%+v", m)
	}
}

// applyWrite is the state after a record was written: what was sent for the one before is
// void.
func (u *stateExplorer) applyWrite(m model, e Event) (model, bool) {
	e.NowMS, e.Retry = 0, modelRetry
	next, err := Next(u.recordOf(m), e)
	if err != nil {
		return m, false
	}
	if err := next.Validate(); err != nil {
		u.failf(m, "after %+v: %v", e, err)
	}
	m.journal, m.pendingWrite, m.pendingStep = u.numberOf(next), 0, -1
	return m, true
}

// deliverCall is the state after a call has arrived at the other side, which keeps the rules.
func (u *stateExplorer) deliverCall(m model, step int, undo bool) model {
	e := &m.effects[step]
	noted := effects{e.did, e.undid & 2} // undid: 1 it happened, 2 it was noted
	switch Judge(undo, noted.did > 0, noted.undid > 0) {
	case Execute:
		u.executeStep(&m, step, undo)
		if undo {
			e.undid |= 2
		}
	case Note:
		e.undid |= 2
	}
	return m
}

// executeStep takes effect, in its order and once.
func (u *stateExplorer) executeStep(m *model, step int, undo bool) {
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

// exploreNext visits all that can come next.
func (u *stateExplorer) exploreNext(m model) {
	r := u.recordOf(m)
	u.exploreEnvironment(m, r)
	if m.answeredStep >= 0 {
		u.exploreAnswer(m)
		return
	}
	w := Wanted(r, m.clockMS())
	switch w.Kind {
	case Turn:
		u.exploreSave(m, Event{Kind: TurnedRound, NowMS: m.clockMS()})
	case Do, Undo:
		if u.steps[w.Step].Atomic {
			u.exploreAtomic(m, w.Step, w.Kind == Undo)
			return
		}
		u.exploreRemote(m, w.Step, w.Kind == Undo)
	case Wait:
		u.failf(m, "waits at %d until %d", m.clockMS(), w.UntilMS)
	}
}

// exploreAnswer is what a runner does with an answer: it dies, or writes it down, whatever the
// record is by then.
func (u *stateExplorer) exploreAnswer(m model) {
	dead := m
	dead.answeredStep, dead.answeredUndo = -1, false
	u.addEdge(m, dead)
	kind := Did
	if m.answeredUndo {
		kind = Undid
	}
	if next, ok := u.applyWrite(m, Event{Kind: kind, Step: int(m.answeredStep)}); ok {
		next.answeredStep, next.answeredUndo = -1, false
		u.addEdge(m, next)
	}
}

// exploreEnvironment is what happens whatever the runner does.
func (u *stateExplorer) exploreEnvironment(m model, r Record) {
	for i := range u.steps {
		if m.inFlight.do[i] {
			next := u.deliverCall(m, i, false)
			u.addEdge(m, next) // and again later: the network may double it
			next.inFlight.do[i] = false
			u.addEdge(m, next)
		}
		if m.inFlight.undo[i] {
			next := u.deliverCall(m, i, true)
			next.inFlight.undo[i] = false
			u.addEdge(m, next)
		}
	}
	if m.pendingWrite != 0 {
		next := m
		if m.pendingStep >= 0 {
			u.executeStep(&next, int(m.pendingStep), r.State == Compensating)
		}
		next.journal, next.pendingWrite, next.pendingStep = m.pendingWrite, 0, -1
		u.addEdge(m, next)
	}
	if !m.deadlinePassed {
		next := m
		next.deadlinePassed = true
		u.addEdge(m, next)
	}
	if next, ok := u.applyWrite(m, Event{Kind: Cancelled, Why: "c"}); ok && !m.cancelAcked {
		next.cancelAcked = true
		u.addEdge(m, next)
	}
	if next, ok := u.applyWrite(m, Event{Kind: Took, Owner: "b"}); ok {
		next.answeredStep, next.answeredUndo = -1, false // it finds out when it wants to write
		u.addEdge(m, next)
	}
	if next, ok := u.applyWrite(m, Event{Kind: Pushed}); ok && r.Stuck != NotStuck {
		u.addEdge(m, next)
	}
}

// exploreSave is a write of the runner: it happens, or is on its way when the runner dies.
func (u *stateExplorer) exploreSave(m model, e Event) {
	now := e.NowMS
	next, err := Next(u.recordOf(m), Event{Kind: e.Kind, Step: e.Step, Why: e.Why, Retry: modelRetry, NowMS: now})
	if err != nil {
		u.failf(m, "%+v: %v", e, err)
		return
	}
	if err := next.Validate(); err != nil {
		u.failf(m, "after %+v: %v", e, err)
	}
	done := m
	done.journal, done.pendingWrite, done.pendingStep = u.numberOf(next), 0, -1
	u.addEdge(m, done)
	ghost := m
	ghost.pendingWrite, ghost.pendingStep = u.numberOf(next), -1
	u.addEdge(m, ghost)
}

// exploreAtomic is a call whose effect and record are one.
func (u *stateExplorer) exploreAtomic(m model, step int, undo bool) {
	did, failed, refused := Did, DoFailed, DoRefused
	if undo {
		did, failed, refused = Undid, UndoFailed, UndoRefused
	}
	next, ok := u.applyWrite(m, Event{Kind: did, Step: step})
	if !ok {
		u.failf(m, "step %d is wanted, and its end is refused", step)
		return
	}
	ghost := m // it was sent, and the runner died
	ghost.pendingWrite, ghost.pendingStep = next.journal, int8(step)
	u.addEdge(m, ghost)
	u.executeStep(&next, step, undo)
	u.addEdge(m, next)
	u.exploreSave(m, Event{Kind: failed, Step: step, Why: "f"})
	u.exploreSave(m, Event{Kind: refused, Step: step, Why: "p"})
}

// exploreRemote is a call to another side: it arrives or not, and its answer does or not.
func (u *stateExplorer) exploreRemote(m model, step int, undo bool) {
	failed, refused := DoFailed, DoRefused
	if undo {
		failed, refused = UndoFailed, UndoRefused
	}
	arrived := u.deliverCall(m, step, undo)
	u.addEdge(m, arrived) // and the runner dies
	heard := arrived
	heard.answeredStep, heard.answeredUndo = int8(step), undo
	u.addEdge(m, heard)
	u.exploreSave(arrived, Event{Kind: failed, Step: step, Why: "f"}) // the answer is lost
	sent := m                                                         // it is on its way for a long time
	if undo {
		sent.inFlight.undo[step] = true
	} else {
		sent.inFlight.do[step] = true
	}
	u.addEdge(m, sent)
	u.exploreSave(sent, Event{Kind: failed, Step: step, Why: "f"})
	// It was refused, and has not happened; another try of it may be on its way.
	if arrived != m {
		u.exploreSave(m, Event{Kind: refused, Step: step, Why: "p"})
		u.exploreSave(sent, Event{Kind: refused, Step: step, Why: "p"})
	}
}

// checkState checks a state by itself.
func (u *stateExplorer) checkState(m model) {
	r := u.recordOf(m)
	if m.cancelAcked && r.State == Completed {
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

func (u *stateExplorer) exploreAll() {
	start := Begin("s", "d", u.steps, nil, "a", 0, 1000)
	u.edges[model{journal: u.numberOf(start), pendingStep: -1, answeredStep: -1}] = nil
	for first := range u.edges {
		u.queue = append(u.queue, first)
	}
	for len(u.queue) > 0 && u.failure == "" {
		m := u.queue[len(u.queue)-1]
		u.queue = u.queue[:len(u.queue)-1]
		u.checkState(m)
		u.exploreNext(m)
	}
	if u.failure == "" {
		u.checkEndings()
	}
}

// checkEndings checks that from every state an end can be reached: nothing is in vain.
func (u *stateExplorer) checkEndings() {
	back := map[model][]model{}
	var queue []model
	ends := map[model]bool{}
	for m, next := range u.edges {
		for _, n := range next {
			back[n] = append(back[n], m)
		}
		if u.recordOf(m).State.Ended() {
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

// stepKinds are the kinds of steps. The first two have an Undo.
var stepKinds = []Planned{{Atomic: true}, {}, {Atomic: true, Lasting: true}, {Lasting: true}}

// listStepCombinations are all sagas of n steps of some kinds.
func listStepCombinations(n int, kinds []Planned) (all [][]Planned) {
	if n == 0 {
		return [][]Planned{nil}
	}
	for _, before := range listStepCombinations(n-1, kinds) {
		for _, kind := range kinds {
			kind.Name = fmt.Sprint(n)
			all = append(all, append(before[:len(before):len(before)], kind))
		}
	}
	return all
}

func TestEverySagaEndsWholeOrUndoneWhateverHappens(t *testing.T) {
	all := append(listStepCombinations(1, stepKinds), listStepCombinations(2, stepKinds)...)
	if !testing.Short() {
		all = append(all, listStepCombinations(3, stepKinds[:2])...)
	}
	if os.Getenv("CLEAVE_SOAK") != "" {
		all = append(all, listStepCombinations(3, stepKinds)...)
		all = append(all, listStepCombinations(4, stepKinds[:2])...)
	}
	states := 0
	for _, steps := range all {
		u := &stateExplorer{steps: steps, numbers: map[recordKey]int16{}, edges: map[model][]model{}}
		u.exploreAll()
		if u.failure != "" {
			t.Fatalf("steps %+v: %s", steps, u.failure)
		}
		states += len(u.edges)
	}
	tally.Add(t, "sagas explored", len(all))
	tally.Add(t, "states of sagas", states)
}
