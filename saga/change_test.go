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

// badCodec reads nothing.
type badCodec struct{}

func (badCodec) Encode(diary) ([]byte, error) { return nil, errWeather }
func (badCodec) Decode([]byte) (diary, error) { return diary{}, errWeather }

// Programs change while sagas are under way: what one cannot go on with, it says.
func TestASagaWhoseCodeIsGoneIsStuckAndNamesIt(t *testing.T) {
	var l notes
	a, b, c := l.step("a"), l.step("b"), l.step("c")
	wait := fails(l.step("b"), func(ctx context.Context, _ saga.Call) error {
		<-ctx.Done()
		return ctx.Err()
	})
	lasting, retired := a, a
	lasting.Undo = nil
	retired.Retired = true
	old := saga.Definition[diary]{Steps: []saga.Step[diary]{a, wait, c}}
	for _, tc := range []struct {
		name  string
		steps []saga.Step[diary]
		codec saga.Codec[diary]
		want  string // of the error, or of what is done
	}{
		{"the same", []saga.Step[diary]{a, b, c}, nil, "+b +c"},
		{"more steps, in another order", []saga.Step[diary]{c, l.step("new"), b, a}, nil, "+b +c"},
		{"retired", []saga.Step[diary]{retired, b, c}, nil, "+b +c"},
		{"removed behind", []saga.Step[diary]{a, b}, nil, `no step "c"`},
		{"removed at hand", []saga.Step[diary]{a, c}, nil, `no step "b"`},
		{"removed and done already", []saga.Step[diary]{b, c}, nil, `no step "a"`},
		{"undo removed", []saga.Step[diary]{lasting, b, c}, nil, `step "a" of "trip" has no Undo`},
		{"another type", []saga.Step[diary]{a, b, c}, badCodec{}, "cannot be decoded"},
		{"no definition", nil, nil, `no definition "trip"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := saga.Memory()
				r := newRunner(t, j, saga.Options{})
				must(t, register(t, r, old).Start(t.Context(), "1", diary{}))
				synctest.Wait()
				must(t, r.Close())
				l.take()

				r = newRunner(t, j, saga.Options{})
				if tc.steps != nil {
					register(t, r, saga.Definition[diary]{Steps: tc.steps, Codec: tc.codec})
				}
				found, err := r.Resume(t.Context())
				must(t, err)
				synctest.Wait()
				if tc.want[0] == '+' {
					if got := l.take(); got != tc.want || found.Running != 1 {
						t.Errorf("%s, %+v", got, found)
					}
					return
				}
				if len(found.Stuck) != 1 || found.Stuck[0].Stuck != saga.StuckCode || !strings.Contains(found.Stuck[0].Err().Error(), tc.want) {
					t.Errorf("%+v", found)
				}
				if got := l.take(); got != "" {
					t.Errorf("it did %s", got)
				}
				again, err := r.Resume(t.Context())
				if err != nil || len(again.Stuck) != 1 || again.Stuck[0].Revision != found.Stuck[0].Revision {
					t.Errorf("resumed again: %+v %v", again, err)
				}
				must(t, r.Close())

				// A program that has the code goes on.
				r = newRunner(t, j, saga.Options{})
				g := register(t, r, saga.Definition[diary]{Steps: []saga.Step[diary]{a, b, c}})
				_, err = r.Resume(t.Context())
				must(t, err)
				if d, err := g.Wait(t.Context(), "1"); err != nil || !slices.Equal(d.Steps, []string{"a", "b", "c"}) {
					t.Errorf("%v %v", d, err)
				}
				l.take()
			})
		})
	}
}

// listedJournal lists what is open, and then something happens.
type listedJournal struct {
	saga.Journal
	then func()
}

func (j *listedJournal) Open(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	records, err := j.Journal.Open(ctx, after, limit)
	j.then()
	return records, err
}

// Another runner, which has the code, is about to end the saga.
func TestASagaThatEndsMeanwhileIsNotStuckForWantOfCode(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprintf("removed=%v", removed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l notes
				j := saga.Memory()
				goOn := make(chan struct{})
				wait := fails(l.step("a"), func(context.Context, saga.Call) error { <-goOn; return nil })
				other := newRunner(t, j, saga.Options{Retention: time.Second})
				must(t, register(t, other, saga.Definition[diary]{Steps: []saga.Step[diary]{wait}}).Start(t.Context(), "1", diary{}))
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
		var l notes
		j := saga.Memory()
		wait := fails(l.step("b"), func(ctx context.Context, _ saga.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r := newRunner(t, j, saga.Options{})
		must(t, register(t, r, saga.Definition[diary]{Steps: []saga.Step[diary]{l.step("a"), wait, l.step("c")}}).Start(t.Context(), "1", diary{}))
		synctest.Wait()
		must(t, r.Close())
		r = newRunner(t, j, saga.Options{})
		g := register(t, r, saga.Definition[diary]{Steps: []saga.Step[diary]{l.step("a"), l.step("b")}})
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
		if got := l.take(); got != "+a -b -a" {
			t.Error(got)
		}
	})
}

func TestBadDefinitionsAndOptionsAreRefusedWithAllThatIsWrong(t *testing.T) {
	var l notes
	nothing := saga.Transactional("tx", func(int, *diary) error { return nil }, nil)
	both := nothing
	both.Do = l.step("a").Do
	for _, tc := range []struct {
		want string
		d    saga.Definition[diary]
	}{
		{"no name", saga.Definition[diary]{Steps: []saga.Step[diary]{l.step("a")}}},
		{"no steps", saga.Definition[diary]{Name: "x"}},
		{"step 0 has no name", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("")}}},
		{`two steps are named "a"`, saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("a"), l.step("a")}}},
		{`step "a" has no Do`, saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{{Name: "a"}}}},
		{"has none", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{nothing}}},
		{"leave Do and Undo out", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{both}}},
		{"Deadline is -1ns", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("a")}, Deadline: -1}},
		{"Timeout is -1ns", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{{Name: "a", Do: l.step("a").Do, Timeout: -1}}}},
		{"Attempts is -2", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("a")}, Retry: saga.Retry{Attempts: -2}}},
		{"UndoAttempts is -1", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("a")}, Retry: saga.Retry{UndoAttempts: -1}}},
		{"First 1m0s and Max 1s", saga.Definition[diary]{Name: "x", Steps: []saga.Step[diary]{l.step("a")}, Retry: saga.Retry{First: time.Minute, Max: time.Second}}},
		{"at most 1000", saga.Definition[diary]{Name: "x", Steps: make([]saga.Step[diary], saga.MaxSteps+1)}},
	} {
		if _, err := saga.Register(newRunner(t, saga.Memory(), saga.Options{}), tc.d); !errors.Is(err, saga.ErrDefinition) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.want, err)
		}
	}
	r := newRunner(t, saga.Memory(), saga.Options{})
	g := register(t, r, saga.Definition[diary]{Steps: []saga.Step[diary]{l.step("a")}})
	if _, err := saga.Register(r, saga.Definition[diary]{Name: "trip", Steps: []saga.Step[diary]{l.step("a")}}); !errors.Is(err, saga.ErrDefinition) {
		t.Error(err)
	}
	for _, id := range []string{"", strings.Repeat("x", saga.MaxID+1), "\xff"} {
		if err := g.Start(t.Context(), id, diary{}); !errors.Is(err, saga.ErrID) {
			t.Error(err)
		}
	}
	bad := register(t, r, saga.Definition[diary]{Name: "bad", Steps: []saga.Step[diary]{l.step("a")}, Codec: badCodec{}})
	if err := bad.Start(t.Context(), "x", diary{}); !errors.Is(err, errWeather) {
		t.Error(err)
	}
	for _, o := range []saga.Options{{Retention: time.Millisecond}, {Parallel: -1}} {
		if _, err := saga.NewRunner(saga.Memory(), o); !errors.Is(err, saga.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestSagasAreListedByStateAndDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l notes
		var changes atomic.Int64
		r := newRunner(t, saga.Memory(), saga.Options{Parallel: 1, OnChange: func(saga.Info) { changes.Add(1) }})
		good := register(t, r, saga.Definition[diary]{Name: "good", Steps: []saga.Step[diary]{l.step("a")}})
		bad := register(t, r, saga.Definition[diary]{Name: "bad", Steps: []saga.Step[diary]{
			fails(l.step("a"), func(context.Context, saga.Call) error { return saga.Permanent(errWeather) })}})
		slow := register(t, r, saga.Definition[diary]{Name: "slow", Steps: []saga.Step[diary]{
			fails(l.step("a"), func(context.Context, saga.Call) error { return errWeather })}, Retry: saga.Retry{First: time.Hour, Max: time.Hour}})
		for i := range 300 {
			must(t, good.Start(t.Context(), fmt.Sprintf("g%03d", i), diary{}))
		}
		must(t, bad.Start(t.Context(), "b", diary{}))
		must(t, slow.Start(t.Context(), "s", diary{}))
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
