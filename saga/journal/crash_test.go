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
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/saga"
)

// Sagas are carried out by a runner that dies at a boundary: before or after a write of
// the journal, before or after an effect. Another one resumes. All boundaries are tried,
// for all that steps can answer.

// fuse lets a process die at its n-th boundary; 0 is never.
type fuse struct {
	mu   sync.Mutex
	n    int
	left int
	out  chan struct{}
}

var errDead = errors.New("the process is dead")

func newFuse(at int) *fuse { return &fuse{left: at, out: make(chan struct{})} }

// point is a boundary. From the death on nothing happens any more.
func (f *fuse) point() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
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

func (f *fuse) dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deadLocked() != nil
}

// mortal is a journal as a process sees it.
type mortal struct {
	saga.Together
	fuse *fuse
	lose func(saga.Record) error // the answer of a write
}

func (m *mortal) around(f func() error) error {
	if err := m.fuse.point(); err != nil {
		return err
	}
	return errors.Join(f(), m.fuse.point())
}

func (m *mortal) Create(ctx context.Context, r saga.Record) error {
	return m.around(func() error { return m.Together.Create(ctx, r) })
}

func (m *mortal) Save(ctx context.Context, r saga.Record) error {
	return m.around(func() error { return m.Together.Save(ctx, r) })
}

func (m *mortal) Load(ctx context.Context, id string) (saga.Record, error) {
	if m.fuse.dead() {
		return saga.Record{}, errDead
	}
	return m.Together.Load(ctx, id)
}

func (m *mortal) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	err := m.around(func() error {
		return m.Together.SaveWith(ctx, old, func(tx any) (saga.Record, error) {
			next, err := f(tx)
			return next, errors.Join(err, m.fuse.point())
		})
	})
	if err == nil {
		err = m.lose(old)
	}
	return err
}

// answer is what a Do comes to, the first time and then.
type answer int

const (
	fine    answer = iota
	flaky          // fails once, without an effect
	lost           // takes effect, and the first answer is lost
	refused        // fails for good
)

func (a answer) String() string { return []string{"fine", "flaky", "lost", "refused"}[a] }

// plan is a saga to be played.
type plan struct {
	atomic  []bool
	answers []answer
	cancel  bool // after the crash
	id      string
}

func (p plan) String() string {
	return fmt.Sprintf("atomic %v, answers %v, cancelled %v", p.atomic, p.answers, p.cancel)
}

// player plays one saga in a world.
type player struct {
	plan
	w    world
	used map[string]bool // what was answered once already
	mu   sync.Mutex
}

var errWeather = errors.New("bad weather")

// once tells whether this is the first time of something.
func (p *player) once(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.used[what]
	p.used[what] = true
	return first
}

func (p *player) definition(f *fuse) saga.Definition[value] {
	d := saga.Definition[value]{Name: "play", Retry: saga.Retry{First: time.Millisecond, Max: time.Millisecond, Attempts: 4}}
	for i, a := range p.answers {
		name := fmt.Sprintf("step%d", i)
		step := p.w.step(p.atomic[i], p.id, name, func(undo bool) error {
			switch {
			case f.point() != nil:
				return errDead
			case undo && i%2 == 0 && p.once(name+" undo"):
				return errWeather
			case !undo && a == refused:
				return saga.Permanent(errWeather)
			case !undo && a == flaky && p.once(name):
				return errWeather
			}
			return nil
		})
		if !p.atomic[i] {
			step.Do, step.Undo = p.around(f, name, a, step.Do), p.around(f, name, fine, step.Undo)
		}
		d.Steps = append(d.Steps, step)
	}
	return d
}

// around is what is behind an effect elsewhere.
func (p *player) around(f *fuse, name string, a answer, do func(context.Context, saga.Call, *value) error) func(context.Context, saga.Call, *value) error {
	return func(ctx context.Context, c saga.Call, s *value) error {
		if err := do(ctx, c, s); err != nil {
			return err
		}
		if a == lost && p.once(name) {
			return errWeather
		}
		return f.point()
	}
}

// live starts a process that dies at a boundary, and returns its runner.
func (p *player) live(t *testing.T, f *fuse) (*saga.Runner, *saga.Sagas[value]) {
	t.Helper()
	lose := func(r saga.Record) error {
		if r.State == saga.Running && p.answers[r.At] == lost && p.once(fmt.Sprintf("step%d", r.At)) {
			return errWeather
		}
		return nil
	}
	r, err := saga.NewRunner(&mortal{p.w.journal(), f, lose}, saga.Options{})
	must(t, err)
	g, err := saga.Register(r, p.definition(f))
	must(t, err)
	return r, g
}

