package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// Sagas are carried out by a runner that dies at a boundary: before or after a write of
// the journal, before or after an effect. Another one resumes. All boundaries are tried,
// for all that steps can answer.

// fuse lets a process die at its n-th boundary; 0 is never.
type fuse struct {
	mu         sync.Mutex
	boundaries int
	left       int
	out        chan struct{}
}

var errDead = errors.New("the process is dead")

func newFuse(at int) *fuse { return &fuse{left: at, out: make(chan struct{})} }

// passBoundary is a boundary. From the death on nothing happens any more.
func (f *fuse) passBoundary() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boundaries++
	if f.left > 0 {
		if f.left--; f.left == 0 {
			close(f.out)
		}
	}
	return f.deadLocked()
}

func (f *fuse) deadLocked() error {
	select {
	case <-f.out:
		return errDead
	default:
		return nil
	}
}

func (f *fuse) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deadLocked() != nil
}

// crashingJournal is a journal as a process sees it.
type crashingJournal struct {
	saga.Together
	fuse       *fuse
	loseAnswer func(saga.Record) error // the answer of a write
}

func (m *crashingJournal) withBoundaries(f func() error) error {
	if err := m.fuse.passBoundary(); err != nil {
		return err
	}
	return errors.Join(f(), m.fuse.passBoundary())
}

func (m *crashingJournal) Create(ctx context.Context, r saga.Record) error {
	return m.withBoundaries(func() error { return m.Together.Create(ctx, r) })
}

func (m *crashingJournal) Save(ctx context.Context, r saga.Record) error {
	return m.withBoundaries(func() error { return m.Together.Save(ctx, r) })
}

func (m *crashingJournal) Load(ctx context.Context, id string) (saga.Record, error) {
	if m.fuse.isDead() {
		return saga.Record{}, errDead
	}
	return m.Together.Load(ctx, id)
}

func (m *crashingJournal) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	err := m.withBoundaries(func() error {
		return m.Together.SaveWith(ctx, old, func(tx any) (saga.Record, error) {
			next, err := f(tx)
			return next, errors.Join(err, m.fuse.passBoundary())
		})
	})
	if err == nil {
		err = m.loseAnswer(old)
	}
	return err
}

// answer is what a Do comes to, the first time and then.
type answer int

const (
	answerFine    answer = iota
	answerFlaky          // fails once, without an effect
	answerLost           // takes effect, and the first answer is lost
	answerRefused        // fails for good
)

func (a answer) String() string { return []string{"fine", "flaky", "lost", "refused"}[a] }

// sagaPlan is a saga to be played.
type sagaPlan struct {
	atomic  []bool
	answers []answer
	cancel  bool // after the crash
	id      string
}

func (p sagaPlan) String() string {
	return fmt.Sprintf("atomic %v, answers %v, cancelled %v", p.atomic, p.answers, p.cancel)
}

// player plays one saga in a world.
type player struct {
	sagaPlan
	world    world
	answered map[string]bool // what was answered once already
	mu       sync.Mutex
}

var errTransient = errors.New("bad weather")

// isFirst reports whether this is the first time of something.
func (p *player) isFirst(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.answered[what]
	p.answered[what] = true
	return first
}

func (p *player) newDefinition(f *fuse) saga.Definition[sagaValue] {
	d := saga.Definition[sagaValue]{Name: "play", Retry: saga.Retry{First: time.Millisecond, Max: time.Millisecond, Attempts: 4}}
	for i, a := range p.answers {
		name := fmt.Sprintf("step%d", i)
		step := p.world.newStep(p.atomic[i], p.id, name, func(undo bool) error {
			switch {
			case f.passBoundary() != nil:
				return errDead
			case undo && i%2 == 0 && p.isFirst(name+" undo"):
				return errTransient
			case !undo && a == answerRefused:
				return saga.Permanent(errTransient)
			case !undo && a == answerFlaky && p.isFirst(name):
				return errTransient
			}
			return nil
		})
		if !p.atomic[i] {
			step.Do, step.Undo = p.withCrash(f, name, a, step.Do), p.withCrash(f, name, answerFine, step.Undo)
		}
		d.Steps = append(d.Steps, step)
	}
	return d
}

