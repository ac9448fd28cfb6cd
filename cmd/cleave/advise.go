package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/htmlreport"
	"github.com/cleavekv/cleave/advisor/postgres"
	"github.com/cleavekv/cleave/advisor/postgreslog"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
	"github.com/cleavekv/cleave/partition"
)

// adviseFlags are those of advise.
type adviseFlags struct {
	options             advisor.Options
	candidates, layout  string
	queries, fileFormat string
	strict, noHeader    bool
	together            string
	save, compare, html string
	heatMap             bool
	asOf                string
	kept                *advisor.Report // what compare names
	table               string
	sample              float64
	live                liveFlags
	output              output.Format
}

func newAdviseCommand() *cobra.Command {
	var f adviseFlags
	cmd := &cobra.Command{
		Use:   "advise FILE|URL|--live",
		Short: "Find the key that records are best sharded by",
		Long: `Find the key that records are best sharded by.

FILE is CSV with a header, JSON lines, Parquet, or what MONITOR of Redis prints;
- is stdin. URL is that of a
PostgreSQL database, with --table. Nothing is written there; what is asked of the
table comes from pg_stat_statements, if there is one. Records are read once, in
bounded memory, and should be in the order in which they were written: that
shows where writes go at one moment. Candidates are placed on shards as a server
would place them.

With --live the records are operations of a running server, one of 128, for the
time that --for names. Their columns are the parts of keys: those of the layout of
the keyspace, or else what stands between colons, as part1, part2 and so on. bytes
are then those that operations move, and ops in place of writes are all of them.

Candidates are ranked, the best first, with a grade from A to F. bytes is the
fullest shard over the mean, and writes the most written shard of a moment; 1 is
even. largest is the share of one key, which no split divides. one shard is the
share of queries that ask a single one. A layout can be pasted into cleave
keyspace create.

With --current it says what to do about the key in use, and exits with 3 if its
grade is D or F. With --compare it says whether the key of a report that was kept
with --save is still right, and which figures have moved; if not, it exits with
3. Interrupted, it reports what the records so far show.`,
		Example: `  cleave advise orders.csv
  cleave advise events.jsonl --shards 32 --current created_at --layout range
  cleave advise orders.csv --queries queries.jsonl -o json
  cleave advise orders.csv --save advice.json
  cleave advise orders.csv --html report.html
  cleave advise later.csv --compare advice.json
  cleave advise --live --for 5m --keyspace orders --save advice.json
  cleave advise --live --keyspace orders --compare advice.json
  cleave advise postgres://me@db/shop --table orders --sample 5
  cleave advise orders.csv --candidates 'customer;(region, day(ts)) | id'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.live.on && len(args) == 0 {
				return nil
			}
			if f.live.on {
				return usageError{fmt.Errorf("--live takes no file: %q", args)}
			}
			return oneNamedArg("a file of CSV, JSON lines or Parquet, such as orders.csv, or postgres://…, or --live")(cmd, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runAdvise(cmd, strings.Join(args, ""), &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.candidates, "candidates", "auto", "`layouts` to judge, such as a,b,(a,c); separated by ; if\none has a bar")
	flags.StringVar(&f.layout, "layout", "", "kind of keyspace, hash or range (default both)")
	flags.IntVar(&f.options.Shards, "shards", 16, "how many shards there are to be")
	flags.StringVar(&f.options.Current, "current", "", "`layout` of the key in use, of a hash keyspace unless --layout\nsays range")
	flags.StringVar(&f.queries, "queries", "", "`file` of what programs ask: JSON lines with op, filter, columns,\nset, txn and count, or a csvlog of PostgreSQL, with --table")
	flags.StringVar(&f.fileFormat, "format", "", "csv, jsonl, parquet or monitor (default by the name of the\nfile)")
	flags.StringVar(&f.together, "together", "", "`columns` whose rows are decided at once, by kinds of\ntransactions with counts: trip,cabin=90;customer=10, or\n@file with a line for each")
	flags.StringVar(&f.save, "save", "", "keep the report in this `file`, to compare with later")
	flags.StringVar(&f.html, "html", "", "write the report to this `file` as a page for browsers")
	flags.BoolVar(&f.heatMap, "heatmap", false, "draw the writes of shards over time under the current key and\nthe best one")
	flags.StringVar(&f.compare, "compare", "", "compare with the report that was kept in this `file`: is its\nkey still right?")
	flags.StringVar(&f.table, "table", "", "`table` of the PostgreSQL database, or of --queries from its log")
	flags.Float64Var(&f.sample, "sample", 0, "read only so many `percent` of the table's pages")
	flags.BoolVar(&f.noHeader, "no-header", false, "the first record of a CSV is data; columns are c1, c2, …")
	flags.StringVar(&f.asOf, "as-of", "", "`day` of old records, such as 2024-12-31: times in identifiers\nlie around it (default today)")
	flags.BoolVar(&f.strict, "strict", false, "fail at the first record that cannot be read, rather than skip it")
	f.live.addFlags(cmd)
	flags.VarP(&f.output, "output", "o", "form of the output")
	completeFlags(cmd, map[string]cobra.CompletionFunc{
		"output": completeOutput, "queries": completeFiles, "save": completeFiles, "html": completeFiles, "compare": completeFiles,
		"layout": cobra.FixedCompletions([]cobra.Completion{"hash", "range"}, cobra.ShellCompDirectiveNoFileComp),
		"format": cobra.FixedCompletions([]cobra.Completion{"csv", "jsonl", "parquet", "monitor"}, cobra.ShellCompDirectiveNoFileComp),
	})
	return cmd
}

// redrawTime is how long a line of progress stays: a person reads no more often.
const redrawTime = 100 * time.Millisecond

func runAdvise(cmd *cobra.Command, name string, f *adviseFlags) error {
	if err := f.live.checkFlags(cmd); err != nil {
		return err
	}
	if err := f.fillOptions(); err != nil {
		return err
	}
	ctx, stop := signalContext(cmd)
	defer stop()
	in, err := f.openInput(ctx, cmd, name)
	if err != nil {
		return toAdviseError(ctx, name, err)
	}
	defer in.close()
	line := newTerminal(cmd).NewProgress()
	shown := time.Time{}
	f.options.Progress = func(p advisor.Progress) {
		if time.Since(shown) < redrawTime {
			return
		}
		shown = time.Now()
		line.Show(in.fraction(p), fmt.Sprintf("%s, %s", output.Plural(p.Rows, "row"), output.Bytes(p.Input)))
	}
	report, err := advisor.Analyze(ctx, in.src, f.options)
	line.End(false)
	if f.live.on && errors.Is(err, advisor.ErrNoRows) && ctx.Err() == nil {
		return errNoTraffic
	}
	if err != nil {
		return toAdviseError(ctx, in.name, err)
	}
	report.Notes = append(report.Notes, in.notes...)
	if in.addNotes != nil {
		report.Notes = in.addNotes(report.Notes)
	}
	if f.kept != nil {
		if report.Drift, err = advisor.Compare(f.kept, report); err != nil {
			return usageError{fmt.Errorf("--compare %s: %w", f.compare, trimAdvise(err))}
		}
	}
	if f.save != "" {
		if err := saveReport(f.save, report); err != nil {
			return err
		}
	}
	if f.html != "" {
		if err := writePage(f.html, report); err != nil {
			return err
		}
	}
	width, colored := terminal.Width(cmd.OutOrStdout()), terminal.CanColor(cmd.OutOrStdout())
	if err := output.WriteOne(cmd.OutOrStdout(), f.output, report, func(r *advisor.Report) string {
		text := formatAdvice(r, width)
		if f.heatMap {
			text += formatAdviceHeat(r, colored)
		}
		return text
	}); err != nil {
		return err
	}
	switch {
	case report.Interrupted:
		return errInterrupted
	case report.Drift != nil && !report.Drift.StillRight:
		return silentExit{exitUnhealthy}
	case report.Current != nil && (report.Current.Grade == "D" || report.Current.Grade == "F"):
		return silentExit{exitUnhealthy}
	}
	return nil
}

// fillOptions makes options of the flags.
func (f *adviseFlags) fillOptions() error {
	switch f.layout {
	case "":
	case "hash":
		f.options.Kinds = []partition.Kind{partition.Hash}
	case "range":
		f.options.Kinds = []partition.Kind{partition.Range}
	default:
		return usageError{fmt.Errorf("--layout %s: want hash or range", f.layout)}
	}
	if f.asOf != "" {
		var err error
		if f.options.Now, err = time.Parse(time.DateOnly, f.asOf); err != nil {
			return usageError{fmt.Errorf("--as-of %s: want a day such as 2024-12-31", f.asOf)}
		}
	}
	if f.candidates != "auto" {
		if f.options.Candidates = advisor.ParseCandidates(f.candidates); len(f.options.Candidates) == 0 {
			return usageError{errors.New("--candidates names none: leave it out to have them found")}
		}
	}
	if f.compare != "" {
		if err := f.readKept(); err != nil {
			return usageError{fmt.Errorf("--compare %s: %w", f.compare, err)}
		}
	}
	if err := f.readTogether(); err != nil {
		return usageError{fmt.Errorf("--together: %w", trimAdvise(err))}
	}
	if f.queries == "" {
		return nil
	}
	return f.openQueries()
}

// openQueries reads what programs ask, or leaves that until the columns are known. A log of PostgreSQL begins with the
// digit of a time, JSON does not.
func (f *adviseFlags) openQueries() error {
	file, err := os.Open(f.queries)
	if err != nil {
		return usageError{fmt.Errorf("--queries: %w", err)}
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if first, err := in.Peek(1); err == nil && '0' <= first[0] && first[0] <= '9' {
		if f.table == "" {
			return usageError{fmt.Errorf("--queries %s is a log of PostgreSQL: name the table whose statements count with --table", f.queries)}
		}
		f.options.ReadQueries = func(columns []string) ([]advisor.Query, error) {
			file, err := os.Open(f.queries)
			if err != nil {
				return nil, usageError{fmt.Errorf("--queries: %w", err)}
			}
			defer file.Close()
			queries, err := postgreslog.Read(file, f.table, columns)
			if err != nil {
				return nil, usageError{fmt.Errorf("--queries %s: %w", f.queries, trimAdvise(err))}
			}
			return queries, nil
		}
		return nil
	}
	if f.options.Queries, err = advisor.ReadQueries(in); err != nil {
		return usageError{fmt.Errorf("--queries %s: %w", f.queries, trimAdvise(err))}
	}
	return nil
}

// readTogether reads the kinds of transactions.
func (f *adviseFlags) readTogether() (err error) {
	if f.together == "" {
		return nil
	}
	text := []byte(f.together)
	if name, isFile := strings.CutPrefix(f.together, "@"); isFile {
		if text, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	f.options.Together, err = advisor.ParseTogether(string(text))
	return err
}

// readKept reads the report to compare with. Its key is the current one, unless another is named.
func (f *adviseFlags) readKept() error {
	text, err := os.ReadFile(f.compare)
	if err != nil {
		return err
	}
	var kept advisor.Report
	if err := json.Unmarshal(text, &kept); err != nil {
		return fmt.Errorf("not a report of cleave advise --save: %w", err)
	}
	used := kept.KeyInUse()
	if used == nil || len(used.Skews) == 0 {
		return errors.New("not a report of cleave advise --save that has a key")
	}
	f.kept = &kept
	if f.options.Current == "" {
		kind := partition.Hash
		if used.Kind == partition.Range.String() {
			kind = partition.Range
		}
		f.options.Current, f.options.CurrentKind = used.Layout, &kind
	}
	return nil
}

// saveReport writes a report as JSON.
func saveReport(name string, r *advisor.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// writePage writes a report as HTML.
func writePage(name string, r *advisor.Report) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(htmlreport.Write(file, r), file.Close())
}

// toAdviseError names what is wrong as the command line has it.
func toAdviseError(ctx context.Context, name string, err error) error {
	if errors.As(err, &usageError{}) || errors.As(err, &exitError{}) {
		return err
	}
	if errors.Is(err, postgres.ErrUnreachable) {
		return exitError{exitUnreachable, trimAdvise(err)}
	}
	usage := errors.Is(err, postgres.ErrOptions) || errors.Is(err, postgres.ErrNoTable) || errors.Is(err, advisor.ErrTogether) || errors.Is(err, advisor.ErrOptions) || errors.Is(err, advisor.ErrCandidate) || errors.Is(err, advisor.ErrQuery)
	switch {
	case usage:
		return usageError{trimAdvise(err)}
	case ctx.Err() != nil && errors.Is(err, advisor.ErrNoRows):
		return errInterrupted
	}
	if isDatabase(name) {
		return trimAdvise(err) // it names the table, and a URL may have a password
	}
	return fmt.Errorf("%s: %w", name, trimAdvise(err))
}

// trimAdvise takes the names of the packages out of an error.
func trimAdvise(err error) error {
	return errors.New(strings.NewReplacer("advise: ", "", "csvfile: ", "", "jsonlfile: ", "", "parquetfile: ", "", "postgres: ", "", "postgreslog: ", "", "trafficlog: ", "", "\n\t", " ", "key: bad layout", "bad layout").Replace(err.Error()))
}

// shownCandidates is how many a table has. JSON has all.
const shownCandidates = 8

// formatAdvice is a report for people.
func formatAdvice(r *advisor.Report, width int) string {
	var b strings.Builder
	record := "row"
	if r.Traffic {
		record = "operation"
	}
	fmt.Fprintf(&b, "%s, %s, %s:\n\n", output.Plural(r.Rows, record), output.Bytes(r.Bytes), output.Plural(len(r.Columns), "column"))
	b.WriteString(output.RenderTable(width, r.Columns, newAdviceColumns()))
	rows := slices.Clone(r.Candidates[:min(len(r.Candidates), shownCandidates)])
	if r.Current != nil && !slices.ContainsFunc(rows, func(c advisor.Result) bool { return c.Layout == r.Current.Layout && c.Kind == r.Current.Kind }) {
		rows = append(rows, *r.Current)
	}
	if len(rows) == 0 {
		b.WriteString("\nNo column can be part of a key.\n")
	} else {
		fmt.Fprintf(&b, "\n%d shards:\n\n", r.Shards)
		b.WriteString(output.RenderTable(width, rows, newCandidateColumns(r)))
	}
	var notes []string
	if len(r.Candidates) > 0 {
		switch best := r.Candidates[0]; best.Grade {
		case "?": // the notes say why there is no grade
		case "D", "F":
			notes = append(notes, fmt.Sprintf("No candidate is good. The first of them, grade %s: %s.", best.Grade, best.Sentence))
		default:
			known := ""
			if best.Queries == nil && best.Together == nil && !r.Traffic {
				known = " without queries"
			}
			notes = append(notes, fmt.Sprintf("Best%s, grade %s: %s. Price: %s.", known, best.Grade, best.Sentence, best.Price), best.Create)
		}
	}
	if c := r.Current; c != nil {
		notes = append(notes, fmt.Sprintf("Current key %s, grade %s: %s.", c.Layout, c.Grade, c.Sentence))
		if r.Fix != "" {
			notes = append(notes, "Fix: "+r.Fix+".")
		}
	}
	for _, t := range r.Tenants {
		notes = append(notes, formatTenant(&t))
	}
	if d := r.Drift; d != nil {
		notes = append(notes, d.Sentence+".")
		for _, m := range d.Moved {
			notes = append(notes, fmt.Sprintf("- %v", m))
		}
	}
	notes = append(notes, r.Notes...)
	if r.Skipped > 0 {
		notes = append(notes, fmt.Sprintf("%s skipped.", output.Plural(r.Skipped, "record")))
	}
	for _, p := range r.Problems {
		notes = append(notes, fmt.Sprintf("- %v", p))
	}
	b.WriteByte('\n')
	for _, note := range notes {
		b.WriteString(output.Wrap(output.EscapeUnprintable(note)))
		b.WriteByte('\n')
	}
	return b.String()
}

// formatTenant says what to do about a value with very many rows.
func formatTenant(t *advisor.Tenant) string {
	text := fmt.Sprintf("%s of %s has %.1f %% of all rows, %s times the median: give it %s of its own.",
		t.Value, t.Column, 100*t.Share.Value, output.Count(int64(t.TimesMedian)), output.Plural(t.Shards, "shard"))
	if t.Split != "" {
		text += fmt.Sprintf(" In a range keyspace whose key begins with %s: %s", t.Column, t.Split)
	}
	return text
}

func newAdviceColumns() []output.Column[advisor.Column] {
	type column = advisor.Column
	return []output.Column[column]{
		{Head: "column", Cell: func(c column) string { return c.Identifier }},
		{Head: "type", Cell: func(c column) string { return c.Type }},
		{Head: "holds", Cell: func(c column) string { return c.Kind }, CutPriority: 1},
		{Head: "values", Right: true, Cell: func(c column) string {
			mark := ""
			if c.Distinct.Low < c.Distinct.High {
				mark = "~"
			}
			return mark + output.Count(int64(c.Distinct.Value))
		}},
		{Head: "null", Right: true, Cell: func(c column) string { return fmt.Sprintf("%.1f %%", 100*c.Nulls) }},
		{Head: "most frequent", Right: true, Cell: func(c column) string {
			if len(c.Top) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f %%", 100*c.Top[0].Share.Low)
		}},
		{Head: "patterns", Cell: func(c column) string { return strings.Join(c.Patterns, ", ") }, CutPriority: 2},
	}
}

func newCandidateColumns(r *advisor.Report) []output.Column[advisor.Result] {
	type result = advisor.Result
	moment := "writes"
	if r.Traffic {
		moment = "ops"
	}
	columns := []output.Column[result]{
		{Head: "grade", Cell: func(c result) string { return c.Grade }},
		{Head: "points", Right: true, Cell: func(c result) string { return fmt.Sprintf("%.1f", c.Score) }},
		{Head: "kind", Cell: func(c result) string { return c.Kind }},
		{Head: "layout", Cell: func(c result) string { return c.Layout }},
		{Head: "bytes", Right: true, Cell: func(c result) string { return formatInterval(&c.Skews[0].Bytes, 2) }},
		{Head: moment, Right: true, Cell: func(c result) string { return formatInterval(c.Writes, 2) }},
		{Head: "largest", Right: true, Cell: func(c result) string { return fmt.Sprintf("%.2f %%", 100*c.LargestKey.Value) }},
	}
	if slices.ContainsFunc(r.Candidates, func(c result) bool { return c.Queries != nil }) {
		columns = append(columns, output.Column[result]{Head: "one shard", Right: true, Cell: func(c result) string {
			return fmt.Sprintf("%.0f %%", 100*c.Queries.Single)
		}})
	}
	if slices.ContainsFunc(r.Candidates, func(c result) bool { return c.Together != nil }) {
		return append(columns,
			output.Column[result]{Head: "cross", Right: true, Cell: func(c result) string { return fmt.Sprintf("%.0f %%", 100*c.Together.CrossShard.Value) }},
			output.Column[result]{Head: "stays local", Cell: func(c result) string { return cmp.Or(strings.Join(c.Together.Local, "; "), "-") }, CutPriority: 2},
			output.Column[result]{Head: "breaks first", Cell: func(c result) string { return c.Together.BreaksFirst }, CutPriority: 1})
	}
	return append(columns, output.Column[result]{Head: "why", Cell: func(c result) string { return cmp.Or(c.Sentence, "-") }, CutPriority: 1})
}

// formatInterval is an estimate, with its bounds if they differ from it as it is shown.
func formatInterval(i *advisor.Interval, decimals int) string {
	if i == nil {
		return "-"
	}
	value := fmt.Sprintf("%.*f", decimals, i.Value)
	low, high := fmt.Sprintf("%.*f", decimals, i.Low), fmt.Sprintf("%.*f", decimals, i.High)
	if low == value && high == value {
		return value
	}
	return fmt.Sprintf("%s (%s-%s)", value, low, high)
}
