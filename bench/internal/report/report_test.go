package report

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

var update = flag.Bool("update", false, "write the report to testdata instead of comparing it")

// line is a contestant that costs the same in each of 12 rounds.
func line(name string, ours bool, costs ...float64) duel.Line {
	l := duel.Line{Contestant: name, Ours: ours}
	for _, c := range costs {
		l.Samples = append(l.Samples, slices.Repeat([]float64{c}, 12))
	}
	return l
}

func exampleRun() *Run {
	timed := &duel.Result{ID: "map/reads", Title: "100 % reads", Metrics: duel.Costs,
		Lines: []duel.Line{line("mine", true, 20, 40), line("theirs", false, 50, 99.96), {Contestant: "broken", Failed: "lost key 7"}}}
	life := &duel.Result{ID: "map/life", Title: "what it costs",
		Metrics: []duel.Metric{{Name: "stall", Unit: duel.Nanoseconds}, {Name: "size", Unit: duel.Bytes}},
		Lines:   []duel.Line{line("mine", true, 1.5e6, 32), line("theirs", false, 1.234e9, 32.5)}}
	facts := &duel.Result{ID: "route/8", Title: "find a node", Metrics: duel.Costs[:1],
		Lines: []duel.Line{line("ring", true, 1000), line("peer", false, 1100)}}
	facts.Lines[0].Facts = []duel.Fact{{Name: "peak/mean", Value: 1.0875}}
	return &Run{
		Machine: Machine{CPU: "Processor 1", OS: "plan9/mips", Go: "go1.26", Cores: 2, Load: "0.75"},
		Commit:  "0123456789ab", Command: "go run . -out RESULTS.md",
		Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 83 * time.Second,
		Rounds: 12, LongRounds: 11, Window: 60 * time.Millisecond, Others: 0.375,
		Modules:  []string{"example.org/peer@v1.2.3"},
		Sections: []Section{{"Concurrent map", []*duel.Result{timed, life}}, {"Routing", []*duel.Result{facts}}},
		Targets: []duel.Target{
			{Cell: "map/reads", Ours: "mine", AtLeast: 2, Source: "Reads: a reason."},
			{Cell: "map/reads", Ours: "mine", AtLeast: 3, Source: "Reads: a reason."},
			{Cell: "map/life", Metric: "stall", Ours: "mine", AtMost: 2e6, Source: "Stalls: another one."},
			{Cell: "map/elsewhere", Ours: "mine", AtLeast: 2, Source: "Reads: a reason."},
		},
	}
}

func TestTheReportLooksAsRecorded(t *testing.T) {
	const golden = "testdata/report.md"
	var got strings.Builder
	exampleRun().Write(&got)
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("report differs from %s (go test ./internal/report -update rewrites it):\n%s", golden, got.String())
	}
}

func TestFiguresKeepThreeDigitsInTheUnitThatFits(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  duel.Unit
		want  string
	}{
		{0.5, duel.Nanoseconds, "0.50 ns"},
		{9.996, duel.Nanoseconds, "10.0 ns"},
		{999.4, duel.Nanoseconds, "999 ns"},
		{999.6, duel.Nanoseconds, "1.00 µs"},
		{20.25e6, duel.Nanoseconds, "20.2 ms"},
		{5e12, duel.Nanoseconds, "5000 s"},
		{33.25, duel.Bytes, "33.2 B"},
		{0.0222, duel.Share, "2.2 %"},
		{duel.Median(nil), duel.Bytes, "–"},
	} {
		if got := figure(c.value, c.unit); got != c.want {
			t.Errorf("figure(%v) = %q, want %q", c.value, got, c.want)
		}
	}
}

func TestColumnsLineUp(t *testing.T) {
	tb := table{text: 1, head: []string{"name", "µs"}}
	tb.add("a", "1")
	tb.add("longer name", "1000")
	var out strings.Builder
	tb.write(&out)
	want := "" +
		"| name        |   µs |\n" +
		"|-------------|-----:|\n" +
		"| a           |    1 |\n" +
		"| longer name | 1000 |\n\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