// withCrash is what is behind an effect elsewhere.
func (p *player) withCrash(f *fuse, name string, a answer, do func(context.Context, saga.Call, *sagaValue) error) func(context.Context, saga.Call, *sagaValue) error {
	return func(ctx context.Context, c saga.Call, s *sagaValue) error {
		if err := do(ctx, c, s); err != nil {
			return err
		}
		if a == answerLost && p.isFirst(name) {
			return errTransient
		}
		return f.passBoundary()
	}
}

// startProcess starts a process that dies at a boundary, and returns its runner.
func (p *player) startProcess(t *testing.T, f *fuse) (*saga.Runner, *saga.Sagas[sagaValue]) {
	t.Helper()
	lose := func(r saga.Record) error {
		if r.State == saga.Running && p.answers[r.At] == answerLost && p.isFirst(fmt.Sprintf("step%d", r.At)) {
			return errTransient
		}
		return nil
	}
	r, err := saga.NewRunner(&crashingJournal{p.world.sagaJournal(), f, lose}, saga.Options{})
	must(t, err)
	g, err := saga.Register(r, p.newDefinition(f))
	must(t, err)
	return r, g
}

// runSaga has the saga die at a boundary and go on, and returns how many boundaries the
// first process came to.
func (p *player) runSaga(t *testing.T, at int) int {
	t.Helper()
	first := newFuse(at)
	r, g := p.startProcess(t, first)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, err := g.Run(ctx, p.id, sagaValue{})
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
		stop()
		must(t, r.Close())
	case <-first.out:
		stop()
		must(t, r.Close())
		err = <-ended
	}
	if !first.isDead() && at != 0 {
		p.checkOutcome(t, g, err, at)
		return first.boundaries
	}
	r, g = p.startProcess(t, newFuse(0))
	defer r.Close()
	if p.cancel {
		if err := r.Cancel(t.Context(), p.id, "the test wants it"); err != nil && !errors.Is(err, saga.ErrNotFound) && !errors.Is(err, saga.ErrEnded) {
			t.Fatal(err)
		}
	}
	_, err = r.Resume(t.Context())
	must(t, err)
	_, err = g.Run(t.Context(), p.id, sagaValue{}) // also if it had not begun
	p.checkOutcome(t, g, err, at)
	return first.boundaries
}

// checkOutcome compares what is there with what may be.
func (p *player) checkOutcome(t *testing.T, g *saga.Sagas[sagaValue], err error, at int) {
	t.Helper()
	failed := slices.Contains(p.answers, answerRefused)
	switch {
	case err == nil && failed, errors.Is(err, saga.ErrCompensated) && !failed && !p.cancel, err != nil && !errors.Is(err, saga.ErrCompensated):
		t.Errorf("%v, crash at boundary %d: it ends with %v", p, at, err)
	}
	r, loadErr := p.world.sagaJournal().Load(t.Context(), p.id)
	must(t, loadErr)
	for i := range p.answers {
		name := fmt.Sprintf("step%d", i)
		did, undid := p.world.countEffects(t, p.id, name)
		if did > 1 || undid > did || err == nil && (did != 1 || undid != 0) || err != nil && did != undid {
			t.Errorf("%v, crash at boundary %d, %v: %s was done %d times and undone %d times", p, at, r.State, name, did, undid)
		}
	}
	wantDone := 0
	if err == nil {
		wantDone = len(p.answers)
	}
	v, again := g.Wait(t.Context(), p.id)
	if (again == nil) != (err == nil) || len(v.Done) != wantDone && !errors.Is(again, saga.ErrClosed) {
		t.Errorf("%v, crash at boundary %d: asked again: %v with value %v", p, at, again, v)
	}
}

