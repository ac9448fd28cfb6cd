package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func jobCommand() *cobra.Command {
	cmd := nounCommand("job", "List, watch and control what goes on in the background")
	cmd.AddCommand(jobListCommand(), jobShowCommand(), jobWatchCommand(),
		jobControlCommand("pause", "Stop a job for a while", api.PathPauseJob, true),
		jobControlCommand("resume", "Let a job that was paused go on", api.PathResumeJob, true),
		jobControlCommand("cancel", "Take a job back, as far as it can be", api.PathCancelJob, false),
		jobThrottleCommand())
	return cmd
}

func jobListCommand() *cobra.Command {
	return listing[api.Job]{
		use: "list", short: "List the jobs under way, and the last that have ended",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Job, string, error) {
			rows, err := c.Jobs(ctx)
			return rows, "", err
		},
		columns: jobColumns, none: "no jobs",
	}.command(nil)
}

var jobColumns = []output.Column[api.Job]{
	{Head: "job", Right: true, Cell: func(j api.Job) string { return j.ID }},
	{Head: "kind", Cell: func(j api.Job) string { return j.Kind }},
	{Head: "state", Cell: func(j api.Job) string { return j.State }},
	{Head: "phase", Cell: func(j api.Job) string { return j.Phase }},
	{Head: "shard", Right: true, Cell: func(j api.Job) string { return orNone(j.Shard) }},
	{Head: "from", Right: true, Cell: func(j api.Job) string { return orNone(j.From) }},
	{Head: "to", Right: true, Cell: func(j api.Job) string { return orNone(j.To) }},
	{Head: "bytes", Right: true, Cell: func(j api.Job) string { return output.Bytes(j.Bytes) }},
	{Head: "done", Right: true, Cell: func(j api.Job) string { return fmt.Sprintf("%.0f %%", 100*j.Progress) }, Bar: func(j api.Job) float64 { return j.Progress }},
}

// orNone is an id, or a dash for none.
func orNone(id uint64) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprint(id)
}

func jobShowCommand() *cobra.Command {
	cmd := showing[api.Job]{
		use: "show JOB", short: "Show all about a job", args: args("JOB"),
		get:  func(ctx context.Context, c *api.Client, args []string) (api.Job, error) { return c.Job(ctx, args[0]) },
		text: jobText,
	}.command(nil)
	cmd.ValidArgsFunction = completeOne(completeJobs)
	return cmd
}

func jobText(j api.Job) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("job", "%s, a %s", j.ID, j.Kind)
	line("state", "%s, at %s", j.State, orDash(j.Phase))
	if j.Shard != 0 {
		line("shard", "%d, from group %s to %s", j.Shard, orNone(j.From), orNone(j.To))
	}
	if j.Parent != "" {
		line("part of", "job %s", j.Parent)
	}
	if j.Children > 0 {
		line("parts", "%d", j.Children)
	}
	if x := j.Expected; x != nil {
		line("expected", "%s in %s, about %s", output.Bytes(x.Bytes), output.Counted(x.Rows, "row"), output.Seconds(x.Seconds))
	}
	line("carried", "%s in %s, %s/s", output.Bytes(j.Bytes), output.Counted(j.Rows, "row"), output.Bytes(j.RateBytesPerSecond))
	if j.LimitBytesPerSecond > 0 {
		line("limit", "%s/s: cleave job throttle %s --rate 0 lifts it", output.Bytes(j.LimitBytesPerSecond), j.ID)
	}
	line("pauses", "%s at most, %s in all", output.Seconds(j.PauseSeconds), output.Seconds(j.PauseTotalSeconds))
	line("created", "%s", j.Created.Format(timeForm))
	if j.Ended != nil {
		line("ended", "%s", j.Ended.Format(timeForm))
	}
	if j.Result != "" {
		line("result", "%s", j.Result)
	}
	if j.Why != "" {
		line("why", "%s", j.Why)
	}
	return b.String()
}

// timeForm is how times are shown to people.
const timeForm = "2006-01-02 15:04:05"

func jobWatchCommand() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "watch JOB", Short: "Show the progress of a job until it is over", Args: args("JOB"),
		Long: `Show the progress of a job until it is over.

Who interrupts it leaves the job at work. Exit 0 means that it was done, 1 that
it was taken back or has failed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.talk(cmd, func(ctx context.Context, c *api.Client) error {
				j, err := c.Job(ctx, args[0])
				if err == nil && !j.Over() {
					j, err = follow(ctx, c, person(cmd), j)
				}
				if err != nil {
					return err
				}
				if err := output.One(cmd.OutOrStdout(), r.format, j, func(j api.Job) string { return jobEnd(&j) }); err != nil {
					return err
				}
				return jobVerdict(&j)
			})
		},
	}
	r.flags(cmd)
	cmd.ValidArgsFunction = completeOne(completeJobs)
	return cmd
}

func jobControlCommand(verb, short, path string, harmless bool) *cobra.Command {
	a := acting{use: verb + " JOB", short: short, args: args("JOB"), harmless: harmless, undoes: !harmless}
	a.do = func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
		done, err := c.ControlJob(ctx, path, args[0], dryRun)
		if harmless {
			return controlled(done), err
		}
		return done, err
	}
	cmd := a.command(nil)
	cmd.ValidArgsFunction = completeOne(completeJobs)
	return cmd
}

// controlled is an answer without its job: who pauses one does not wait for its end.
func controlled(a api.Action) api.Action {
	a.Job = nil
	return a
}

func jobThrottleCommand() *cobra.Command {
	var rate rateFlag
	var cmd *cobra.Command
	cmd = acting{
		use: "throttle JOB --rate BYTES", short: "Bound how fast a job copies rows", args: args("JOB"), harmless: true,
		example: "  cleave job throttle 7 --rate 10mb\n  cleave job throttle 7 --rate 0          no bound",
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			if !cmd.Flags().Changed("rate") {
				return api.Action{}, usageError{errors.New("job throttle wants --rate")}
			}
			a, err := c.ThrottleJob(ctx, args[0], uint64(rate), dryRun)
			return controlled(a), err
		},
	}.command(func(cmd *cobra.Command) { rate.flag(cmd, "bytes a second, such as 10mb; 0 for no bound") })
	cmd.ValidArgsFunction = completeOne(completeJobs)
	return cmd
}
