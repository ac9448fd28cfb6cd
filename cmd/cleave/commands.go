package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

// watchFlag is how often a command shows something again: never by default.
type watchFlag time.Duration

// addFlag gives a command --watch, alone or with how often.
func (w *watchFlag) addFlag(cmd *cobra.Command) {
	f := cmd.Flags().VarPF(w, "watch", "w", "show it again and again, `every` 2s or as said,\nuntil interrupted")
	f.NoOptDefVal = "2s"
	f.DefValue = ""
	completeMissingFlags(cmd, nil)
}

// String is part of the flag interface.
func (w *watchFlag) String() string { return time.Duration(*w).String() }

// Type is part of the flag interface.
func (w *watchFlag) Type() string { return "every" }

// Set takes a duration. It is part of the flag interface.
func (w *watchFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 100*time.Millisecond {
		return fmt.Errorf("want a time of at least 100ms, such as 2s")
	}
	*w = watchFlag(d)
	return nil
}

// runRepeatedly shows something once, or again and again. At a terminal it is drawn over what was
// there.
func (w watchFlag) runRepeatedly(ctx context.Context, out io.Writer, show func() error) error {
	for {
		if w != 0 && terminal.New(nil, out).OutputIsTerminal {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if err := show(); err != nil || w == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // it was to go on until then
		case <-time.After(time.Duration(w)):
		}
	}
}

// listCommand is a command that shows rows.
type listCommand[T any] struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	columns                   []output.Column[T]
	// rows asks the server for them. The note is for people.
	rows func(ctx context.Context, c *api.Client, args []string) (rows []T, note string, err error)
	// emptyText is what people read instead of an empty table.
	emptyText string
}

// toCobra makes it one. more adds flags.
func (l listCommand[T]) toCobra(more func(*cobra.Command)) *cobra.Command {
	cmd := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Example: l.example, Args: l.args}
	return initShowCommand(cmd, more, func(ctx context.Context, c *api.Client, w watchFlag, f output.Format, args []string) error {
		out := cmd.OutOrStdout()
		return w.runRepeatedly(ctx, out, func() error {
			rows, note, err := l.rows(ctx, c, args)
			if err != nil {
				return err
			}
			if f == output.Table && len(rows) == 0 {
				if note == "" {
					note = l.emptyText
				}
				_, err := fmt.Fprintln(out, note)
				return err
			}
			if note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			return output.WriteRows(out, f, terminal.Width(out), rows, l.columns)
		})
	})
}

// showFunc asks a server for something and shows it, as often as w says.
type showFunc func(ctx context.Context, c *api.Client, w watchFlag, f output.Format, args []string) error

// initShowCommand completes a command that shows something. more adds flags.
func initShowCommand(cmd *cobra.Command, more func(*cobra.Command), s showFunc) *cobra.Command {
	var r remote
	var w watchFlag
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error { return s(ctx, c, w, r.format, args) })
	}
	cmd.Flags().SortFlags = false
	if more != nil {
		more(cmd)
	}
	r.addFlags(cmd)
	w.addFlag(cmd)
	return cmd
}

// showCommand is a command that shows one thing.
type showCommand[T any] struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	get                       func(ctx context.Context, c *api.Client, args []string) (T, error)
	// text is for a screen of so many columns, 0 if it is none.
	text func(thing T, width int) string
	// paint may colour the text at a terminal that takes colours.
	paint func(T, string) string
	// check may make the exit code of what was shown.
	check func(T) error
}

// toCobra makes it one. more adds flags.
func (s showCommand[T]) toCobra(more func(*cobra.Command)) *cobra.Command {
	cmd := &cobra.Command{Use: s.use, Short: s.short, Long: s.long, Example: s.example, Args: s.args}
	return initShowCommand(cmd, more, func(ctx context.Context, c *api.Client, w watchFlag, f output.Format, args []string) error {
		var last T
		err := w.runRepeatedly(ctx, cmd.OutOrStdout(), func() (err error) {
			if last, err = s.get(ctx, c, args); err != nil {
				return err
			}
			return output.WriteOne(cmd.OutOrStdout(), f, last, s.newTextRenderer(cmd.OutOrStdout()))
		})
		if err == nil && s.check != nil {
			return s.check(last)
		}
		return err
	})
}