// plans are all sagas of n steps.
func plans(n int) (all []sagaPlan) {
	var answers func(list []answer)
	answers = func(list []answer) {
		if len(list) == n || len(list) > 0 && list[len(list)-1] == answerRefused {
			full := append(slices.Clone(list), make([]answer, n-len(list))...)
			for _, atomic := range [][]bool{{true, true, true, true}, {false, false, false, false}, {true, false, true, false}} {
				all = append(all, sagaPlan{atomic: atomic[:n], answers: full}, sagaPlan{atomic: atomic[:n], answers: full, cancel: true})
			}
			return
		}
		for _, a := range []answer{answerFine, answerFlaky, answerLost, answerRefused} {
			answers(append(list[:len(list):len(list)], a))
		}
	}
	answers(nil)
	return all
}

// runPlans plays each plan with a crash at each boundary; of those of the most steps only
// each stride-th.
func runPlans(t *testing.T, most, stride int, w func(t *testing.T) world, each func(t *testing.T, f func(*testing.T))) {
	played := 0
	for n := 1; n <= most; n++ {
		for i, p := range plans(n) {
			if n == most && i%stride != 0 {
				continue
			}
			for at := 1; ; at++ {
				boundaries := 0
				each(t, func(t *testing.T) {
					q := &player{sagaPlan: p, world: w(t), answered: map[string]bool{}}
					q.id = fmt.Sprintf("%d-%d-%d", n, i, at)
					boundaries = q.runSaga(t, at)
				})
				played++
				if t.Failed() {
					return
				}
				if boundaries < at {
					break
				}
			}
		}
	}
	tally.Add(t, "sagas crashed", played)
}

func scaleRounds() bool { return os.Getenv("CLEAVE_SOAK") != "" }

func TestASagaThatCrashesAnywhereEndsWholeOrUndone(t *testing.T) {
	most, stride := 3, 1
	switch {
	case testing.Short():
		most = 2
	case scaleRounds():
		most = 4
	}
	runPlans(t, most, stride, func(*testing.T) world { return newMemoryWorld() }, func(t *testing.T, f func(*testing.T)) {
		synctest.Test(t, f)
	})
}

func TestASagaOnAStoreThatCrashesAnywhereEndsWholeOrUndone(t *testing.T) {
	most, stride := 2, 5 // prime to how plans of one kind follow each other
	switch {
	case testing.Short():
		most, stride = 1, 1
	case scaleRounds():
		most, stride = 4, 1
	}
	// The keys of a saga are in several groups and stores.
	w := newStoreWorld(t, openMemory(t, cleave.Options{Stores: 2, Groups: 4}), openMemory(t, cleave.Options{}))
	runPlans(t, most, stride, func(*testing.T) world { return w }, func(t *testing.T, f func(*testing.T)) { f(t) })
}

// sagaValue is what the sagas of these tests carry: the steps that were done.
type sagaValue struct{ Done []string }

// world is where steps take effect and the journal is kept, whichever process dies.
type world interface {
	sagaJournal() saga.Together
	// newStep makes a step that counts itself. told is asked before the effect and may
	// refuse it.
	newStep(atomic bool, id, name string, told func(undo bool) error) saga.Step[sagaValue]
	// countEffects returns how often a step took effect, and was taken back.
	countEffects(t *testing.T, id, name string) (did, undid int)
}

// recordStep keeps the value in step with what was done, so that a value that is lost is seen.
func recordStep(s *sagaValue, name string, undo bool) error {
	if !undo {
		s.Done = append(s.Done, name)
		return nil
	}
	if n := len(s.Done); n > 0 && s.Done[n-1] == name {
		s.Done = s.Done[:n-1]
	}
	return nil
}

// memoryWorld has all in memory.
type memoryWorld struct {
	saga.Journal
	mu     sync.Mutex
	effect map[string]int
	marks  map[string]bool
}

func newMemoryWorld() *memoryWorld {
	return &memoryWorld{Journal: saga.NewMemoryJournal(), effect: map[string]int{}, marks: map[string]bool{}}
}

// memoryTxn gathers effects.
type memoryTxn struct{ counts []string }

func (w *memoryWorld) sagaJournal() saga.Together { return w }

func (w *memoryWorld) Fits(tx any) bool { _, ok := tx.(*memoryTxn); return ok }

