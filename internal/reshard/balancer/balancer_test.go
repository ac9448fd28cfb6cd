package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// fastKnobs make a test take seconds where an operator has minutes.
var fastKnobs = map[string]string{"settle": "2s", "residence": "4s", "busy-work": "0.1", "cold-work": "0.01", "hot-min-work": "0.05"}

// bed is a store with its balancer, and a load on it.
type bed struct {
	t    *testing.T
	db   *cleave.DB
	b    *balancer.Balancer
	k    *cleave.Keyspace
	stop context.CancelFunc
	work sync.WaitGroup
}

func newBed(t *testing.T, dir string, kind cleave.Kind) *bed {
	t.Helper()
	x := &bed{t: t}
	x.open(dir)
	var err error
	if x.k, err = x.db.OpenKeyspace(t.Context(), cleave.KeyspaceOptions{Name: "rows", Kind: kind}); err != nil {
		t.Fatal(err)
	}
	if err := x.b.SetKnobs(t.Context(), fastKnobs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.quiet(); _ = x.db.Close() })
	return x
}

func (x *bed) open(dir string) {
	x.t.Helper()
	o := cleave.Options{Groups: 4, Durability: cleave.EverySec}
	var err error
	if dir == "" {
		x.db, err = cleave.OpenMemory(o)
	} else {
		x.db, err = cleave.Open(dir, o)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.db.Balancer(&x.b)
}

// load writes keys with so many goroutines until quiet is called.
func (x *bed) load(writers int, next func(r *rand.Rand) string) {
	ctx, stop := context.WithCancel(x.t.Context())
	x.stop = stop
	for i := range writers {
		x.work.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			value := make([]byte, 64)
			for ctx.Err() == nil {
				if err := x.k.Set(ctx, []byte(next(r)), value); err != nil && ctx.Err() == nil {
					x.t.Error(err)
					return
				}
			}
		})
	}
}

func (x *bed) quiet() {
	if x.stop != nil {
		x.stop()
	}
	x.work.Wait()
}

// history is what was decided, the oldest first.
func (x *bed) history() string {
	all := x.b.Decisions(0, 100)
	slices.Reverse(all)
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%v; %s: %s; work %.2f, predicted %.2f, measured %.2f; %d times; %s\n", d.String(), d.Class, d.Evidence, d.Before, d.Predicted, d.Measured, d.Times, d.Error)
	}
	p, err := x.b.Plan(x.t.Context())
	fmt.Fprintf(&b, "imbalance %.2f, work %v, %v", p.Imbalance, p.Work, err)
	return b.String()
}

// waitFor waits until something was decided.
func (x *bed) waitFor(what string, is func(d *balancer.ReliefDecision) bool) {
	x.t.Helper()
	found := func() bool {
		return slices.ContainsFunc(x.b.Decisions(0, 500), func(d balancer.ReliefDecision) bool { return is(&d) })
	}
	if !eventually.Within(time.Minute, found) {
		x.t.Fatalf("%s was not decided within a minute:\n%s", what, x.history())
	}
}

// Warm neighbours in one shard of a range keyspace are split and spread over the groups; when the load is over, the map
// becomes as small as it was.
func TestBalancer_WarmNeighbours_AreSpreadAndMergedBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	x := newBed(t, "", cleave.Range)
	shards := x.db.Map().Len()
	x.load(8, func(r *rand.Rand) string { return fmt.Sprintf("user:%06d", r.IntN(5000)) })
	if !eventually.Within(time.Minute, func() bool {
		p, err := x.b.Plan(t.Context())
		return err == nil && p.Imbalance > 0 && p.Imbalance < 1.35
	}) {
		t.Fatalf("the groups are not even:\n%s", x.history())
	}
	x.waitFor("a move that helped", func(d *balancer.ReliefDecision) bool {
		return d.Change == "move" && d.Outcome == balancer.Helped && d.JudgedMS > 0
	})
	t.Logf("under load:\n%s", x.history())
	x.quiet()
	if !eventually.Within(2*time.Minute, func() bool { return x.db.Map().Len() == shards }) {
		t.Errorf("%d shards are left of %d:\n%s", x.db.Map().Len(), shards, x.history())
	}
}

// One key that has all the work is named, with what helps.
func TestBalancer_OneKey_IsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := newBed(t, "", cleave.Hash)
	x.load(8, func(r *rand.Rand) string {
		if r.IntN(5) > 0 {
			return "flash-sale"
		}
		return fmt.Sprintf("other:%d", r.IntN(10_000))
	})
	x.waitFor("to keep the shard of one key", func(d *balancer.ReliefDecision) bool {
		return d.Change == "keep" && d.Class == "hot key" && d.Key == "flash-sale" && strings.Contains(d.Remedy, "unsplittable")
	})
}

// Keys in the order of time are found to be a moving edge, and nothing is done about its load: that would not help.
func TestBalancer_KeysInOrderOfTime_AreAMovingEdge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	x := newBed(t, "", cleave.Range)
	var mu sync.Mutex
	id := 0
	began := time.Now()
	x.load(8, func(*rand.Rand) string {
		mu.Lock()
		defer mu.Unlock()
		id++
		return fmt.Sprintf("order:%012d", id)
	})
	if !eventually.Within(time.Minute, func() bool {
		return slices.ContainsFunc(x.b.Findings(), func(f classify.Finding) bool { return f.Class == classify.MovingEdge })
	}) {
		t.Fatalf("no moving edge was found:\n%s", x.history())
	}
	t.Logf("found after %v", time.Since(began))
	x.waitFor("to split no more", func(d *balancer.ReliefDecision) bool {
		return d.Change == "keep" && strings.Contains(d.Reason, "order of time")
	})
	kept := 0
	for _, d := range x.b.Decisions(0, 500) {
		switch {
		case d.Reason == distributor.MovingEdge.String():
			kept++
		case (d.Change == "split" || d.Change == "move") && d.Reason == distributor.GroupHot.String(), d.Outcome == balancer.Refused:
			t.Errorf("about a moving edge it was decided: %v\n%s", d.String(), x.history())
		}
	}
	if kept != 1 {
		t.Errorf("%d decisions to leave it:\n%s", kept, x.history())
	}
}

