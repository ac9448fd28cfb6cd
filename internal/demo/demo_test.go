package demo

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// play plays a story as fast as it can be, and checks what holds for all of them.
func play(t *testing.T, name string) *Result {
	t.Helper()
	if testing.Short() {
		t.Skip("a story waits for what the store finds, which takes it several seconds")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, ok := Find(name)
	if !ok {
		t.Fatalf("there is no story %s", name)
	}
	var text strings.Builder
	// Patience is that of a hang.
	o, err := Run(t.Context(), s, Options{Out: &text, Pace: Pace{Measure: time.Second, Patience: time.Minute}})
	t.Log("\n" + text.String())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := output.TextWidth(strings.TrimRight(line, "\n")); n > defaultWidth {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	checkEmpty(t, dir)
	return o
}

// checkEmpty checks that nothing is left in a directory.
func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// checkFound checks that a class was found, and returns the finding.
func checkFound(t *testing.T, o *Result, class, remedy string) api.Hot {
	t.Helper()
	i := slices.IndexFunc(o.Found, func(f api.Hot) bool { return f.Class == class })
	if i < 0 {
		t.Fatalf("found are %+v, want a %s", o.Found, class)
	}
	if f := o.Found[i]; !strings.Contains(f.Remedy, remedy) {
		t.Errorf("the remedy of a %s is %q, want one that names %q", class, f.Remedy, remedy)
	}
	return o.Found[i]
}

// value returns a figure.
func value(t *testing.T, o *Result, figure, column string) float64 {
	t.Helper()
	v, ok := o.Value(figure, column)
	if !ok || math.IsNaN(v) {
		t.Fatalf("there is no figure %q of %q", figure, column)
	}
	return v
}

func TestBlackFriday_NamesTheEdgeAndSpreadsIt(t *testing.T) {
	o := play(t, "black-friday")
	checkFound(t, o, "moving edge", "begin the key with what spreads it")
	if v := value(t, o, "busiest shard's part of writes", "id"); v < 0.9 {
		t.Errorf("the id gives one shard %.2f of the writes, want nearly all", v)
	}
	for _, want := range []struct {
		column           string
		busiest, written float64
	}{{"(region, hour), id", 0.5, float64(len(regions))}, {"salt, id", 0.2, orderSalts}} {
		if v := value(t, o, "busiest shard's part of writes", want.column); v > want.busiest {
			t.Errorf("%s gives one shard %.2f of the writes, want %.2f at most", want.column, v, want.busiest)
		}
		if v := value(t, o, "shards that are written", want.column); v < want.written {
			t.Errorf("%s writes %.0f shards, want %.0f", want.column, v, want.written)
		}
	}
	queued, written := value(t, o, "orders that were queued", "with the cap"), value(t, o, "of these written when it was over", "with the cap")
	if queued == 0 || queued != written {
		t.Errorf("%.0f orders were queued and %.0f written, want as many, and some", queued, written)
	}
	if v := value(t, o, "ranges a dashboard reads", "(region, hour), id"); v != float64(len(regions)*historyHours) {
		t.Errorf("the dashboard reads %.0f ranges, want %d", v, len(regions)*historyHours)
	}
}

func TestFlashSale_MovesTheRangeAndNamesTheKey(t *testing.T) {
	o := play(t, "flash-sale")
	checkFound(t, o, "hot range", "")
	for _, change := range []string{"split", "move"} {
		if !slices.ContainsFunc(o.Decisions, func(d api.Decision) bool { return d.Change == change }) {
			t.Errorf("the decisions are %+v, want a %s", o.Decisions, change)
		}
	}
	if before, after := value(t, o, "busiest group's part of writes", "before"), value(t, o, "busiest group's part of writes", "after"); after >= before {
		t.Errorf("the busiest group has %.2f of the writes, then %.2f, want less", before, after)
	}
	f := checkFound(t, o, "hot key", "unsplittable: one key")
	if f.Key == nil || string(*f.Key) != stockKey {
		t.Errorf("the key is %v, want %s", f.Key, stockKey)
	}
	last := o.Decisions[len(o.Decisions)-1]
	if last.Change != "keep" || last.Key == nil || string(*last.Key) != stockKey || !strings.Contains(last.Reason, "one key") {
		t.Errorf("the decision is %+v, want to keep it because of %s", last, stockKey)
	}
	if v := value(t, o, "busiest shard's part of writes", "16 keys"); v > 0.6 {
		t.Errorf("a spread stock gives one shard %.2f of the writes", v)
	}
}

func TestLikes_NamesThePostAndCountsAll(t *testing.T) {
	o := play(t, "likes")
	f := checkFound(t, o, "hot key", "package counter")
	if f.Key == nil || string(*f.Key) != likedPost {
		t.Errorf("the key is %v, want %s", f.Key, likedPost)
	}
	for _, column := range []string{"one key", "as it decides", "8 parts"} {
		if v := value(t, o, "likes that the sum lacks", column); v != 0 {
			t.Errorf("the sum of %s lacks %.0f likes", column, v)
		}
	}
	if v := value(t, o, "parts at the end", "8 parts"); v != fixedParts {
		t.Errorf("there are %.0f parts, want %d", v, fixedParts)
	}
}

func TestTelemetry_NamesTheEdgeAndSpreadsIt(t *testing.T) {
	o := play(t, "telemetry")
	checkFound(t, o, "moving edge", "salt")
	for _, column := range []string{"salt(8), ts", "(device, day), ts"} {
		if v := value(t, o, "busiest shard's part of writes", column); v > 0.4 {
			t.Errorf("%s gives one shard %.2f of the writes", column, v)
		}
	}
	if v := value(t, o, "busiest shard's part of writes", "ts"); v < 0.9 {
		t.Errorf("the time gives one shard %.2f of the writes, want nearly all", v)
	}
}

func TestBooking_KeyOfTheCabinKeepsTransactionsInOneShard(t *testing.T) {
	o := play(t, "booking")
	const cross = "writes in cross-shard transactions"
	if v := value(t, o, cross, "customer"); v < 0.5 {
		t.Errorf("by customer %.2f of the writes cross shards, want most", v)
	}
	for _, column := range []string{"trip", "(trip, cabin)"} {
		if v := value(t, o, cross, column); v != 0 {
			t.Errorf("by %s %.2f of the writes cross shards, want none", column, v)
		}
	}
	if trip, cabin := value(t, o, "busiest shard's part of writes", "trip"), value(t, o, "busiest shard's part of writes", "(trip, cabin)"); trip <= cabin {
		t.Errorf("the busiest shard has %.2f by trip and %.2f by cabin, want less by cabin", trip, cabin)
	}
	if v := value(t, o, "transactions across shards", "customer"); v < 0.9 {
		t.Errorf("the advisor says %.2f of the transactions cross shards by customer, want 0.95", v)
	}
}

func TestRun_Canceled_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	var text strings.Builder
	s := Story{Name: "short", About: "It is over at once.", Takes: time.Second, play: func(st *stage) error {
		st.start(&clients{number: 2, pipeline: 1, send: (&shop{stage: st}).payments().send})
		cancel()
		return st.rest(time.Hour, "waiting")
	}}
	if _, err := Run(ctx, s, Options{Out: &text}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v, want context.Canceled", err)
	}
	checkEmpty(t, dir)
	if !strings.Contains(text.String(), "cleave top --addr 127.0.0.1:") {
		t.Errorf("it does not say where to look:\n%s", &text)
	}
}

func TestRun_Keep_ServesUntilTheContextEnds(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var addr string
	s := Story{Name: "short", About: "It is over at once.", Takes: time.Second, play: func(st *stage) error { addr = st.httpAddr; return nil }}
	out := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "redis-cli -h") { // the last line: the server still answers
			if _, err := (&api.Client{Addr: addr}).Status(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
		}
		return len(p), nil
	})
	if _, err := Run(ctx, s, Options{Out: out, Keep: true}); err != nil {
		t.Error(err)
	}
	checkEmpty(t, dir)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRun_StoryFails_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	broken := errors.New("broken")
	s := Story{Name: "short", play: func(*stage) error { return broken }}
	if _, err := Run(t.Context(), s, Options{}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "demo short") {
		t.Errorf("it ends with %v, want one that names the story", err)
	}
	checkEmpty(t, dir)
}

