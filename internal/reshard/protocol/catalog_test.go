package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// catalogMap reads the map that is stored.
func (w *testCluster) catalogMap() *partition.Map {
	m, err := partition.Decode(w.mustDo(1, &command.Get{Key: catalogKeys.MapKey()}).Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *testCluster) admitCommand(r mover.Request) *AdmitJob {
	return &AdmitJob{Catalog: catalogKeys, Request: r, Home: func(g partition.GroupID) uint64 { return uint64(g) / 3 }, NowMS: w.nowMS}
}

func (w *testCluster) admitJob(r mover.Request) mover.Job {
	w.t.Helper()
	c := w.admitCommand(r)
	w.mustDo(1, c)
	return c.Job
}

func TestARecordTakesThePlaceOfTheOneBefore(t *testing.T) {
	w := newTestCluster(t)
	shard := w.shards.Find(keyAt("a"))
	j := w.admitJob(mover.Request{Kind: mover.Move, Shard: shard.ID, To: 3})
	if r := w.tryCommand(1, w.admitCommand(mover.Request{Kind: mover.Split, Shard: shard.ID, In: &dataKeyspace, At: []partition.Position{keyAt("b")}})); !errors.Is(r.Err, mover.ErrBusy) {
		t.Errorf("a second job there: %v", r.Err)
	}
	if r := w.tryCommand(1, w.admitCommand(mover.Request{Kind: mover.Move, Shard: w.shards.Find(catalogKeys.MapKey()).ID, To: 3})); !errors.Is(r.Err, mover.ErrFixedShard) {
		t.Errorf("a move of the catalog: %v", r.Err)
	}
	jobs, err := DecodeJobs(w.mustDo(1, catalogKeys.ListJobs()))
	if err != nil || len(jobs) != 1 || jobs[0].ID != j.ID {
		t.Fatalf("there are %+v, %v: one that was refused is not to be there", jobs, err)
	}
	next := j
	next.Rev++
	next.Reason = "the first"
	if r := w.tryCommand(1, &SwapJob{Catalog: catalogKeys, Rev: j.Rev, Job: next}); r.Err != nil {
		t.Fatal(r.Err)
	}
	other := next
	other.Reason = "one that was overtaken"
	for name, c := range map[string]*SwapJob{
		"from the one before":  {Catalog: catalogKeys, Rev: j.Rev, Job: other},
		"with no greater Rev":  {Catalog: catalogKeys, Rev: next.Rev, Job: other},
		"of a job there isn't": {Catalog: catalogKeys, Rev: 1, Job: mover.Job{ID: 99, Rev: 2}},
	} {
		if r := w.tryCommand(1, c); !errors.Is(r.Err, ErrStaleRecord) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	if jobs, _ := DecodeJobs(w.mustDo(1, catalogKeys.ListJobs())); jobs[0].Reason != "the first" {
		t.Errorf("the record says %q", jobs[0].Reason)
	}
	if r := w.tryCommand(1, &DecideJob{Catalog: catalogKeys, ID: 99}); !errors.Is(r.Err, ErrStaleRecord) {
		t.Errorf("a decision about a job there isn't: %v", r.Err)
	}
	if r := w.tryCommand(1, &DecideJob{Catalog: catalogKeys, ID: j.ID, Choose: mover.DecideJob{Round: next.Round}}); !errors.Is(r.Err, mover.ErrNotDeciding) {
		t.Errorf("a decision before its time: %v", r.Err)
	}
	if w.catalogMap().Version() != w.shards.Version() {
		t.Error("the map has changed")
	}
	w.tryCommand(1, catalogKeys.InsertFirstMap(applyEdits(t, w.shards, partition.AddGroup{})))
	if w.catalogMap().Version() != w.shards.Version() {
		t.Error("the first map was stored again over one that was there")
	}
	if _, err := DecodeJobs(command.Reply{Items: []command.Item{{Value: []byte("no job")}}}); !errors.Is(err, mover.ErrBadRecord) {
		t.Errorf("a record that is none: %v", err)
	}
}

func applyEdits(t *testing.T, m *partition.Map, edits ...partition.Edit) *partition.Map {
	next, err := m.Apply(edits...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Everything that the job wants is done twice, by a driver that knows nothing but this package,
// while a client writes.
func TestAJobIsDrivenToItsEnd(t *testing.T) {
	for name, to := range map[string]partition.GroupID{"to another store": 3, "within the store": 1} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t)
			for i := range 30 {
				w.setKey(2, fmt.Sprintf("k%02d", i), "old")
			}
			version := w.setKey(2, "last", "old")
			j := w.admitJob(mover.Request{Kind: mover.Move, Shard: w.shards.Find(keyAt("k00")).ID, To: to})
			if j.Local != (to == 1) {
				t.Fatalf("local: %v", j.Local)
			}
			effects := mover.PendingEffects(j)
			for steps := 0; len(effects) > 0; steps++ {
				if steps > 200 {
					t.Fatalf("it is still %v: %s", j.Phase, j.Reason)
				}
				if j.Phase == mover.CatchingUp && steps < 30 {
					version = w.setKey(2, "last", fmt.Sprint("while it moves", steps))
				}
				x := effects[0]
				effects = effects[1:]
				for range 2 {
					var more []mover.Effect
					j, more = w.driveEffect(j, x)
					effects = append(effects, more...)
				}
			}
			if j.Phase != mover.Done {
				t.Fatalf("it is %v: %s", j.Phase, j.Reason)
			}
			if m := w.catalogMap(); m.Owner(keyAt("last")).Group != to {
				t.Errorf("the map says %v", m.Owner(keyAt("last")))
			}
			got := w.mustDo(to, &command.Get{Key: keyAt("last")})
			if got.Version != version || w.setKey(to, "last", "new") <= version {
				t.Errorf("%q has version %d, the last was %d", got.Bytes, got.Version, version)
			}
			if n := countRows(t, w.hosts[2], w.ownedSpan(2)); to == 3 && n > 0 {
				t.Errorf("%d rows are left at the source", n)
			}
			if r := w.tryCommand(2, &command.Get{Key: keyAt("last")}); !errors.Is(r.Err, ownership.ErrWrongGroup) {
				t.Errorf("the source still reads: %v", r.Err)
			}
		})
	}
}

