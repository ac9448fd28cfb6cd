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

	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/saga"
)

// failingCodec reads nothing.
type failingCodec struct{}

func (failingCodec) Encode(stepLog) ([]byte, error) { return nil, errTransient }
func (failingCodec) Decode([]byte) (stepLog, error) { return stepLog{}, errTransient }

// Programs change while sagas are under way: what one cannot go on with, it says.
func TestASagaWhoseCodeIsGoneIsStuckAndNamesIt(t *testing.T) {
	var l eventLog
	a, b, c := l.newStep("a"), l.newStep("b"), l.newStep("c")
	wait := withFailingDo(l.newStep("b"), func(ctx context.Context, _ saga.Call) error {
		<-ctx.Done()
		return ctx.Err()
	})
	lasting, retired := a, a
	lasting.Undo = nil
	retired.Retired = true
	old := saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{a, wait, c}}
	for _, tc := range []struct {
		name  string
		steps []saga.Step[stepLog]
		codec saga.Codec[stepLog]
		want  string // of the error, or of what is done
	}{
		{"the same", []saga.Step[stepLog]{a, b, c}, nil, "+b +c"},
		{"more steps, in another order", []saga.Step[stepLog]{c, l.newStep("new"), b, a}, nil, "+b +c"},
		{"retired", []saga.Step[stepLog]{retired, b, c}, nil, "+b +c"},
		{"removed behind", []saga.Step[stepLog]{a, b}, nil, `no step "c"`},
		{"removed at hand", []saga.Step[stepLog]{a, c}, nil, `no step "b"`},
		{"removed and done already", []saga.Step[stepLog]{b, c}, nil, `no step "a"`},
		{"undo removed", []saga.Step[stepLog]{lasting, b, c}, nil, `step "a" of "trip" has no Undo`},
		{"another type", []saga.Step[stepLog]{a, b, c}, failingCodec{}, "cannot be decoded"},
		{"no definition", nil, nil, `no definition "trip"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := saga.NewMemoryJournal()
				r := newRunner(t, j, saga.Options{})
				must(t, mustRegister(t, r, old).Start(t.Context(), "1", stepLog{}))
				synctest.Wait()
				must(t, r.Close())
				l.takeText()

				r = newRunner(t, j, saga.Options{})
				if tc.steps != nil {
					mustRegister(t, r, saga.Definition[stepLog]{Steps: tc.steps, Codec: tc.codec})
				}
				found, err := r.Resume(t.Context())
				must(t, err)
				synctest.Wait()
				if tc.want[0] == '+' {
					if got := l.takeText(); got != tc.want || found.Running != 1 {
						t.Errorf("%s, %+v", got, found)
					}
					return
				}
				if len(found.Stuck) != 1 || found.Stuck[0].Stuck != saga.StuckCode || !strings.Contains(found.Stuck[0].Err().Error(), tc.want) {
					t.Errorf("%+v", found)
				}
				if got := l.takeText(); got != "" {
					t.Errorf("it did %s", got)
				}
				again, err := r.Resume(t.Context())
				if err != nil || len(again.Stuck) != 1 || again.Stuck[0].Revision != found.Stuck[0].Revision {
					t.Errorf("resumed again: %+v %v", again, err)
				}
				must(t, r.Close())

				// A program that has the code goes on.
				r = newRunner(t, j, saga.Options{})
				g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{a, b, c}})
				_, err = r.Resume(t.Context())
				must(t, err)
				if d, err := g.Wait(t.Context(), "1"); err != nil || !slices.Equal(d.Steps, []string{"a", "b", "c"}) {
					t.Errorf("%v %v", d, err)
				}
				l.takeText()
			})
		})
	}
}

// listedJournal lists what is open, and then something happens.
type listedJournal struct {
	saga.Journal
	afterList func()
}

func (j *listedJournal) Open(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	records, err := j.Journal.Open(ctx, after, limit)
	j.afterList()
	return records, err
}

// Another runner, which has the code, is about to end the saga.
func TestASagaThatEndsMeanwhileIsNotStuckForWantOfCode(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed=%v", removed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l eventLog
				j := saga.NewMemoryJournal()
				goOn := make(chan struct{})
				wait := withFailingDo(l.newStep("a"), func(context.Context, saga.Call) error { <-goOn; return nil })
				other := newRunner(t, j, saga.Options{Retention: time.Second})
				must(t, mustRegister(t, other, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{wait}}).Start(t.Context(), "1", stepLog{}))
				synctest.Wait()
				r := newRunner(t, &listedJournal{j, sync.OnceFunc(func() {
					close(goOn)
					synctest.Wait()
					if removed {
						time.Sleep(time.Minute)
						_, err := other.Sweep(t.Context())
						must(t, err)
					}
				})}, saga.Options{})
				if found, err := r.Resume(t.Context()); err != nil || len(found.Stuck) > 0 {
					t.Errorf("%+v %v", found, err)
				}
			})
		})
	}
}

// A saga that lacks a step of the way forward can still be taken back.
func TestASagaThatCannotGoForwardCanGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		j := saga.NewMemoryJournal()
		wait := withFailingDo(l.newStep("b"), func(ctx context.Context, _ saga.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r := newRunner(t, j, saga.Options{})
		must(t, mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), wait, l.newStep("c")}}).Start(t.Context(), "1", stepLog{}))
		synctest.Wait()
		must(t, r.Close())
		r = newRunner(t, j, saga.Options{})
		g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a"), l.newStep("b")}})
		found, err := r.Resume(t.Context())
		if err != nil || len(found.Stuck) != 1 {
			t.Fatalf("%+v %v", found, err)
		}
		if _, err := g.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrStuck) {
			t.Error(err)
		}
		must(t, r.Cancel(t.Context(), "1", "c is gone"))
		if _, err := g.Wait(t.Context(), "1"); !errors.Is(err, saga.ErrCompensated) {
			t.Error(err)
		}
		if got := l.takeText(); got != "+a -b -a" {
			t.Error(got)
		}
	})
}

func TestBadDefinitionsAndOptionsAreRefusedWithAllThatIsWrong(t *testing.T) {
	var l eventLog
	nothing := saga.Transactional("tx", func(int, *stepLog) error { return nil }, nil)
	both := nothing
	both.Do = l.newStep("a").Do
	for _, tc := range []struct {
		want string
		d    saga.Definition[stepLog]
	}{
		{"no name", saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a")}}},
		{"no steps", saga.Definition[stepLog]{Name: "x"}},
		{"step 0 has no name", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("")}}},
		{`two steps are named "a"`, saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("a"), l.newStep("a")}}},
		{`step "a" has no Do`, saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{{Name: "a"}}}},
		{"has none", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{nothing}}},
		{"leave Do and Undo out", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{both}}},
		{"Deadline is -1ns", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("a")}, Deadline: -1}},
		{"Timeout is -1ns", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{{Name: "a", Do: l.newStep("a").Do, Timeout: -1}}}},
		{"Attempts is -2", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("a")}, Retry: saga.Retry{Attempts: -2}}},
		{"UndoAttempts is -1", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("a")}, Retry: saga.Retry{UndoAttempts: -1}}},
		{"First 1m0s and Max 1s", saga.Definition[stepLog]{Name: "x", Steps: []saga.Step[stepLog]{l.newStep("a")}, Retry: saga.Retry{First: time.Minute, Max: time.Second}}},
		{"at most 1000", saga.Definition[stepLog]{Name: "x", Steps: make([]saga.Step[stepLog], saga.MaxSteps+1)}},
	} {
		if _, err := saga.Register(newRunner(t, saga.NewMemoryJournal(), saga.Options{}), tc.d); !errors.Is(err, saga.ErrDefinition) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.want, err)
		}
	}
	r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
	g := mustRegister(t, r, saga.Definition[stepLog]{Steps: []saga.Step[stepLog]{l.newStep("a")}})
	if _, err := saga.Register(r, saga.Definition[stepLog]{Name: "trip", Steps: []saga.Step[stepLog]{l.newStep("a")}}); !errors.Is(err, saga.ErrDefinition) {
		t.Error(err)
	}
	for _, id := range []string{"", strings.Repeat("x", saga.MaxID+1), "\xff"} {
		if err := g.Start(t.Context(), id, stepLog{}); !errors.Is(err, saga.ErrID) {
			t.Error(err)
		}
	}
	bad := mustRegister(t, r, saga.Definition[stepLog]{Name: "bad", Steps: []saga.Step[stepLog]{l.newStep("a")}, Codec: failingCodec{}})
	if err := bad.Start(t.Context(), "x", stepLog{}); !errors.Is(err, errTransient) {
		t.Error(err)
	}
	for _, o := range []saga.Options{{Retention: time.Millisecond}, {Parallel: -1}} {
		if _, err := saga.NewRunner(saga.NewMemoryJournal(), o); !errors.Is(err, saga.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSagasAreListedByStateAndDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l eventLog
		var changes atomic.Int64
		r := newRunner(t, saga.NewMemoryJournal(), saga.Options{Parallel: 1, OnChange: func(saga.Info) { changes.Add(1) }})
		good := mustRegister(t, r, saga.Definition[stepLog]{Name: "good", Steps: []saga.Step[stepLog]{l.newStep("a")}})
		bad := mustRegister(t, r, saga.Definition[stepLog]{Name: "bad", Steps: []saga.Step[stepLog]{
			withFailingDo(l.newStep("a"), func(context.Context, saga.Call) error { return saga.Permanent(errTransient) })}})
		slow := mustRegister(t, r, saga.Definition[stepLog]{Name: "slow", Steps: []saga.Step[stepLog]{
			withFailingDo(l.newStep("a"), func(context.Context, saga.Call) error { return errTransient })}, Retry: saga.Retry{First: time.Hour, Max: time.Hour}})
		for i := range 300 {
			must(t, good.Start(t.Context(), fmt.Sprintf("g%03d", i), stepLog{}))
		}
		must(t, bad.Start(t.Context(), "b", stepLog{}))
		must(t, slow.Start(t.Context(), "s", stepLog{}))
		synctest.Wait()
		list := func(f saga.Filter) (ids []string) {
			for i, err := range r.List(t.Context(), f) {
				must(t, err)
				ids = append(ids, i.ID)
			}
			return ids
		}
		all := list(saga.Filter{})
		if len(all) != 302 || all[0] != "s" || !slices.IsSorted(all[1:]) {
			t.Errorf("%d sagas: %q", len(all), all)
		}
		if got := list(saga.Filter{States: []saga.State{saga.Compensated}}); !slices.Equal(got, []string{"b"}) {
			t.Error(got)
		}
		if got := list(saga.Filter{Definition: "slow"}); !slices.Equal(got, []string{"s"}) {
			t.Error(got)
		}
		if got := list(saga.Filter{Stuck: true}); got != nil {
			t.Error(got)
		}
		i, err := r.Inspect(t.Context(), "s")
		if err != nil || i.Next.Before(time.Now()) || i.Failure != "bad weather" || i.Err() != nil {
			t.Errorf("%+v %v", i, err)
		}
		for range r.List(t.Context(), saga.Filter{}) {
			break
		}
		if changes.Load() < 600 {
			t.Errorf("told of %d changes", changes.Load())
		}
	})
}

// A caller that is notified that a saga is stuck, and removes the cause at once, has it go on: also if
// that is before the goroutine that reported it has ended.
func TestARetryThatComesAsTheSagaGetsStuckIsNotLost(t *testing.T) {
	for range 20 {
		var repaired atomic.Bool
		var r *saga.Runner
		retried := make(chan error, 1)
		r = newRunner(t, saga.NewMemoryJournal(), saga.Options{OnChange: func(i saga.Info) {
			if i.Stuck == saga.StuckUndo {
				repaired.Store(true)
				retried <- r.Retry(context.Background(), i.ID)
			}
		}})
		sagas, err := saga.Register(r, saga.Definition[stepLog]{
			Name:  "trip",
			Retry: saga.Retry{UndoAttempts: 1, First: time.Millisecond},
			Steps: []saga.Step[stepLog]{
				{
					Name: "a",
					Do:   func(context.Context, saga.Call, *stepLog) error { return nil },
					Undo: func(context.Context, saga.Call, *stepLog) error {
						if !repaired.Load() {
							return errors.New("not yet")
						}
						return nil
					},
				},
				{Name: "b", Do: func(context.Context, saga.Call, *stepLog) error { return saga.Permanent(errors.New("no")) }},
			},
		})
		must(t, err)
		must(t, sagas.Start(context.Background(), "1", stepLog{}))
		must(t, <-retried)
		limited, cancel := context.WithTimeout(context.Background(), eventually.Limit())
		defer cancel()
		for {
			_, err := sagas.Wait(limited, "1")
			if errors.Is(err, saga.ErrCompensated) {
				break
			}
			if !errors.Is(err, saga.ErrStuck) { // as it was before
				t.Fatalf("it does not go on: %v", err)
			}
		}
	}
}

// undecodable is a value that cannot be read any more, and takes the program down with it.
type undecodable struct{ Bad bool }

type panickingCodec struct{}

func (panickingCodec) Encode(r undecodable) ([]byte, error) { return []byte{1}, nil }
func (panickingCodec) Decode([]byte) (undecodable, error)   { panic("rotten") }

// A codec that panics makes a saga stuck, and not the program end.
func TestACodecThatPanicsMakesTheSagaStuck(t *testing.T) {
	r := newRunner(t, saga.NewMemoryJournal(), saga.Options{})
	sagas, err := saga.Register(r, saga.Definition[undecodable]{
		Name: "rot", Codec: panickingCodec{},
		Steps: []saga.Step[undecodable]{{Name: "a", Do: func(context.Context, saga.Call, *undecodable) error { return nil }}},
	})
	must(t, err)
	must(t, sagas.Start(context.Background(), "1", undecodable{}))
	eventually.Holds(t, "the saga is stuck", func() bool {
		i, err := r.Inspect(context.Background(), "1")
		must(t, err)
		return i.Stuck == saga.StuckCode
	})
}