func (w *memoryWorld) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	var tx memoryTxn
	next, err := f(&tx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	save := w.Save
	if old.Revision == 0 {
		save = w.Create
	}
	if err := save(ctx, next); err != nil {
		return err
	}
	for _, c := range tx.counts {
		w.effect[c]++
	}
	return nil
}

func effectKey(id, name string, undo bool) string { return fmt.Sprintf("%s/%s/%t", id, name, undo) }

func (w *memoryWorld) newStep(atomic bool, id, name string, told func(undo bool) error) saga.Step[sagaValue] {
	if atomic {
		f := func(undo bool) func(tx *memoryTxn, s *sagaValue) error {
			return func(tx *memoryTxn, s *sagaValue) error {
				tx.counts = append(tx.counts, effectKey(id, name, undo))
				return errors.Join(told(undo), recordStep(s, name, undo))
			}
		}
		return saga.Transactional(name, f(false), f(true))
	}
	f := func(_ context.Context, c saga.Call, s *sagaValue) error {
		if err := told(c.Undo); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		do, undo := effectKey(id, name, false), effectKey(id, name, true)
		switch saga.Judge(c.Undo, w.marks[do], w.marks[undo]) {
		case saga.Execute:
			w.effect[effectKey(id, name, c.Undo)]++
			fallthrough
		case saga.Note:
			w.marks[effectKey(id, name, c.Undo)] = true
		case saga.Refuse:
			return saga.Permanent(saga.ErrUndone)
		}
		return recordStep(s, name, c.Undo)
	}
	return saga.Step[sagaValue]{Name: name, Do: f, Undo: f}
}

func (w *memoryWorld) countEffects(_ *testing.T, id, name string) (did, undid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effect[effectKey(id, name, false)], w.effect[effectKey(id, name, true)]
}

// storeWorld has the journal and the atomic steps in one store, the others in another.
type storeWorld struct {
	db, other     *cleave.DB
	j             *journal.Journal
	effect        *cleave.Keyspace
	effect2, mark *cleave.Keyspace
}

func newStoreWorld(t *testing.T, db, other *cleave.DB) *storeWorld {
	t.Helper()
	w := &storeWorld{db: db, other: other, effect: db.Default(), effect2: other.Default()}
	var err error
	w.j, err = journal.Open(t.Context(), db, journal.Options{})
	must(t, err)
	w.mark, err = other.OpenKeyspace(t.Context(), cleave.KeyspaceOptions{Name: "marks"})
	must(t, err)
	return w
}

func openMemory(t *testing.T, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *storeWorld) sagaJournal() saga.Together { return w.j }

func (w *storeWorld) newStep(atomic bool, id, name string, told func(undo bool) error) saga.Step[sagaValue] {
	if atomic {
		f := func(undo bool) func(tx *cleave.Txn, s *sagaValue) error {
			return func(tx *cleave.Txn, s *sagaValue) error {
				_, err := tx.Add(w.effect, []byte(effectKey(id, name, undo)), 1)
				return errors.Join(err, told(undo), recordStep(s, name, undo))
			}
		}
		return journal.Step(name, f(false), f(true))
	}
	f := func(ctx context.Context, c saga.Call, s *sagaValue) error {
		if err := told(c.Undo); err != nil {
			return err
		}
		err := w.other.Update(ctx, func(tx *cleave.Txn) error {
			return journal.Once(tx, w.mark, c, func() error {
				_, err := tx.Add(w.effect2, []byte(effectKey(id, name, c.Undo)), 1)
				return err
			})
		})
		if err != nil {
			return err
		}
		return recordStep(s, name, c.Undo)
	}
	return saga.Step[sagaValue]{Name: name, Do: f, Undo: f}
}

func (w *storeWorld) countEffects(t *testing.T, id, name string) (did, undid int) {
	count := func(undo bool) (n int) {
		for _, ks := range []*cleave.Keyspace{w.effect, w.effect2} {
			sum, err := ks.Add(t.Context(), []byte(effectKey(id, name, undo)), 0)
			must(t, err)
			n += int(sum)
		}
		return n
	}
	return count(false), count(true)
}
