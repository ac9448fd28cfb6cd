package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/saga"
)

// stepLog is a saga's value, and notes what its steps did outside of it too.
type stepLog struct{ Steps []string }

// eventLog are what happened, in order.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *eventLog) takeText() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, " ")
	l.lines = nil
	return text
}

// newStep is one that notes what it does.
func (l *eventLog) newStep(name string) saga.Step[stepLog] {
	return saga.Step[stepLog]{
		Name: name,
		Do: func(_ context.Context, _ saga.Call, d *stepLog) error {
			l.add("+%s", name)
			d.Steps = append(d.Steps, name)
			return nil
		},
		Undo: func(_ context.Context, _ saga.Call, d *stepLog) error {
			l.add("-%s", name)
			d.Steps = slices.DeleteFunc(d.Steps, func(s string) bool { return s == name })
			return nil
		},
	}
}

// withFailingDo makes the Do of a step fail.
func withFailingDo(s saga.Step[stepLog], do func(ctx context.Context, c saga.Call) error) saga.Step[stepLog] {
	inner := s.Do
	s.Do = func(ctx context.Context, c saga.Call, d *stepLog) error {
		if err := do(ctx, c); err != nil {
			return err
		}
		return inner(ctx, c, d)
	}
	return s
}

func newRunner(t *testing.T, j saga.Journal, o saga.Options) *saga.Runner {
	t.Helper()
	r, err := saga.NewRunner(j, o)
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil && !errors.Is(err, saga.ErrClosed) {
			t.Error(err)
		}
	})
	return r
}

func mustRegister(t *testing.T, r *saga.Runner, d saga.Definition[stepLog]) *saga.Sagas[stepLog] {
	t.Helper()
	if d.Name == "" {
		d.Name = "trip"
	}
	g, err := saga.Register(r, d)
	must(t, err)
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errTransient = errors.New("bad weather")

func TestAnIDNamesOneSagaHoweverOftenItIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), l.newStep("b")}})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				d, err := g.Run(t.Context(), "1", stepLog{})
				if err != nil || !slices.Equal(d.Steps, []string{"a", "b"}) {
					t.Errorf("%v %v", d, err)
				}
			})
		}
		wg.Wait()
		if got := l.takeText(); got != "+a +b" {
			t.Error(got)
		}
		other, err := saga.Register(r, saga.Definition[stepLog]{Name: "other", Steps: []saga.Step[stepLog]{l.newStep("a")}})
		must(t, err)
		if _, err := other.Run(t.Context(), "1", stepLog{}); !errors.Is(err, saga.ErrTaken) {
			t.Errorf("of another definition: %v", err)
		}
		if _, err := other.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrTaken) {
			t.Errorf("of another definition: %v", err)
		}
		if _, err := g.Wait(t.Context(), "2"); !errors.Is(err, saga.ErrNotFound) {
			t.Errorf("of no saga: %v", err)
		}
	})
}

func TestAStepIsTriedAgainAfterLongerAndLongerTimesWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		var times []time.Time
		keys := map[string]bool{}
		flaky := withFailingDo(l.newStep("b"), func(_ context.Context, c saga.Call) error {
			times = append(times, time.Now())
			keys[c.Key] = true
			if c.Attempt != len(times) {
				t.Errorf("attempt %d of %d", c.Attempt, len(times))
			}
			if len(times) < 8 {
				return errTransient
			}
			return nil
		})
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{
			Steps: []saga.Step[stepLog]{l.newStep("a"), flaky},
			Retry: saga.Retry{First: 100 * time.Millisecond, Max: time.Second},
		})
		_, err := g.Run(t.Context(), "1", stepLog{})
		must(t, err)
		for i, whole := range []time.Duration{100, 200, 400, 800, 1000, 1000, 1000} {
			whole *= time.Millisecond
			if d := times[i+1].Sub(times[i]); d < whole/2 || d > whole {
				t.Errorf("wait %d: %v, want %v to %v", i, d, whole/2, whole)
			}
		}
		if len(keys) != 1 {
			t.Errorf("keys %v", keys)
		}
	})
}