// driveEffect does an effect of a job and stores what becomes of it.
func (w *testCluster) driveEffect(j mover.Job, x mover.Effect) (mover.Job, []mover.Effect) {
	w.t.Helper()
	var ev mover.Event
	switch x := x.(type) {
	case mover.ReadOwnership:
		ev = ReadOwnership(w.findHost, x)
	case mover.Locate:
		ev = new(Copier).Locate(w.findHost, x, w.ownedSpan(2))
	case mover.EvalCommands:
		ev = EvalCommands(background, w.findHost, x)
	case mover.Copy, mover.CatchUp, mover.Verify:
		load, err := new(Copier).ReadChunk(w.findHost, x)
		if err != nil {
			w.t.Fatal(err)
		}
		ev = load.Apply(background, w.findHost)
	case mover.PublishMap:
		ev = mover.Acknowledged{Round: x.Round}
	case mover.DecideJob:
		c := &DecideJob{Catalog: catalogKeys, ID: j.ID, Choose: x, NowMS: w.nowMS}
		if r := w.tryCommand(1, c); r.Err != nil {
			return j, nil // it was made before
		}
		if c.Map.Version() != w.catalogMap().Version() {
			w.t.Errorf("it makes version %d, and %d is stored", c.Map.Version(), w.catalogMap().Version())
		}
		return c.Job, c.Effects
	}
	next, effects := mover.Step(j, ev, w.nowMS)
	if next.Rev != j.Rev {
		w.mustDo(1, &SwapJob{Catalog: catalogKeys, Rev: j.Rev, Job: next})
	}
	return next, effects
}

func TestAMapIsAdoptedIfNoOtherWasMade(t *testing.T) {
	w := newTestCluster(t)
	next := applyEdits(t, w.shards, partition.AddGroup{})
	with := func(k string) []command.Command {
		return []command.Command{&command.Set{Key: systemKeyspace.AppendPosition(nil, []byte(k)), Value: []byte("done")}}
	}
	free := partition.Span{Start: keyAt("x"), End: keyAt("y")}
	if r := w.tryCommand(1, &BeginPlacing{Catalog: catalogKeys, BaseVersion: w.shards.Version() + 1, Spans: []partition.Span{free}, Map: next, Commands: with("early")}); !errors.Is(r.Err, ErrStaleRecord) {
		t.Errorf("from a map that is not there: %v", r.Err)
	}
	w.admitJob(mover.Request{Kind: mover.Move, Shard: w.shards.Find(keyAt("a")).ID, To: 3})
	if r := w.tryCommand(1, &BeginPlacing{Catalog: catalogKeys, BaseVersion: w.shards.Version(), Spans: []partition.Span{w.ownedSpan(2)}, Map: next, Commands: with("busy")}); !errors.Is(r.Err, mover.ErrBusy) {
		t.Errorf("where a job is at work: %v", r.Err)
	}
	w.mustDo(1, &BeginPlacing{Catalog: catalogKeys, BaseVersion: w.shards.Version(), Spans: []partition.Span{free}, Map: next, Commands: with("noted")})
	for range 2 {
		w.mustDo(1, &FinishPlacing{Catalog: catalogKeys, Map: next, Commands: with("adopted")})
		if w.catalogMap().Version() != next.Version() || w.mustDo(1, &command.Get{Key: catalogKeys.PlacingKey()}).Kind != command.Nil {
			t.Error("the map is not adopted, or the note is left")
		}
	}
	newer := applyEdits(t, next, partition.AddGroup{})
	w.mustDo(1, &FinishPlacing{Catalog: catalogKeys, Map: newer})
	w.mustDo(1, &FinishPlacing{Catalog: catalogKeys, Map: next})
	if v := w.catalogMap().Version(); v != newer.Version() {
		t.Errorf("a map that comes late makes it %d", v)
	}
	for k, want := range map[string]bool{"early": false, "busy": false, "noted": true, "adopted": true} {
		if got := w.mustDo(1, &command.Get{Key: systemKeyspace.AppendPosition(nil, []byte(k))}); (got.Kind == command.Bytes) != want {
			t.Errorf("what comes with it, %s: %q", k, got.Bytes)
		}
	}
}
