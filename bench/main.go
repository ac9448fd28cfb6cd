// Command bench measures the toolkit against its peers and prints how many
// times faster or slower it is, with the targets that it met and missed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/enginecells"
	"github.com/cleavekv/cleave/bench/internal/report"
	"github.com/cleavekv/cleave/bench/internal/servercells"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) { // the help was printed
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, progress io.Writer) error {
	if len(args) > 0 && args[0] == enginecells.LifeArgument {
		return enginecells.Live(args[1:])
	}
	opts, err := parse(args, progress)
	if err != nil {
		return err
	}
	if opts.sustained > 0 {
		return enginecells.Sustained(stdout, os.TempDir(), opts.sustained)
	}
	began := time.Now()
	clock := duel.NewSystem()
	watch := report.StartWatch(clock)
	rep := &report.Run{
		Machine:    report.ThisMachine(),
		Commit:     report.Commit(),
		Command:    strings.TrimSpace("go run . " + strings.Join(args, " ")),
		Date:       began,
		Rounds:     opts.effort.rounds,
		LongRounds: opts.effort.longRounds,
		Window:     opts.effort.window,
		Quick:      opts.quick,
		Modules:    opts.versions(),
		Others:     -1,
		Targets:    targets,
	}
	runner := &duel.Runner{
		Rounds:     opts.effort.rounds,
		LongRounds: opts.effort.longRounds,
		Window:     opts.effort.window,
		Seed:       1,
		Clock:      clock,
		Settle:     new(collector).settle,
	}
	for _, s := range opts.subjects {
		section := report.Section{Title: s.title}
		for cell := range s.cells(opts.effort) {
			if !strings.Contains(cell.ID, opts.cell) {
				continue
			}
			fmt.Fprintf(progress, "%7s  %s\n", time.Since(began).Round(time.Second), cell.ID)
			section.Results = append(section.Results, runner.Run(cell))
		}
		if len(section.Results) > 0 {
			rep.Sections = append(rep.Sections, section)
		}
	}
	if len(rep.Sections) == 0 {
		return fmt.Errorf("no cell of these subjects has %q in its ID", opts.cell)
	}
	rep.Took = time.Since(began)
	if share, known := watch.Others(rep.Machine.Cores); known {
		rep.Others = share
	}
	rep.Write(stdout)
	return save(rep, opts.out)
}

// save writes the report to a file, or nowhere for an empty name.
func save(rep *report.Run, name string) error {
	if name == "" {
		return nil
	}
	var text strings.Builder
	rep.Write(&text)
	if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("save the results: %w", err)
	}
	return nil
}

// options is the parsed command line.
type options struct {
	quick     bool
	out       string
	cell      string
	sustained time.Duration
	effort    effort
	subjects  []subject
}

// versions are those of what is linked in, and of the servers that are measured.
func (o options) versions() []string {
	list := report.Modules()
	for _, s := range o.subjects {
		if s.name == "server" {
			list = append(list, servercells.Versions()...)
		}
	}
	return list
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	var only string
	var rounds int
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.BoolVar(&o.quick, "quick", false, "few short rounds on small tables, for a first look: no verdicts")
	flags.StringVar(&o.out, "out", "", "write the report to this `file` as well")
	flags.StringVar(&only, "only", "", "`subjects` to run, separated by commas: "+subjectNames())
	flags.StringVar(&o.cell, "cell", "", "run only cells whose ID contains this `text`")
	flags.IntVar(&rounds, "rounds", 0, "take so `many` rounds of each cell that has a fixed piece of work: more make narrower intervals")
	flags.DurationVar(&o.sustained, "sustained", 0, "instead of comparing, load the embedded store for so `long`, and report its rate and its slowest operations")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.effort = full
	if o.quick {
		o.effort = quick
	}
	if rounds < 0 {
		return o, fmt.Errorf("%d rounds: take at least one", rounds)
	}
	if rounds > 0 {
		o.effort.longRounds = rounds
	}
	var err error
	o.subjects, err = choose(only)
	return o, err
}