func TestFind_KnowsAllStories(t *testing.T) {
	for _, name := range []string{"black-friday", "flash-sale", "likes", "telemetry", "booking"} {
		if s, ok := Find(name); !ok || s.Name != name || s.About == "" || s.play == nil || s.Takes > 2*time.Minute {
			t.Errorf("%s is %+v, %t", name, s, ok)
		}
	}
	if _, ok := Find("none"); ok {
		t.Error("there is a story of any name")
	}
}

func TestSpreadOf_ComparesTwoLooks(t *testing.T) {
	shard := func(id, group, writes uint64) api.Shard {
		return api.Shard{ID: id, Group: group, Load: api.ShardLoad{Writes: writes}}
	}
	before := []api.Shard{shard(1, 1, 100), shard(2, 2, 50), shard(3, 1, 7)}
	after := []api.Shard{shard(1, 1, 160), shard(4, 2, 30), shard(2, 2, 60), shard(3, 1, 7)} // 4 was split off
	f := spreadOf(before, after)
	if want := []float64{0.6, 0.3, 0.1, 0}; !slices.Equal(f.shares, want) {
		t.Errorf("the shares are %v, want %v", f.shares, want)
	}
	if f.busiest != 0.6 || math.Abs(f.overMean-2.4) > 1e-9 || f.written != 3 || math.Abs(f.group-0.6) > 1e-9 {
		t.Errorf("the figures are %+v", f)
	}
	if f := spreadOf(before, before); f.busiest != 0 || f.written != 0 || f.group != 0 {
		t.Errorf("without writes the figures are %+v", f)
	}
}