// What was decided, accepted, tuned and split is there after a restart.
func TestBalancer_Restart_KeepsWhatWasDecided(t *testing.T) {
	dir := t.TempDir()
	x := newBed(t, dir, cleave.Range)
	shard := x.db.Map().Find(nil).ID
	accept := balancer.Acceptance{Shard: shard, Ground: balancer.BriefPeaks, Price: "none", Reason: "a test", UntilMS: time.Now().Add(time.Hour).UnixMilli()}
	if err := x.b.Accept(t.Context(), accept); err != nil {
		t.Fatal(err)
	}
	if _, err := x.b.Rebalance(t.Context()); err != nil { // is a decision, also that nothing is done
		t.Fatal(err)
	}
	before := x.b.Decisions(0, 10)
	if len(before) == 0 {
		t.Fatal("nothing was decided")
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	x.open(dir)
	if after := x.b.Decisions(0, 10); !slices.EqualFunc(before, after[len(after)-len(before):], func(a, b balancer.ReliefDecision) bool { return a.ID == b.ID && a.String() == b.String() }) {
		t.Errorf("decisions %v, before %v", after, before)
	}
	if a, ok := x.b.Acceptance(shard); !ok || a.Reason != "a test" {
		t.Errorf("accepted: %v %+v", ok, a)
	}
	for _, k := range x.b.Knobs() {
		if want, ok := fastKnobs[k.Name]; ok && k.Value != want {
			t.Errorf("%s is %s, want %s", k.Name, k.Value, want)
		}
	}
}

// A shard of a critical keyspace is never accepted as it is, and a verdict has a price, a reason and an end.
func TestBalancer_Accept_RefusesWhatIsCriticalOrHasNoEnd(t *testing.T) {
	x := newBed(t, "", cleave.Range)
	k, err := x.db.OpenKeyspace(t.Context(), cleave.KeyspaceOptions{Name: "payments", Kind: cleave.Range})
	if err != nil {
		t.Fatal(err)
	}
	shard := k.Locate([]byte("a")).Shard
	good := balancer.Acceptance{Shard: shard, Ground: balancer.EndOfLife, Price: "p99 of 20 ms", Reason: "replaced in May", UntilMS: time.Now().Add(time.Hour).UnixMilli()}
	for name, change := range map[string]func(a *balancer.Acceptance){
		"no price":   func(a *balancer.Acceptance) { a.Price = "" },
		"no reason":  func(a *balancer.Acceptance) { a.Reason = "" },
		"no ground":  func(a *balancer.Acceptance) { a.Ground = "because" },
		"is over":    func(a *balancer.Acceptance) { a.UntilMS = time.Now().Add(-time.Hour).UnixMilli() },
		"has no end": func(a *balancer.Acceptance) { a.UntilMS = time.Now().Add(10_000 * time.Hour).UnixMilli() },
	} {
		a := good
		if change(&a); !errors.Is(x.b.Accept(t.Context(), a), balancer.ErrAcceptance) {
			t.Errorf("accepted, though: %s", name)
		}
	}
	if err := x.b.Accept(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	node := nodeOf(x.db)
	space, err := node.Keyspace("payments")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.b.SetCritical(t.Context(), space, true); err != nil {
		t.Fatal(err)
	}
	if _, ok := x.b.Acceptance(shard); ok {
		t.Error("it is accepted still")
	}
	if err := x.b.Accept(t.Context(), good); !errors.Is(err, balancer.ErrAcceptance) {
		t.Errorf("accepted: %v", err)
	}
}

// Knobs are changed together or not at all, and only if they go together.
func TestBalancer_SetKnobs_ChecksRelations(t *testing.T) {
	x := newBed(t, "", cleave.Range)
	for _, bad := range []map[string]string{
		{"no-such": "1"}, {"imbalance": "0.9"}, {"imbalance": "x"}, {"settle": "1m", "residence": "1m"}, {"cold-work": "0.2"},
		{"relief": "perhaps"}, {"hot-key-share": "2"}, {"imbalance": "2", "max-pieces": "1"},
	} {
		if err := x.b.SetKnobs(t.Context(), bad); !errors.Is(err, balancer.ErrKnob) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	values := func() map[string]string {
		all := map[string]string{}
		for _, k := range x.b.Knobs() {
			all[k.Name] = k.Value
		}
		return all
	}
	if v := values(); v["imbalance"] != "1.3" || v["settle"] != "2s" {
		t.Errorf("a knob was changed with others that are bad: %v", v)
	}
	if err := x.b.SetKnobs(t.Context(), map[string]string{"settle": "", "residence": "", "relief": "manual"}); err != nil {
		t.Fatal(err)
	}
	if v := values(); v["settle"] != "5s" || v["relief"] != "manual" || !x.b.IsManual() {
		t.Errorf("knobs %v", v)
	}
}
