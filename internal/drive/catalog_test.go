package drive

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// catalogMap reads the map that is stored.
func (w *small) catalogMap() *partition.Map {
	m, err := partition.Decode(w.do(1, &command.Get{Key: meta.Map()}).Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *small) asking(r mover.Request) *Admit {
	return &Admit{Catalog: meta, Request: r, Home: func(g partition.GroupID) uint64 { return uint64(g) / 3 }, NowMS: w.now}
}

func (w *small) admit(r mover.Request) mover.Job {
	w.t.Helper()
	c := w.asking(r)
	w.do(1, c)
	return c.Job
}

func TestARecordTakesThePlaceOfTheOneBefore(t *testing.T) {
	w := newSmall(t)
	shard := w.m.Find(at("a"))
	j := w.admit(mover.Request{Kind: mover.Move, Shard: shard.ID, To: 3})
	if r := w.try(1, w.asking(mover.Request{Kind: mover.Split, Shard: shard.ID, In: &space, At: []partition.Position{at("b")}})); !errors.Is(r.Err, mover.ErrBusy) {
		t.Errorf("a second job there: %v", r.Err)
	}
	if r := w.try(1, w.asking(mover.Request{Kind: mover.Move, Shard: w.m.Find(meta.Map()).ID, To: 3})); !errors.Is(r.Err, mover.ErrFixed) {
		t.Errorf("a move of the catalog: %v", r.Err)
	}
	jobs, err := Records(w.do(1, meta.Jobs()))
	if err != nil || len(jobs) != 1 || jobs[0].ID != j.ID {
		t.Fatalf("there are %+v, %v: one that was refused is not to be there", jobs, err)
	}
	next := j
	next.Rev++
	next.Why = "the first"
	if r := w.try(1, &Swap{Catalog: meta, Rev: j.Rev, Job: next}); r.Err != nil {
		t.Fatal(r.Err)
	}
	other := next
	other.Why = "one that was overtaken"
	for name, c := range map[string]*Swap{
		"from the one before":  {Catalog: meta, Rev: j.Rev, Job: other},
		"with no greater Rev":  {Catalog: meta, Rev: next.Rev, Job: other},
		"of a job there isn't": {Catalog: meta, Rev: 1, Job: mover.Job{ID: 99, Rev: 2}},
	} {
		if r := w.try(1, c); !errors.Is(r.Err, ErrOvertaken) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	if jobs, _ := Records(w.do(1, meta.Jobs())); jobs[0].Why != "the first" {
		t.Errorf("the record says %q", jobs[0].Why)
	}
	if r := w.try(1, &Choose{Catalog: meta, ID: 99}); !errors.Is(r.Err, ErrOvertaken) {
		t.Errorf("a decision about a job there isn't: %v", r.Err)
	}
	if r := w.try(1, &Choose{Catalog: meta, ID: j.ID, Choose: mover.Choose{Round: next.Round}}); !errors.Is(r.Err, mover.ErrNotDeciding) {
		t.Errorf("a decision before its time: %v", r.Err)
	}
	if w.catalogMap().Version() != w.m.Version() {
		t.Error("the map has changed")
	}
	w.try(1, meta.FirstMap(apply(t, w.m, partition.AddGroup{})))
	if w.catalogMap().Version() != w.m.Version() {
		t.Error("the first map was stored again over one that was there")
	}
	if _, err := Records(command.Reply{Items: []command.Item{{Value: []byte("no job")}}}); !errors.Is(err, mover.ErrRecord) {
		t.Errorf("a record that is none: %v", err)
	}
}

func apply(t *testing.T, m *partition.Map, edits ...partition.Edit) *partition.Map {
	next, err := m.Apply(edits...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Everything that the job wants is done twice, by one that knows nothing but this
// package, while somebody writes.
func TestAJobIsDrivenToItsEnd(t *testing.T) {
	for name, to := range map[string]partition.GroupID{"to another store": 3, "within the store": 1} {
		t.Run(name, func(t *testing.T) {
			w := newSmall(t)
			for i := range 30 {
				w.set(2, fmt.Sprintf("k%02d", i), "old")
			}
			version := w.set(2, "last", "old")
			j := w.admit(mover.Request{Kind: mover.Move, Shard: w.m.Find(at("k00")).ID, To: to})
			if j.Local != (to == 1) {
				t.Fatalf("local: %v", j.Local)
			}
			effects := mover.Resume(j)
			for steps := 0; len(effects) > 0; steps++ {
				if steps > 200 {
					t.Fatalf("it is still %v: %s", j.Phase, j.Why)
				}
				if j.Phase == mover.Catching && steps < 30 {
					version = w.set(2, "last", fmt.Sprint("while it moves", steps))
				}
				x := effects[0]
				effects = effects[1:]
				for range 2 {
					var more []mover.Effect
					j, more = w.drive(j, x)
					effects = append(effects, more...)
				}
			}
			if j.Phase != mover.Done {
				t.Fatalf("it is %v: %s", j.Phase, j.Why)
			}
			if m := w.catalogMap(); m.Owner(at("last")).Group != to {
				t.Errorf("the map says %v", m.Owner(at("last")))
			}
			got := w.do(to, &command.Get{Key: at("last")})
			if got.Version != version || w.set(to, "last", "new") <= version {
				t.Errorf("%q has version %d, the last was %d", got.Bytes, got.Version, version)
			}
			if n := rowsOf(t, w.places[2], w.span(2)); to == 3 && n > 0 {
				t.Errorf("%d rows are left at the source", n)
			}
			if r := w.try(2, &command.Get{Key: at("last")}); !errors.Is(r.Err, own.ErrWrongGroup) {
				t.Errorf("the source still reads: %v", r.Err)
			}
		})
	}
}

// drive does an effect of a job and stores what becomes of it.
func (w *small) drive(j mover.Job, x mover.Effect) (mover.Job, []mover.Effect) {
	w.t.Helper()
	var ev mover.Event
	switch x := x.(type) {
	case mover.Look:
		ev = Look(w.find, x)
	case mover.Locate:
		ev = new(Carrier).Locate(w.find, x, w.span(2))
	case mover.Evaluate:
		ev = Evaluate(bg, w.find, x)
	case mover.Copy, mover.CatchUp, mover.Verify:
		load, err := new(Carrier).Read(w.find, x)
		if err != nil {
			w.t.Fatal(err)
		}
		ev = load.Bring(bg, w.find)
	case mover.Publish:
		ev = mover.Published{Round: x.Round}
	case mover.Choose:
		c := &Choose{Catalog: meta, ID: j.ID, Choose: x, NowMS: w.now}
		if r := w.try(1, c); r.Err != nil {
			return j, nil // it was made before
		}
		if c.Map.Version() != w.catalogMap().Version() {
			w.t.Errorf("it makes version %d, and %d is stored", c.Map.Version(), w.catalogMap().Version())
		}
		return c.Job, c.Effects
	}
	next, effects := mover.Step(j, ev, w.now)
	if next.Rev != j.Rev {
		w.do(1, &Swap{Catalog: meta, Rev: j.Rev, Job: next})
	}
	return next, effects
}

func TestAMapIsAdoptedIfNoOtherWasMade(t *testing.T) {
	w := newSmall(t)
	next := apply(t, w.m, partition.AddGroup{})
	with := func(k string) []command.Command {
		return []command.Command{&command.Set{Key: system.AppendPosition(nil, []byte(k)), Value: []byte("done")}}
	}
	free := partition.Span{Start: at("x"), End: at("y")}
	if r := w.try(1, &Note{Catalog: meta, Base: w.m.Version() + 1, Spans: []partition.Span{free}, Map: next, With: with("early")}); !errors.Is(r.Err, ErrOvertaken) {
		t.Errorf("from a map that is not there: %v", r.Err)
	}
	w.admit(mover.Request{Kind: mover.Move, Shard: w.m.Find(at("a")).ID, To: 3})
	if r := w.try(1, &Note{Catalog: meta, Base: w.m.Version(), Spans: []partition.Span{w.span(2)}, Map: next, With: with("busy")}); !errors.Is(r.Err, mover.ErrBusy) {
		t.Errorf("where a job is at work: %v", r.Err)
	}
	w.do(1, &Note{Catalog: meta, Base: w.m.Version(), Spans: []partition.Span{free}, Map: next, With: with("noted")})
	for range 2 {
		w.do(1, &Adopt{Catalog: meta, Map: next, With: with("adopted")})
		if w.catalogMap().Version() != next.Version() || w.do(1, &command.Get{Key: meta.Placing()}).Kind != command.Nil {
			t.Error("the map is not adopted, or the note is left")
		}
	}
	newer := apply(t, next, partition.AddGroup{})
	w.do(1, &Adopt{Catalog: meta, Map: newer})
	w.do(1, &Adopt{Catalog: meta, Map: next})
	if v := w.catalogMap().Version(); v != newer.Version() {
		t.Errorf("a map that comes late makes it %d", v)
	}
	for k, want := range map[string]bool{"early": false, "busy": false, "noted": true, "adopted": true} {
		if got := w.do(1, &command.Get{Key: system.AppendPosition(nil, []byte(k))}); (got.Kind == command.Bytes) != want {
			t.Errorf("what comes with it, %s: %q", k, got.Bytes)
		}
	}
}
