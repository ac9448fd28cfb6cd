package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/internal/terminal"
)

// acting is a command that changes something: it shows the plan, asks, begins, and
// stays until it is done.
type acting struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	// harmless actions are not asked about: what they do can be undone with another.
	harmless bool
	// undoes tells that its job is done when it is taken back.
	undoes bool
	// do asks the server to do it, or only for the plan.
	do func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error)
}

// actFlags are those of every such command.
type actFlags struct{ yes, dryRun, detach bool }

// command makes it one. more adds flags.
func (a acting) command(more func(*cobra.Command)) *cobra.Command {
	var r remote
	var f actFlags
	if a.args == nil {
		a.args = noArgs
	}
	cmd := &cobra.Command{
		Use: a.use, Short: a.short, Long: a.long, Example: a.example, Args: a.args, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.talk(cmd, func(ctx context.Context, c *api.Client) error {
				err := a.run(ctx, cmd, c, &r, f, args)
				if errors.Is(err, &api.Error{Code: api.CodeNoChange}) {
					// What was wanted is so: a script that says it twice has not failed.
					nothing := api.Action{DryRun: f.dryRun, Plan: api.Plan{Summary: err.Error(), Steps: []string{}}}
					return output.One(cmd.OutOrStdout(), r.format, nothing, func(a api.Action) string { return planText(&a.Plan) })
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
		_ = flags.MarkHidden("yes") // nobody is asked; a script may say it all the same
	}
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the plan, and change nothing")
	flags.BoolVar(&f.detach, "detach", false, "do not stay until the job is done")
	r.flags(cmd)
	return cmd
}

// run goes from the plan to the end.
func (a acting) run(ctx context.Context, cmd *cobra.Command, c *api.Client, r *remote, f actFlags, args []string) error {
	out, t := cmd.OutOrStdout(), person(cmd)
	if f.dryRun || !a.harmless {
		plan, err := a.do(ctx, c, args, true)
		if err != nil {
			return err
		}
		if f.dryRun {
			return output.One(out, r.format, plan, func(a api.Action) string { return planText(&a.Plan) })
		}
		fmt.Fprint(cmd.ErrOrStderr(), planText(&plan.Plan))
		if !f.yes {
			if err := confirm(t, "Do it?"); err != nil {
				return err
			}
		}
	}
	done, err := a.do(ctx, c, args, false)
	if err != nil {
		return err
	}
	if done.Job == nil || f.detach {
		return output.One(out, r.format, done, actionText)
	}
	job, err := follow(ctx, c, t, *done.Job)
	if err != nil {
		return err
	}
	done.Job = &job
	if err := output.One(out, r.format, done, actionText); err != nil {
		return err
	}
	if a.undoes && job.State == api.JobUndone {
		return nil
	}
	return jobVerdict(&job)
}

// planText shows a plan to people: what, how, and what it costs and brings.
func planText(p *api.Plan) string {
	var b strings.Builder
	b.WriteString(output.Wrap(p.Summary) + "\n")
	for _, s := range p.Steps {
		b.WriteString(output.Wrap("- "+s) + "\n")
	}
	if x := p.Price; x != nil {
		fmt.Fprintf(&b, "carried      %s in %s\n", output.Bytes(x.Bytes), output.Counted(x.Rows, "row"))
		fmt.Fprintf(&b, "other group  %s\n", output.Counted(x.Moves, "shard"))
		fmt.Fprintf(&b, "takes        about %s, of which writes to a range wait for %s\n", output.Seconds(x.Seconds), output.Seconds(x.PauseSeconds))
		fmt.Fprintf(&b, "fullest      group has %.2f times the mean, then %.2f\n", x.SkewBefore, x.SkewAfter)
	}
	if p.Irreversible {
		b.WriteString("Nothing takes this back.\n")
	}
	return b.String()
}

// actionText says what came of an action.
func actionText(a api.Action) string {
	if a.Job == nil {
		return output.Wrap(a.Plan.Summary) + ": done\n"
	}
	return jobEnd(a.Job)
}

// jobEnd is a line about how a job stands.
func jobEnd(j *api.Job) string {
	text := fmt.Sprintf("job %s (%s) %s", j.ID, j.Kind, j.State)
	switch {
	case !j.Over():
		text += ": cleave job watch " + j.ID
	case j.Result != "":
		text += ": " + j.Result
	case j.Why != "":
		text += ": " + j.Why
	}
	if j.Over() && j.Bytes > 0 {
		text += fmt.Sprintf(" (%s", output.Bytes(j.Bytes))
		if j.PauseSeconds > 0 {
			text += ", writes waited for " + output.Seconds(j.PauseSeconds)
		}
		text += ")"
	}
	return text + "\n"
}

// jobVerdict makes an error of a job that was not done.
func jobVerdict(j *api.Job) error {
	if j.Over() && j.State != api.JobDone {
		return fmt.Errorf("job %s was not done: %s", j.ID, j.Why)
	}
	return nil
}

// lookEvery is how often a job is looked at.
const lookEvery = 200 * time.Millisecond

// follow shows the progress of a job until it is over. Who interrupts it leaves it at work.
func follow(ctx context.Context, c *api.Client, t *terminal.Terminal, j api.Job) (api.Job, error) {
	line := t.Progress()
	defer line.End(false)
	end, err := c.WaitJob(ctx, j.ID, lookEvery, func(j api.Job) { line.Show(progressOf(&j)) })
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return j, fmt.Errorf("job %s goes on without being watched: cleave job watch %s", j.ID, j.ID)
	}
	return end, err
}

// progressOf is a line of progress: rate, what is left, for how long.
func progressOf(j *api.Job) (fraction float64, text string) {
	text = fmt.Sprintf("job %s %s %s", j.ID, j.Kind, j.Phase)
	if j.State != api.JobRunning {
		text += " (" + j.State + ")"
	}
	text += fmt.Sprintf(", %s/s", output.Bytes(j.RateBytesPerSecond))
	if j.Expected != nil && j.Expected.Bytes > j.Bytes {
		text += fmt.Sprintf(", %s behind", output.Bytes(j.Expected.Bytes-j.Bytes))
	}
	if j.ETASeconds != nil {
		text += ", " + output.Seconds(*j.ETASeconds) + " to go"
	}
	return j.Progress, text
}