func TestWhatCannotBeDoneIsTakenBackInReverseOrder(t *testing.T) {
	for _, tc := range []struct {
		name, want, cause string
		attempts          int
		err               error
	}{
		{"refused", "+a +b -c -b -a", "bad weather", 0, saga.Permanent(errTransient)},
		{"too often", "+a +b -c -b -a", "bad weather", 3, errTransient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l eventLog
				tries := 0
				bad := withFailingDo(l.newStep("c"), func(context.Context, saga.Call) error { tries++; return tc.err })
				r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
				g := mustRegister(t, r, saga.Definition[stepLog]{
					Steps: []saga.Step[stepLog]{l.newStep("a"), l.newStep("b"), bad, l.newStep("d")}, Retry: saga.Retry{Attempts: tc.attempts},
				})
				_, err := g.Run(t.Context(), "1", stepLog{})
				var end *saga.EndError
				if !errors.Is(err, saga.ErrCompensated) || !errors.As(err, &end) || end.Step != "c" || end.Cause != tc.cause {
					t.Errorf("%v", err)
				}
				if got := l.takeText(); got != tc.want {
					t.Error(got)
				}
				if tries != max(tc.attempts, 1) {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

func TestADeadlineTurnsASagaRoundUnlessAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		slow := withFailingDo(l.newStep("b"), func(ctx context.Context, _ saga.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		last := withFailingDo(l.newStep("c"), func(context.Context, saga.Call) error {
			time.Sleep(2 * time.Minute) // does not listen
			return nil
		})
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{Name: "slow", Steps: []saga.Step[stepLog]{l.newStep("a"), slow}, Deadline: time.Minute})
		begin := time.Now()
		if _, err := g.Run(t.Context(), "1", stepLog{}); !errors.Is(err, saga.ErrCompensated) || !strings.Contains(err.Error(), "deadline") {
			t.Error(err)
		}
		if got := l.takeText(); got != "+a -b -a" || time.Since(begin) != time.Minute {
			t.Error(got, time.Since(begin))
		}
		g = mustRegister(t, r, saga.Definition[stepLog]{Name: "last", Steps: []saga.Step[stepLog]{l.newStep("a"), last}, Deadline: time.Minute})
		_, err := g.Run(t.Context(), "2", stepLog{})
		must(t, err)
		if got := l.takeText(); got != "+a +c" {
			t.Error(got)
		}
		// Also while no runner works on it.
		j := saga.NewMemoryJournal()
		wait := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error { return errTransient })
		d := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), wait}, Deadline: time.Hour, Retry: saga.Retry{Attempts: -1}}
		r = newRunner(t, j, saga.Options{})
		must(t, mustRegister(t, r, d).Start(t.Context(), "3", stepLog{}))
		synctest.Wait()
		must(t, r.Close())
		time.Sleep(2 * time.Hour)
		l.takeText()
		r = newRunner(t, j, saga.Options{})
		g = mustRegister(t, r, d)
		_, err = r.Resume(t.Context())
		must(t, err)
		if _, err := g.Wait(t.Context(), "3"); !errors.Is(err, saga.ErrCompensated) || l.takeText() != "-b -a" {
			t.Error(err)
		}
	})
}

func TestACancelIsKeptWhereverItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		inside := make(chan struct{}, 1)
		long := withFailingDo(l.newStep("b"), func(ctx context.Context, _ saga.Call) error {
			inside <- struct{}{}
			<-ctx.Done() // an hour's work
			return ctx.Err()
		})
		deaf := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error {
			inside <- struct{}{}
			time.Sleep(time.Hour)
			return nil
		})
		waits := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error {
			inside <- struct{}{}
			return errTransient
		})
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		for i, tc := range []struct {
			step saga.Step[stepLog]
			want string
			took time.Duration
		}{{long, "+a -b -a", 0}, {deaf, "+a +b -b -a", time.Hour}, {waits, "+a -b -a", 0}} {
			id := fmt.Sprint(i)
			d := saga.Definition[stepLog]{
				Name: id, Steps: []saga.Step[stepLog]{l.newStep("a"), tc.step},
				Retry: saga.Retry{First: 10 * time.Hour, Max: 10 * time.Hour},
			}
			g := mustRegister(t, r, d)
			must(t, g.Start(t.Context(), id, stepLog{}))
			<-inside
			synctest.Wait()
			begin := time.Now()
			must(t, r.Cancel(t.Context(), id, "no more"))
			must(t, r.Cancel(t.Context(), id, "once more"))
			_, err := g.Wait(t.Context(), id)
			if got := l.takeText(); got != tc.want || !errors.Is(err, saga.ErrCompensated) || !strings.Contains(err.Error(), "no more") {
				t.Errorf("%d: %s, %v", i, got, err)
			}
			if took := time.Since(begin); took != tc.took {
				t.Errorf("%d: it took %v", i, took)
			}
			if err := r.Cancel(t.Context(), id, ""); !errors.Is(err, saga.ErrEnded) {
				t.Errorf("%d: cancelled when it had ended: %v", i, err)
			}
		}
		if err := r.Cancel(t.Context(), "nobody", ""); !errors.Is(err, saga.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestASagaWhoseUndoFailsIsStuckUntilItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		var mended atomic.Bool
		a := l.newStep("a")
		undo := a.Undo
		a.Undo = func(ctx context.Context, c saga.Call, d *stepLog) error {
			if !mended.Load() {
				return errTransient
			}
			return undo(ctx, c, d)
		}
		a.Retry = saga.Retry{UndoAttempts: 3}
		bad := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error { return saga.Permanent(errTransient) })
		j := saga.NewMemoryJournal()
		d := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{a, bad}}
		r := newRunner(t, j, saga.Options{})
		g := mustRegister(t, r, d)
		if _, err := g.Run(t.Context(), "1", stepLog{}); !errors.Is(err, saga.ErrStuck) || errors.Is(err, saga.ErrCompensated) {
			t.Error(err)
		}
		i, err := r.Inspect(t.Context(), "1")
		if text := i.Err().Error(); !strings.Contains(text, "Runner.Retry") {
			t.Errorf("it does not say what to do: %s", text)
		}
		if err != nil || i.State != saga.Compensating || i.Stuck != saga.StuckUndo || i.Attempts != 3 || i.Step != "a" {
			t.Errorf("%+v %v", i, err)
		}
		must(t, r.Close())
		// Another program does not go on with it by itself.
		r = newRunner(t, j, saga.Options{})
		g = mustRegister(t, r, d)
		found, err := r.Resume(t.Context())
		if err != nil || found.Running != 0 || len(found.Stuck) != 1 || found.Stuck[0].Err() == nil {
			t.Errorf("%+v %v", found, err)
		}
		must(t, r.Retry(t.Context(), "1"))
		if _, err := g.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrStuck) {
			t.Error(err)
		}
		mended.Store(true)
		must(t, r.Retry(t.Context(), "1"))
		if _, err := g.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrCompensated) {
			t.Error(err)
		}
		if got := l.takeText(); got != "+a -b -a" {
			t.Error(got)
		}
		if err := r.Retry(t.Context(), "1"); !errors.Is(err, saga.ErrEnded) {
			t.Error(err)
		}
	})
}

func TestAStepThatPanicsIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		bad := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error { panic("a bug") })
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), bad}, Retry: saga.Retry{Attempts: 1}})
		if _, err := g.Run(t.Context(), "1", stepLog{}); !errors.Is(err, saga.ErrCompensated) || !strings.Contains(err.Error(), "a bug") {
			t.Error(err)
		}
	})
}

func TestASagaGoesOnWithAnotherRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		j := saga.NewMemoryJournal()
		var open atomic.Bool
		gate := withFailingDo(l.newStep("b"), func(ctx context.Context, _ saga.Call) error {
			if open.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		d := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), gate}}
		r := newRunner(t, j, saga.Options{Parallel: 600})
		g := mustRegister(t, r, d)
		for i := range 600 { // several pages
			must(t, g.Start(t.Context(), fmt.Sprint(i), stepLog{}))
		}
		synctest.Wait()
		must(t, r.Close())
		if err := g.Start(t.Context(), "late", stepLog{}); !errors.Is(err, saga.ErrClosed) {
			t.Error(err)
		}
		open.Store(true)
		l.takeText()
		r = newRunner(t, j, saga.Options{})
		g = mustRegister(t, r, d)
		found, err := r.Resume(t.Context())
		if err != nil || found.Running != 600 {
			t.Fatalf("%+v %v", found, err)
		}
		for i := range 600 {
			got, err := g.Wait(t.Context(), fmt.Sprint(i))
			if err != nil || !slices.Equal(got.Steps, []string{"a", "b"}) {
				t.Fatalf("%v %v", got, err)
			}
		}
		if got := l.takeText(); strings.Count(got, "+b") != 600 || strings.Contains(got, "+a") {
			t.Error("a closed runner counts as a failure of the step")
		}
	})
}

