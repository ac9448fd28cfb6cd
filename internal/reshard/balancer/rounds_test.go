package balancer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// stillBed is a store whose loop has ended: a test does its rounds, and says what they measure.
type stillBed struct {
	*bed
	now time.Duration
	// work is that of shards, and cut the position that each may be split at, by the key that it lies before.
	work map[partition.ShardID]float64
	cut  partition.Position
	// other is the work of shards of other keyspaces, by group as much; edge is a shard with a moving edge, and found what is
	// found about a shard.
	other float64
	edge  partition.ShardID
	found *classify.Finding
}

func newStillBed(t *testing.T, dir string) *stillBed {
	t.Helper()
	x := &stillBed{bed: newBed(t, dir, cleave.Range), work: map[partition.ShardID]float64{}}
	x.b.Close()
	space, err := nodeOf(x.db).Keyspace("rows")
	if err != nil {
		t.Fatal(err)
	}
	x.cut = partition.Position(space.AppendPosition(nil, []byte("m")))
	return x
}

// shard is the one that has a key.
func (x *stillBed) shard(key string) partition.ShardID { return x.k.Locate([]byte(key)).Shard }

// round does a round some hours after the one before.
func (x *stillBed) round(byHand bool) {
	x.t.Helper()
	x.now += 10 * time.Hour
	others := map[partition.GroupID]bool{}
	var found []classify.Finding
	if x.found != nil {
		found = append(found, *x.found)
	}
	err := x.b.Round(x.t.Context(), byHand, found, func(v *distributor.Situation) {
		v.Now = x.now
		for i := range v.Shards {
			s := &v.Shards[i]
			s.Work, s.Cuts, s.IsEdge, s.EdgeWork = x.work[s.ID], nil, false, 0
			if s.ID == x.edge {
				s.IsEdge, s.EdgeWork = true, 1
			}
			if s.ID != x.shard("a") && s.ID != x.shard("z") && !others[s.Group] {
				s.Work, others[s.Group] = x.other, true
			}
			if s.Span.Contains(x.cut) && string(s.Span.Start) != string(x.cut) {
				s.Cuts = []distributor.SplitPoint{{At: x.cut, Bytes: 0.5, Work: 0.5}}
			}
		}
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// waitForJobs waits until no job is under way.
func (x *stillBed) waitForJobs() {
	x.t.Helper()
	if !eventually.Within(time.Minute, func() bool {
		jobs, err := nodeOf(x.db).Jobs(x.t.Context())
		return err == nil && !slices.ContainsFunc(jobs, func(j mover.Job) bool { return !j.Phase.IsFinal() })
	}) {
		x.t.Fatal("a job does not end")
	}
}

// decided counts decisions by change and outcome.
func (x *stillBed) decided(change string, outcomes ...balancer.ReliefOutcome) (n int) {
	for _, d := range x.b.Decisions(0, 500) {
		if d.Change == change && (len(outcomes) == 0 || slices.Contains(outcomes, d.Outcome)) {
			n++
		}
	}
	return n
}

// split has the shard of the keyspace split in two.
func (x *stillBed) split() {
	x.t.Helper()
	x.work[x.shard("a")] = 0.8
	for i := 0; i < 3 && x.decided("split") == 0; i++ {
		x.round(false)
	}
	x.waitForJobs()
	if x.shard("a") == x.shard("z") || x.decided("split") != 1 {
		x.t.Fatalf("it was not split:\n%s", x.history())
	}
	clear(x.work)
}

// A shard that is accepted as it is stays so, whatever its load.
func TestBalancer_AcceptedShard_IsLeftAlone(t *testing.T) {
	x := newStillBed(t, "")
	hot := x.shard("a")
	a := balancer.Acceptance{Shard: hot, Ground: balancer.BriefPeaks, Price: "none", Reason: "a test", UntilMS: time.Now().Add(time.Hour).UnixMilli()}
	if err := x.b.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	x.work[hot] = 0.8
	x.round(false)
	x.round(false)
	if n := x.decided("split") + x.decided("move"); n > 0 {
		t.Fatalf("%d changes of a shard that is accepted:\n%s", n, x.history())
	}
	if err := x.b.Revoke(t.Context(), hot); err != nil {
		t.Fatal(err)
	}
	x.split()
}

// Where relief is manual a round says what it would do, and does it when it is asked for.
func TestBalancer_Manual_ProposesOnly(t *testing.T) {
	x := newStillBed(t, "")
	if err := x.b.SetKnobs(t.Context(), map[string]string{"relief": "manual"}); err != nil {
		t.Fatal(err)
	}
	x.work[x.shard("a")] = 0.8
	x.round(false)
	x.round(false)
	if n := x.decided("split"); n > 0 || x.decided("keep", balancer.Kept) == 0 || !strings.Contains(x.b.Decisions(0, 1)[0].Reason, "cleave rebalance would split it") {
		t.Fatalf("%d splits though relief is manual:\n%s", n, x.history())
	}
	x.round(true)
	if d := x.b.Decisions(0, 1)[0]; d.Change != "split" || !d.ByHand || d.Job == 0 {
		t.Errorf("by hand it was decided: %v\n%s", d.String(), x.history())
	}
	x.waitForJobs()
}

// The pieces of splits are known after a restart, so that they are merged one day.
func TestBalancer_Restart_KeepsPieces(t *testing.T) {
	dir := t.TempDir()
	x := newStillBed(t, dir)
	x.split()
	x.work[x.shard("a")], x.work[x.shard("z")] = 0.02, 0.02 // more than what is cold
	x.round(false)
	want := []partition.ShardID{x.shard("z")}
	if got := x.b.Pieces(); !slices.Equal(got, want) {
		t.Fatalf("pieces %v, want %v", got, want)
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	x.open(dir)
	x.b.Close()
	x.round(false)
	if got := x.b.Pieces(); !slices.Equal(got, want) {
		t.Errorf("after a restart pieces are %v, want %v", got, want)
	}
}

// What is left alone for the same reason is one decision, and its row is not written each second.
func TestBalancer_SameKeep_IsWrittenOnceAMinute(t *testing.T) {
	x := newStillBed(t, "")
	x.cut = nil
	x.work[x.shard("a")] = 0.8
	for range 5 {
		x.round(false)
	}
	kept := x.b.Decisions(0, 10)
	if len(kept) != 1 || kept[0].Outcome != balancer.Kept || kept[0].Times < 4 {
		t.Fatalf("decisions:\n%s", x.history())
	}
	notes, err := nodeOf(x.db).Notes(t.Context(), "decision/")
	if err != nil || len(notes) != 1 {
		t.Fatalf("%d rows, %v", len(notes), err)
	}
	for _, content := range notes {
		var d balancer.ReliefDecision
		if err := json.Unmarshal(content, &d); err != nil || d.Times != 1 {
			t.Errorf("after a few seconds the row is %s, %v", content, err)
		}
	}
	if got := x.b.Stats().Outcomes[balancer.ChangeOutcome{Change: "keep", Outcome: balancer.Kept}]; got != 1 {
		t.Errorf("it counts as %d decisions", got)
	}
}

// A move has one verdict: that of the planner, which holds the group when it is said that the move did not help.
func TestBalancer_Move_HasTheVerdictOfThePlanner(t *testing.T) {
	for name, c := range map[string]struct {
		settle string
		// stays and moved are the work of the pieces afterwards, and other that of each other group.
		stays, moved, other float64
		want                balancer.ReliefOutcome
	}{
		"too early":               {"12h", 0.4, 0.4, 0, balancer.Done},
		"helped":                  {"1ms", 0.4, 0.4, 0, balancer.Helped},
		"it is as busy as before": {"1ms", 0.8, 0, 0, balancer.DidNotHelp},
		"all have become as busy": {"1ms", 0.8, 0, 0.8, balancer.Helped},
		"the load is half of it":  {"1ms", 0.4, 0, 0, balancer.DidNotHelp},
	} {
		t.Run(name, func(t *testing.T) {
			x := newStillBed(t, "")
			if err := x.b.SetKnobs(t.Context(), map[string]string{"settle": c.settle, "residence": "24h"}); err != nil {
				t.Fatal(err)
			}
			x.split()
			a, z := x.shard("a"), x.shard("z")
			x.work[a], x.work[z] = 0.4, 0.4
			for i := 0; i < 4 && x.decided("move") == 0; i++ {
				x.round(false)
			}
			x.waitForJobs()
			if x.decided("move") != 1 {
				t.Fatalf("it was not moved:\n%s", x.history())
			}
			d := x.b.Decisions(0, 1)[0]
			stays := a
			if d.Shard == a {
				stays = z
			}
			x.work[d.Shard], x.work[stays], x.other = c.moved, c.stays, c.other
			x.round(false)
			x.waitForJobs()
			if x.decided("move", c.want) == 0 {
				t.Errorf("the move has another outcome than %q:\n%s", c.want, x.history())
			}
			held := false
			for _, k := range x.b.Decisions(0, 500) {
				held = held || k.Change == "keep" && k.Group == d.Group && k.Reason == distributor.DidNotHelp.String()
			}
			if held != (c.want == balancer.DidNotHelp) {
				t.Errorf("the group is held: %v, and the outcome is to be %q:\n%s", held, c.want, x.history())
			}
		})
	}
}

// What nothing judges stays done: splits, and moves of a balancer that has ended.
func TestBalancer_SplitAndMoveBeforeARestart_StayDone(t *testing.T) {
	dir := t.TempDir()
	x := newStillBed(t, dir)
	x.split()
	x.work[x.shard("a")], x.work[x.shard("z")] = 0.4, 0.4
	for i := 0; i < 4 && x.decided("move") == 0; i++ {
		x.round(false)
	}
	x.waitForJobs()
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	x.open(dir)
	x.b.Close()
	for range 3 {
		x.round(false)
	}
	if x.decided("split", balancer.Done) != 1 || x.decided("move", balancer.Done) != 1 {
		t.Errorf("after a restart:\n%s", x.history())
	}
}

// A shard whose class changes to and fro is one decision for each class, however often it changes.
func TestBalancer_ClassThatFlaps_HasBoundedDecisions(t *testing.T) {
	x := newStillBed(t, "")
	x.cut = nil
	x.work[x.shard("a")] = 0.8
	x.round(false)
	x.round(false)
	before := x.b.Decisions(0, 500)
	for i := range 60 {
		x.found = &classify.Finding{Shard: x.shard("a"), Class: classify.HotRange}
		switch {
		case i%3 == 1:
			x.found.Class = classify.HotPrefix
		case i%3 == 2:
			x.found.Class, x.found.Key = classify.HotKey, nil
		}
		x.round(false)
	}
	after := x.b.Decisions(0, 500)
	if n := len(after) - len(before); n > 3 {
		t.Errorf("%d decisions about 3 classes:\n%s", n, x.history())
	}
	for _, d := range after[:len(after)-len(before)] {
		if d.Times != 20 || d.LastMS < d.TimeMS {
			t.Errorf("%v was made %d times, from %d to %d", d.String(), d.Times, d.TimeMS, d.LastMS)
		}
	}
}

// A moving edge is one decision, however many shards it leaves behind.
func TestBalancer_EdgeInNewShard_IsTheSameDecision(t *testing.T) {
	x := newStillBed(t, "")
	x.split()
	x.cut = nil
	for _, key := range []string{"a", "z", "a", "z"} {
		clear(x.work)
		x.work[x.shard(key)], x.edge = 0.8, x.shard(key)
		x.round(false)
		x.round(false)
	}
	kept := 0
	for _, d := range x.b.Decisions(0, 500) {
		if d.Reason == distributor.MovingEdge.String() {
			kept++
			if d.Shard != x.shard("z") || d.Keyspace != "rows" || d.Times < 4 {
				t.Errorf("the decision is about %v of %q, made %d times", d.Shard, d.Keyspace, d.Times)
			}
		}
	}
	if kept != 1 {
		t.Errorf("%d decisions to leave the edge:\n%s", kept, x.history())
	}
}

// A piece that was cut off a shard with a moving edge has the edge: keys come in it now.
func TestBalancer_SplitOfAMovingEdge_RightPieceHasIt(t *testing.T) {
	x := newStillBed(t, "")
	x.split()
	if !x.b.HasEdgeAfterSplit(x.shard("a"), x.shard("z")) {
		t.Error("the right piece of a moving edge has none")
	}
}

// An edge at which nothing is written for long is none; before that it has left the shard, and the work that it had.
func TestBalancer_EdgeThatHasMovedOn_IsForgotten(t *testing.T) {
	work, isEdge, rounds := balancer.LeaveEdge(0.8, 0.25)
	if math.Abs(work-0.2) > 1e-9 || !isEdge {
		t.Errorf("a shard of which a fourth is read has the work %v when its edge has left it; an edge: %v", work, isEdge)
	}
	if rounds < 10 || rounds > 100 {
		t.Errorf("the edge is forgotten after %d rounds", rounds)
	}
}

// A shard that has just become busy is not known to have no edge, for some rounds.
func TestBalancer_NewlyBusyShard_IsNewForSomeRounds(t *testing.T) {
	for _, c := range []struct {
		rounds int
		writes float64
		known  bool
		want   bool
	}{{1, 100, false, true}, {4, 100, false, true}, {20, 100, false, false}, {0, 100, false, false}, {1, 0, false, false}, {1, 100, true, false}} {
		if got := balancer.IsNewShard(c.rounds, c.writes, c.known); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A shard above the knob is split, however few bytes there are in all.
func TestBalancer_ShardAboveMaxBytes_IsSplit(t *testing.T) {
	x := newStillBed(t, "")
	if err := x.b.SetKnobs(t.Context(), map[string]string{"shard-max-bytes": "2000000", "shard-min-bytes": "500000"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := x.k.Set(t.Context(), fmt.Appendf(nil, "row:%06d", i), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	x.now += 10 * time.Hour
	if err := x.b.Round(t.Context(), false, nil, func(v *distributor.Situation) { v.Now = x.now }); err != nil {
		t.Fatal(err)
	}
	x.waitForJobs()
	if x.decided("split") != 1 || x.shard("row:000000") == x.shard("row:002999") {
		t.Errorf("3 MB are in one shard:\n%s", x.history())
	}
}

// Of a hot shard it is said why its writers are not limited.
func TestBalancer_Plan_SaysWhyWritersAreNotLimited(t *testing.T) {
	x := newStillBed(t, "")
	hot := classify.Finding{Class: classify.HotKey, Shard: x.shard("a")}
	x.work[hot.Shard] = 0.8
	readWait := time.Microsecond
	want := func(words string) {
		t.Helper()
		if got := x.b.DescribeThrottle(hot, readWait); !strings.Contains(got, words) {
			t.Errorf("%q, want %q", got, words)
		}
	}
	x.round(false) // its rates are not known for long enough
	want("a change may relieve it")
	readWait = time.Millisecond // which no change of one shard relieves
	want("limits did not help")
	readWait = time.Microsecond
	x.cut = nil
	x.round(false)
	want("hot-queue-wait is 2.0 ms")
	want("requests wait 1 µs on average before they are read, and hot-read-wait is 250 µs")
	for knob, words := range map[string]string{"hot-throttle=off": "hot-throttle is off", "relief=manual": "relief is manual"} {
		name, value, _ := strings.Cut(knob, "=")
		if err := x.b.SetKnobs(t.Context(), map[string]string{name: value}); err != nil {
			t.Fatal(err)
		}
		want(words)
		if err := x.b.SetKnobs(t.Context(), map[string]string{name: ""}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nodeOf(x.db).Throttles().Set(hot.Shard, 1234, "a test", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want("its writers are limited to 1,234 a second")
	if hot.Reads = 1; x.b.DescribeThrottle(hot, readWait) != "" {
		t.Error("it is said of a shard that is only read")
	}
}

// What the process uses beside what was timed is shared by operations, up to what requests cost at most.
func TestBalancer_Overhead_IsSharedByOperations(t *testing.T) {
	rates := map[partition.ShardID]heat.Rate{1: {Reads: 30_000, Service: 0.1}, 2: {Writes: 10_000, Service: 0.1}}
	for _, c := range []struct{ used, want float64 }{{0.6, 0.4 / 40_000}, {0.1, 0}, {2, 20e-6}} {
		if got := balancer.OverheadOf(c.used, rates); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("of %v processors: %v, want %v", c.used, got, c.want)
		}
	}
	if got := balancer.OverheadOf(1, nil); got != 0 {
		t.Errorf("without operations: %v", got)
	}
}

// Knobs of which one is unknown change nothing, however many are good.
func TestBalancer_SetKnobs_OneIsBad_ChangesNone(t *testing.T) {
	x := newStillBed(t, "")
	before := x.b.Knobs()
	if err := x.b.SetKnobs(t.Context(), map[string]string{"imbalance": "1.5", "no-such": "1"}); !errors.Is(err, balancer.ErrKnob) {
		t.Fatal(err)
	}
	if after := x.b.Knobs(); !slices.Equal(before, after) {
		t.Errorf("knobs are %v, before %v", after, before)
	}
}

// To look at the plan measures nothing: frequent looks must not change what the next rounds decide.
func TestBalancer_Plan_LeavesMeasuresAlone(t *testing.T) {
	x := newStillBed(t, "")
	x.work[x.shard("a")] = 0.8
	x.round(false)
	before := x.b.RoundsSeen()
	for range 100 {
		if _, err := x.b.Plan(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := x.b.RoundsSeen(); !maps.Equal(before, after) || len(before) == 0 {
		t.Errorf("rounds that shards were seen in: %v, then %v", before, after)
	}
}