// play has the saga die at a boundary and go on, and returns how many boundaries the
// first process came to.
func (p *player) play(t *testing.T, at int) int {
	t.Helper()
	first := newFuse(at)
	r, g := p.live(t, first)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, err := g.Run(ctx, p.id, value{})
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
	if !first.dead() && at != 0 {
		p.judge(t, g, err, at)
		return first.n
	}
	r, g = p.live(t, newFuse(0))
	defer r.Close()
	if p.cancel {
		if err := r.Cancel(t.Context(), p.id, "the test wants it"); err != nil && !errors.Is(err, saga.ErrNotFound) && !errors.Is(err, saga.ErrEnded) {
			t.Fatal(err)
		}
	}
	_, err = r.Resume(t.Context())
	must(t, err)
	_, err = g.Run(t.Context(), p.id, value{}) // also if it had not begun
	p.judge(t, g, err, at)
	return first.n
}

// judge compares what is there with what may be.
func (p *player) judge(t *testing.T, g *saga.Sagas[value], err error, at int) {
	t.Helper()
	failed := slices.Contains(p.answers, refused)
	switch {
	case err == nil && failed, errors.Is(err, saga.ErrCompensated) && !failed && !p.cancel, err != nil && !errors.Is(err, saga.ErrCompensated):
		t.Errorf("%v, crash at boundary %d: it ends with %v", p, at, err)
	}
	r, loadErr := p.w.journal().Load(t.Context(), p.id)
	must(t, loadErr)
	for i := range p.answers {
		name := fmt.Sprintf("step%d", i)
		did, undid := p.w.counts(t, p.id, name)
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
func plans(n int) (all []plan) {
	var answers func(list []answer)
	answers = func(list []answer) {
		if len(list) == n || len(list) > 0 && list[len(list)-1] == refused {
			full := append(slices.Clone(list), make([]answer, n-len(list))...)
			for _, atomic := range [][]bool{{true, true, true, true}, {false, false, false, false}, {true, false, true, false}} {
				all = append(all, plan{atomic: atomic[:n], answers: full}, plan{atomic: atomic[:n], answers: full, cancel: true})
			}
			return
		}
		for _, a := range []answer{fine, flaky, lost, refused} {
			answers(append(list[:len(list):len(list)], a))
		}
	}
	answers(nil)
	return all
}

// playAll plays each plan with a crash at each boundary; of those of the most steps only
// each stride-th.
func playAll(t *testing.T, most, stride int, w func(t *testing.T) world, each func(t *testing.T, f func(*testing.T))) {
	played := 0
	for n := 1; n <= most; n++ {
		for i, p := range plans(n) {
			if n == most && i%stride != 0 {
				continue
			}
			for at := 1; ; at++ {
				boundaries := 0
				each(t, func(t *testing.T) {
					q := &player{plan: p, w: w(t), used: map[string]bool{}}
					q.id = fmt.Sprintf("%d-%d-%d", n, i, at)
					boundaries = q.play(t, at)
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

func soaking() bool { return os.Getenv("CLEAVE_SOAK") != "" }

func TestASagaThatCrashesAnywhereEndsWholeOrUndone(t *testing.T) {
	most, stride := 3, 1
	switch {
	case testing.Short():
		most = 2
	case soaking():
		most = 4
	}
	playAll(t, most, stride, func(*testing.T) world { return newMemoryWorld() }, func(t *testing.T, f func(*testing.T)) {
		synctest.Test(t, f)
	})
}

func TestASagaOnAStoreThatCrashesAnywhereEndsWholeOrUndone(t *testing.T) {
	most, stride := 2, 5 // prime to how plans of one kind follow each other
	switch {
	case testing.Short():
		most, stride = 1, 1
	case soaking():
		most, stride = 4, 1
	}
	// The keys of a saga are in several groups and stores.
	w := newStoreWorld(t, openMemory(t, cleave.Options{Stores: 2, Groups: 4}), openMemory(t, cleave.Options{}))
	playAll(t, most, stride, func(*testing.T) world { return w }, func(t *testing.T, f func(*testing.T)) { f(t) })
}
