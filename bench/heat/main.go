// Command heat plays loads that make shards hot on a stock server, and measures how soon that is found, what is done
// about it, and what that brings. Run it in bench/, as
//
//	go run ./heat -out HEAT.md
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/report"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// options is the parsed command line.
type options struct {
	binary, only, out string
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "measure this `file` as our server instead of building it")
	flag.StringVar(&o.only, "only", "", "play only stories whose name contains this `text`")
	flag.StringVar(&o.out, "out", "", "write the report to this `file` as well")
	flag.Parse()
	if err := run(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "heat:", err)
		os.Exit(1)
	}
}

func run(o options, stdout, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "cleave-heat-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		if o.binary, err = serverprocess.Build(dir, ".."); err != nil {
			return err
		}
		defer serverprocess.Forget()
	}
	var text strings.Builder
	m := report.ThisMachine()
	fmt.Fprintf(&text, "# Heat and its relief\n\n%s, %d processors, %s, %s. Commit\n%s, by `go run ./heat`, on %s.\n\n"+
		"Each story has a stock server of its own, with no setting but where it listens and `appendfsync everysec`; load and\n"+
		"server share the processors. *Before* is the mean of %s with relief off, *after* the mean of as long once the map has\n"+
		"been still for %s. Shares are those of the busiest group, by work. A load that adds keys all the time is measured again\n"+
		"after %s of relief, and played once more with relief off, measured at the same times: a store that grows gets slower\n"+
		"by itself.\n\n"+
		"| story | found as | found after | share of the busiest group, before → after | operations a second, before → after | changes of the map |\n|---|---|--:|--:|--:|---|\n",
		m.CPU, m.Cores, m.OS, m.Go, report.Commit(), time.Now().UTC().Format("2006-01-02"), measureTime, stillTime, growTime)
	var notes strings.Builder
	for _, s := range stories() {
		if !strings.Contains(s.name, o.only) {
			continue
		}
		fmt.Fprintln(progress, s.name)
		r, err := play(o.binary, dir, s, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if s.grows {
			if err := playControl(o.binary, dir, s, &r); err != nil {
				return fmt.Errorf("%s, with relief off: %w", s.name, err)
			}
		}
		fmt.Fprintf(&text, "| %s | %s | %.1f s | %.0f %% → %.0f %% | %.0f → %.0f (%.2fx) | %s |\n",
			s.name, r.class, r.found.Seconds(), 100*r.shareBefore, 100*r.shareAfter, r.opsBefore, r.opsAfter, r.opsAfter/r.opsBefore, r.changes)
		fmt.Fprintf(&notes, "\n## %s\n\n%s\n\n", s.name, s.about)
		for _, n := range r.notes {
			fmt.Fprintf(&notes, "- %s\n", n)
		}
	}
	text.WriteString(notes.String())
	const neighbours = "neighbours of a saturated shard"
	if strings.Contains(neighbours, o.only) {
		fmt.Fprintln(progress, neighbours)
		lines, err := measureNeighbours(o.binary, dir, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", neighbours, err)
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n| | writes a second | p50 | p99 | writes a second to the hot shard |\n|---|--:|--:|--:|--:|\n%s\n",
			neighbours, neighboursAbout, strings.Join(lines, "\n"))
	}
	const embedded = "where a group is the limit"
	if strings.Contains(embedded, o.only) {
		fmt.Fprintln(progress, embedded)
		lines, err := measureEmbedded(dir, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", embedded, err)
		}
		fmt.Fprintf(&text, "\n## %s\n\n"+embeddedAbout+"\n\n| | share | off | on | spread | on / off | spread / off |\n|---|--:|--:|--:|--:|--:|--:|\n%s\n",
			embedded, embeddedWorkers, embeddedKeys, embeddedStill, embeddedWindow, embeddedRounds, strings.Join(lines, "\n"))
	}
	const cost = "cost of looking"
	if strings.Contains(cost, o.only) {
		fmt.Fprintln(progress, cost)
		lines, err := measureCost(o.binary, dir, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", cost, err)
		}
		fmt.Fprintf(&text, "\n## %s\n\n"+costAbout+"\n\n| | with | without | ratio |\n|---|--:|--:|--:|\n%s\n", cost, costRounds, strings.Join(lines, "\n"))
	}
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, []byte(text.String()), 0o644)
}