// A runner that was overtaken finds out when it wants to write, and leaves the saga.
func TestOneRunnerAtATimeWorksOnASaga(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		j := saga.NewMemoryJournal()
		first, second := make(chan struct{}), make(chan struct{})
		var passed atomic.Bool
		a := withFailingDo(l.newStep("a"), func(context.Context, saga.Call) error {
			if !passed.Swap(true) {
				<-first
			}
			return nil
		})
		b := withFailingDo(l.newStep("b"), func(context.Context, saga.Call) error {
			l.add("b?")
			<-second
			return nil
		})
		d := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{a, b}}
		old := newRunner(t, j, saga.Options{})
		oldSagas := mustRegister(t, old, d)
		must(t, oldSagas.Start(t.Context(), "1", stepLog{}))
		synctest.Wait()
		r := newRunner(t, j, saga.Options{})
		g := mustRegister(t, r, d)
		_, err := r.Resume(t.Context())
		must(t, err)
		synctest.Wait()
		if got := l.takeText(); got != "+a b?" {
			t.Fatal(got)
		}
		close(first)
		synctest.Wait()
		if got := l.takeText(); got != "+a" { // that is what keys are for
			t.Errorf("two runners at once: %s", got)
		}
		close(second)
		if _, err := g.Wait(t.Context(), "1"); err != nil {
			t.Error(err)
		}
		if _, err := oldSagas.Wait(t.Context(), "1"); err != nil {
			t.Error(err)
		}
		if got := l.takeText(); got != "+b" {
			t.Error(got)
		}
	})
}

func TestWhatHasEndedIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		var mended atomic.Bool
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{Retention: time.Hour})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a")}, Forget: func(_ context.Context, id string) error {
			l.add("forget %s", id)
			if !mended.Load() {
				return errTransient
			}
			return nil
		}})
		_, err := r.Resume(t.Context())
		must(t, err)
		_, err = g.Run(t.Context(), "1", stepLog{})
		must(t, err)
		time.Sleep(59 * time.Minute)
		if _, err := g.Wait(t.Context(), "1"); err != nil || l.takeText() != "+a" {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := g.Wait(t.Context(), "1"); err != nil || !strings.Contains(l.takeText(), "forget 1") {
			t.Error(err)
		}
		mended.Store(true)
		time.Sleep(10 * time.Minute)
		if _, err := r.Inspect(t.Context(), "1"); !errors.Is(err, saga.ErrNotFound) || !strings.Contains(l.takeText(), "forget 1") {
			t.Error(err)
		}
		if n, err := r.Sweep(t.Context()); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

// badJournal fails to save for a while.
type badJournal struct {
	saga.Journal
	until time.Time
	saves atomic.Int64
}

func (j *badJournal) Save(ctx context.Context, r saga.Record) error {
	j.saves.Add(1)
	if time.Now().Before(j.until) {
		return errTransient
	}
	return j.Journal.Save(ctx, r)
}

// The troubles of a journal are not those of a step: it is not done again for them, and
// not given up.
func TestAJournalThatFailsIsTriedAgainAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		j := &badJournal{Journal: saga.NewMemoryJournal(), until: time.Now().Add(time.Minute)}
		g := mustRegister(t, newRunner(t, j, saga.Options{}), saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), l.newStep("b")}})
		_, err := g.Run(t.Context(), "1", stepLog{})
		must(t, err)
		if got := l.takeText(); got != "+a +b" || j.saves.Load() < 10 || j.saves.Load() > 60 {
			t.Errorf("%s, and %d saves", got, j.saves.Load())
		}
	})
}

func TestAValueThatIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		large := stepLog{Steps: []string{strings.Repeat("x", saga.MaxValue)}}
		grow := l.newStep("b")
		grow.Do = func(_ context.Context, _ saga.Call, d *stepLog) error { *d = large; return nil }
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), grow}, Retry: saga.Retry{Attempts: 2}})
		if err := g.Start(t.Context(), "1", large); !errors.Is(err, saga.ErrValue) {
			t.Error(err)
		}
		if _, err := g.Run(t.Context(), "2", stepLog{}); !errors.Is(err, saga.ErrCompensated) || !strings.Contains(err.Error(), "too large") {
			t.Error(err)
		}
		if got := l.takeText(); got != "+a -b -a" {
			t.Error(got)
		}
	})
}

// slowJournal takes so long to create a record, or to save one, that something happens
// meanwhile.
type slowJournal struct {
	saga.Journal
	duringWrite func()
}

func (j *slowJournal) Create(ctx context.Context, r saga.Record) error {
	err := j.Journal.Create(ctx, r)
	j.duringWrite()
	return err
}

func (j *slowJournal) Save(ctx context.Context, r saga.Record) error {
	err := j.Journal.Save(ctx, r)
	j.duringWrite()
	return err
}

// ErrClosed means that a saga has not begun, and was not cancelled: the caller that gets it must
// not find that it was.
func TestWhatIsInTheJournalIsNotRefusedByAClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		j := &slowJournal{Journal: saga.NewMemoryJournal()}
		d := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a")}}
		var closing *saga.Runner
		during := func() (*saga.Runner, *saga.Sagas[stepLog]) {
			closing = newRunner(t, j, saga.Options{})
			j.duringWrite = sync.OnceFunc(func() { must(t, closing.Close()) })
			return closing, mustRegister(t, closing, d)
		}
		_, g := during()
		if err := g.Start(t.Context(), "1", stepLog{}); err != nil {
			t.Errorf("Start beside Close: %v", err)
		}
		r, _ := during()
		if err := r.Cancel(t.Context(), "1", "no more"); err != nil {
			t.Errorf("Cancel beside Close: %v", err)
		}
		j.duringWrite = func() {}
		r = newRunner(t, j, saga.Options{})
		g = mustRegister(t, r, d)
		_, err := r.Resume(t.Context())
		must(t, err)
		if _, err := g.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrCompensated) || strings.Contains(l.takeText(), "+a") {
			t.Errorf("it was cancelled before it did anything: %v", err)
		}
	})
}

// fullJournal removes nothing.
type fullJournal struct{ saga.Journal }

func (fullJournal) Remove(context.Context, saga.Record) error { return errTransient }

func TestASweepCountsWhatItRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		r := newRunner(t, fullJournal{saga.NewMemoryJournal()}, saga.Options{Retention: time.Second})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a")}})
		for i := range 20 { // more than the errors that are reported
			_, err := g.Run(t.Context(), fmt.Sprint(i), stepLog{})
			must(t, err)
		}
		time.Sleep(time.Minute)
		if n, err := r.Sweep(t.Context()); n != 0 || !errors.Is(err, errTransient) {
			t.Errorf("it removed %d, and none was: %v", n, err)
		}
	})
}

// As long as a saga is in the journal no other of its id can begin.
func TestASweepForgetsNothingOfALaterSaga(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		marks := map[string]bool{}
		mark := func(id string, is bool) {
			mu.Lock()
			defer mu.Unlock()
			marks[id] = is
		}
		goOn := make(chan struct{})
		var slow atomic.Bool
		slow.Store(true)
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{Retention: time.Second})
		g := mustRegister(t, r, saga.Definition[stepLog]{
			Steps: []saga.Step[stepLog]{{Name: "a", Do: func(_ context.Context, c saga.Call, _ *stepLog) error {
				mark(c.Saga, true)
				return nil
			}}},
			Forget: func(_ context.Context, id string) error {
				if slow.Swap(false) {
					<-goOn
				}
				mark(id, false)
				return nil
			},
		})
		_, err := g.Run(t.Context(), "1", stepLog{})
		must(t, err)
		time.Sleep(time.Minute)
		for range 2 {
			go func() {
				if _, err := r.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		_, err = g.Run(t.Context(), "1", stepLog{})
		must(t, err)
		limited, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := r.Sweep(limited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait for the others: %v", err)
		}
		close(goOn)
		synctest.Wait()
		_, err = r.Inspect(t.Context(), "1")
		if known := err == nil; known != marks["1"] {
			t.Errorf("in the journal: %v, noted: %v", known, marks["1"])
		}
	})
}
