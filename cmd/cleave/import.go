package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/importer"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

// importFlags are those of import.
type importFlags struct {
	to, keyspace string
	options      importer.Options
	yes          bool
	format       output.Format
}

func newImportCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import redis://[user:password@]host:port[/db]",
		Short: "Copy the keys of a running Redis into a running Cleave",
		Long: `Copy the keys of a running Redis into a running Cleave.

Strings and hashes come with their time to live. Left out, counted and named are
keys of types that are not served, HyperLogLogs among them, names over 16 KiB
and values over 64 MiB; then it exits with 1. A key that Cleave has already is
replaced.

An import that was interrupted goes on where it was when the same command is
given again: the place is in a file, and is written down when all keys before
it are acknowledged. If the Redis was started anew since, its walk begins anew
too. A key that does not change while it is copied arrives; what is written to
the Redis meanwhile may be missed, so stop its writers, or import again.`,
		Example: `  cleave import redis://127.0.0.1:6379 --dry-run
  cleave import redis://:secret@10.0.0.5:6379/2 --match 'user:*'
  cleave import rediss://db.example.com:6380 --to 127.0.0.1:7379 --yes`,
		Args: oneNamedArg("the address of a Redis, such as redis://127.0.0.1:6379"),
		RunE: func(cmd *cobra.Command, args []string) error { return runImport(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.to, "to", "", "`address` of Cleave for Redis clients, or a redis:// address\n(default CLEAVE_RESP_ADDR, or 127.0.0.1:7379)")
	flags.StringVar(&f.keyspace, "keyspace", "", "keyspace to copy into (default the usual one)")
	flags.StringVar(&f.options.Match, "match", "", "`pattern` of keys, as SCAN takes it (default all)")
	flags.StringVar(&f.options.State, "state", "", "`file` with the place to go on at\n(default cleave-import-HOST-PORT-DB.json, here)")
	flags.BoolVar(&f.options.DryRun, "dry-run", false, "count what there is, and write nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask before keys may be replaced")
	flags.VarP(&f.format, "output", "o", "form of the output")
	completeFlags(cmd, map[string]cobra.CompletionFunc{"output": completeOutput, "state": completeFiles})
	return cmd
}

func runImport(cmd *cobra.Command, from string, f *importFlags) (err error) {
	o := &f.options
	if o.Source, err = importer.ParseEndpoint(from); err != nil {
		return usageError{err}
	}
	if f.to == "" {
		f.to = os.Getenv("CLEAVE_RESP_ADDR")
	}
	if f.to == "" {
		f.to = "127.0.0.1:7379"
	}
	if o.Target, err = importer.ParseEndpoint(f.to); err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	o.Target.Keyspace = f.keyspace
	if o.Source.String() == o.Target.String() {
		return usageError{fmt.Errorf("%s is the source and the target: name another target with --to, or a --keyspace", o.Source)}
	}
	if o.State == "" {
		o.State = "cleave-import-" + strings.NewReplacer(":", "-", "/", "-").Replace(o.Source.String()) + ".json"
	}
	ctx, stop := signalContext(cmd)
	defer stop()
	t := newTerminal(cmd)
	if err := confirmImport(ctx, t, f); err != nil {
		return err
	}
	line := t.NewProgress()
	o.Progress = func(r importer.Report) { line.Show(formatImportProgress(&r)) }
	report, err := importer.Run(ctx, *o)
	line.End(true)
	if err != nil {
		return toImportError(ctx, err, &report, o)
	}
	if err := output.WriteOne(cmd.OutOrStdout(), f.format, report, formatImport); err != nil {
		return err
	}
	if n := report.CountLeftOut(); n > 0 && !report.DryRun {
		return fmt.Errorf("not all was copied: %s left out", output.Plural(n, "key"))
	}
	return nil
}

// confirmImport asks before keys of the target may be replaced.
func confirmImport(ctx context.Context, t *terminal.Terminal, f *importFlags) error {
	if f.options.DryRun {
		return nil
	}
	resumes, err := importer.CheckState(f.options)
	if err != nil {
		return usageError{err}
	}
	if resumes || f.yes {
		return nil
	}
	n, err := f.options.Target.CountKeys(ctx)
	if errors.Is(err, importer.ErrUnreachable) {
		err = fmt.Errorf("%w (name another target with --to or CLEAVE_RESP_ADDR)", err)
	}
	if err != nil {
		return withUnreachableCode(err)
	}
	if n == 0 {
		return nil
	}
	if err := f.options.Source.Ping(ctx); err != nil { // rather than ask for nothing
		return withUnreachableCode(err)
	}
	return askConfirmation(ctx, t, fmt.Sprintf("%s has %s; what has the same name is replaced. Go on?", f.options.Target, output.Plural(n, "key")))
}

// withUnreachableCode gives an error of a server that does not answer its exit code.
func withUnreachableCode(err error) error {
	if errors.Is(err, importer.ErrUnreachable) {
		return exitError{exitUnreachable, err}
	}
	return err
}

// formatImportProgress is a line of progress.
func formatImportProgress(r *importer.Report) (fraction float64, text string) {
	fraction = -1
	if r.Total > 0 {
		fraction = float64(r.Keys) / float64(r.Total)
	}
	text = fmt.Sprintf("%s of %s, %s/s", output.Count(r.Keys), formatEstimate(output.Plural(output.Rough(r.Total), "key")), output.Bytes(r.BytesPerSecond()))
	if eta := r.ETASeconds(); eta >= 0 {
		text += ", " + formatEstimate(output.Seconds(eta)) + " to go"
	}
	return fraction, text
}

// toImportError adds how to go on.
func toImportError(ctx context.Context, err error, r *importer.Report, o *importer.Options) error {
	then := ","
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err, then = errInterrupted, ""
	}
	if _, missing := os.Stat(o.State); missing == nil && !o.DryRun {
		return withUnreachableCode(fmt.Errorf("%w%s after %s: give the same command again to go on (%s knows where)", err, then, output.Plural(r.Keys, "key"), o.State))
	}
	return withUnreachableCode(err)
}

// formatImport is the report for people.
func formatImport(r importer.Report) string {
	verb := "copied"
	if r.DryRun {
		verb = "would copy"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s and %s", verb, output.Plural(r.Strings, "string"), output.Plural(r.Hashes, "hash"))
	if !r.DryRun {
		fmt.Fprintf(&b, ", %s in %s", output.Bytes(r.Bytes), output.Seconds(r.Seconds))
	}
	b.WriteString("\n")
	verb = "left out"
	if r.DryRun {
		verb = "would leave out"
	}
	reasons := slices.SortedFunc(slices.Values(r.LeftOut), func(x, y importer.LeftOut) int { return strings.Compare(x.Why, y.Why) })
	for _, l := range reasons {
		names := strings.Join(l.Keys, ", ")
		if more := l.Count - int64(len(l.Keys)); more > 0 {
			names += fmt.Sprintf(" and %s more", output.Count(more))
		}
		fmt.Fprintf(&b, "%s %s %s: %s\n", verb, output.Plural(l.Count, "key"), l.Why, names)
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, "%s expired or changed meanwhile\n", output.Plural(r.Gone, "key"))
	}
	return b.String()
}