func TestParseCrossShard_FindsBothCounts(t *testing.T) {
	const text = "# HELP x y\ncleave_operations_total{kind=\"read\"} 9\ncleave_operations_total{kind=\"write\"} 12\ncleave_cross_shard_operations_total 1e3\n"
	if c, err := parseCrossShard(strings.NewReader(text)); err != nil || c != (crossShardCounts{1000, 12}) {
		t.Errorf("the counts are %+v, %v", c, err)
	}
	if _, err := parseCrossShard(strings.NewReader("cleave_cross_shard_operations_total 1\n")); err == nil {
		t.Error("a count that is missing is no error")
	}
}

func TestDrawShares_ShowsTheHighestAndNothing(t *testing.T) {
	if got := drawShares([]float64{0, 0.001, 0.5, 1}); got != "··▄█" {
		t.Errorf("it is %q", got)
	}
	if got := drawShares([]float64{0, 0}); got != "··" {
		t.Errorf("without any it is %q", got)
	}
}

func TestScript_KeepsToTheWidthOfTheScreen(t *testing.T) {
	for _, width := range []int{60, 80} {
		var text strings.Builder
		s := newScript(Story{Name: "x", About: strings.Repeat("word ", 60)}, Options{Out: &text, Width: width})
		s.title()
		s.heading("a part")
		s.say("%s", strings.Repeat("word ", 60))
		s.item("because", strings.Repeat("word ", 60))
		s.table(Comparison{Columns: []string{"one", "two"}, Figures: []Figure{{"share", []float64{0.5, math.NaN()}, asPercent}}})
		for line := range strings.Lines(text.String()) {
			if n := output.TextWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("a line has %d of %d columns: %q", n, width, line)
			}
		}
		if !strings.Contains(text.String(), "50 %") || !strings.Contains(text.String(), " -\n") {
			t.Errorf("the table is missing:\n%s", &text)
		}
	}
}