// ignoreWidth is a text that is the same on every screen.
func ignoreWidth[T any](text func(T) string) func(T, int) string {
	return func(thing T, _ int) string { return text(thing) }
}

// newTextRenderer is the text, coloured if out takes that.
func (s showCommand[T]) newTextRenderer(out io.Writer) func(T) string {
	width, colored := terminal.Width(out), terminal.CanColor(out)
	return func(thing T) string {
		text := output.EscapeUnprintable(s.text(thing, width))
		if s.paint == nil || !colored {
			return text
		}
		return s.paint(thing, text)
	}
}

// actionCommand is a command that changes something: it shows the plan, asks, begins, and
// stays until it is done.
type actionCommand struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	// harmless actions are not asked about: what they do can be undone with another.
	harmless bool
	// undoIsSuccess reports whether its job is done when it is taken back.
	undoIsSuccess bool
	// send asks the server to do it, or only for the plan.
	send func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error)
}

// actionFlags are those of every such command.
type actionFlags struct{ yes, dryRun, detach bool }

// toCobra makes it one. more adds flags.
func (a actionCommand) toCobra(more func(*cobra.Command)) *cobra.Command {
	var r remote
	var f actionFlags
	if a.args == nil {
		a.args = noArgs
	}
	cmd := &cobra.Command{
		Use: a.use, Short: a.short, Long: a.long, Example: a.example, Args: a.args, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error {
				err := a.run(ctx, cmd, c, &r, f, args)
				if errors.Is(err, &api.Error{Code: api.CodeNoChange}) {
					// What was wanted is so: a script that says it twice has not failed.
					nothing := api.Action{DryRun: f.dryRun, Plan: api.Plan{Summary: err.Error(), Steps: []string{}}}
					return output.WriteOne(cmd.OutOrStdout(), r.format, nothing, func(a api.Action) string { return formatPlan(&a.Plan, terminal.Width(cmd.OutOrStdout())) })
				}
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	if more != nil {
		more(cmd)
	}
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	if a.harmless {
		_ = flags.MarkHidden("yes") // there is no prompt; a script may pass it all the same
	}
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the plan, and change nothing")
	flags.BoolVar(&f.detach, "detach", false, "do not stay until the job is done")
	r.addFlags(cmd)
	return cmd
}

// run goes from the plan to the end.
func (a actionCommand) run(ctx context.Context, cmd *cobra.Command, c *api.Client, r *remote, f actionFlags, args []string) error {
	out, t := cmd.OutOrStdout(), newTerminal(cmd)
	if f.dryRun || !a.harmless {
		plan, err := a.send(ctx, c, args, true)
		if err != nil {
			return err
		}
		if f.dryRun {
			return output.WriteOne(out, r.format, plan, func(a api.Action) string { return formatPlan(&a.Plan, terminal.Width(cmd.OutOrStdout())) })
		}
		fmt.Fprint(cmd.ErrOrStderr(), formatPlan(&plan.Plan, terminal.Width(cmd.ErrOrStderr())))
		if !f.yes {
			if err := askConfirmation(ctx, t, "Do it?"); err != nil {
				return err
			}
		}
	}
	done, err := a.send(ctx, c, args, false)
	if err != nil {
		return err
	}
	if done.Job == nil || f.detach {
		return output.WriteOne(out, r.format, done, formatAction)
	}
	job, err := watchJob(ctx, c, t, *done.Job)
	if err != nil {
		return err
	}
	done.Job = &job
	if err := output.WriteOne(out, r.format, done, formatAction); err != nil {
		return err
	}
	if a.undoIsSuccess && job.State == api.JobUndone {
		return nil
	}
	return checkJobDone(&job)
}

// formatEstimate marks a figure for people that is an estimate.
func formatEstimate(figure string) string { return "~" + figure }

// formatPlan shows a plan to people, on a screen of so many columns: what, how, and what it costs and brings.
func formatPlan(p *api.Plan, width int) string {
	var b strings.Builder
	b.WriteString(output.WrapTo(output.EscapeUnprintable(p.Summary), width) + "\n")
	for _, s := range p.Steps {
		b.WriteString(output.WrapTo("- "+output.EscapeUnprintable(s), width) + "\n")
	}
	if x := p.Price; x != nil {
		fmt.Fprintf(&b, "carried      %s in %s\n", formatEstimate(output.Bytes(x.Bytes)), formatEstimate(output.Plural(output.Rough(x.Rows), "row")))
		fmt.Fprintf(&b, "other group  %s\n", output.Plural(x.Moves, "shard"))
		fmt.Fprintf(&b, "takes        %s, of which writes to a range wait for %s\n", formatEstimate(output.Seconds(x.Seconds)), formatEstimate(output.Seconds(x.PauseSeconds)))
		fmt.Fprintf(&b, "fullest      group has %.2f times the mean, then %.2f\n", x.SkewBefore, x.SkewAfter)
	}
	if p.Irreversible {
		b.WriteString("Nothing takes this back.\n")
	}
	return b.String()
}

// formatAction returns what came of an action.
func formatAction(a api.Action) string {
	if a.Job == nil {
		return output.Wrap(output.EscapeUnprintable(a.Plan.Summary)) + ": done\n"
	}
	return formatJobEnd(a.Job)
}

// formatJobEnd is a line about how a job stands.
func formatJobEnd(j *api.Job) string {
	text := fmt.Sprintf("job %s (%s) %s", j.ID, j.Kind, j.State)
	switch {
	case !j.HasEnded():
		text += ": cleave job watch " + j.ID
	case j.Result != "":
		text += ": " + j.Result
	case j.Why != "":
		text += ": " + j.Why
	}
	if j.HasEnded() && j.Bytes > 0 {
		text += fmt.Sprintf(" (%s", output.Bytes(j.Bytes))
		if j.PauseSeconds > 0 {
			text += ", writes waited for " + output.Seconds(j.PauseSeconds)
		}
		text += ")"
	}
	return output.EscapeUnprintable(text) + "\n"
}

// checkJobDone makes an error of a job that was not done.
func checkJobDone(j *api.Job) error {
	if j.HasEnded() && j.State != api.JobDone {
		return fmt.Errorf("job %s was not done: %s", j.ID, j.Why)
	}
	return nil
}

// jobPollInterval is how often a job is looked at.
const jobPollInterval = 200 * time.Millisecond

// watchJob shows the progress of a job until it is over. An interrupt leaves the job running.
func watchJob(ctx context.Context, c *api.Client, t *terminal.Terminal, j api.Job) (api.Job, error) {
	line := t.NewProgress()
	defer line.End(false)
	end, err := c.WaitJob(ctx, j.ID, jobPollInterval, func(j api.Job) { line.Show(formatJobProgress(&j)) })
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return j, exitError{exitInterrupted, fmt.Errorf("job %s goes on without being watched: cleave job watch %s", j.ID, j.ID)}
	}
	return end, err
}

// formatJobProgress is a line of progress: rate, what is left, for how long.
func formatJobProgress(j *api.Job) (fraction float64, text string) {
	text = fmt.Sprintf("job %s %s %s", j.ID, j.Kind, j.Phase)
	if j.State != api.JobRunning {
		text += " (" + j.State + ")"
	}
	text += fmt.Sprintf(", %s/s", output.Bytes(j.RateBytesPerSecond))
	if j.Expected != nil && j.Expected.Bytes > j.Bytes {
		text += fmt.Sprintf(", %s behind", formatEstimate(output.Bytes(j.Expected.Bytes-j.Bytes)))
	}
	if j.ETASeconds != nil {
		text += ", " + formatEstimate(output.Seconds(*j.ETASeconds)) + " to go"
	}
	return j.Progress, text
}
