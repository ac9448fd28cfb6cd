package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newJobCommand() *cobra.Command {
	cmd := newNounCommand("job", "List, watch and control what goes on in the background")
	cmd.AddCommand(newJobListCommand(), newJobShowCommand(), newJobWatchCommand(),
		newJobControlCommand("pause", "Stop a job for a while", api.PathPauseJob, true),
		newJobControlCommand("resume", "Let a job that was paused go on", api.PathResumeJob, true),
		newJobControlCommand("cancel", "Take a job back, as far as it can be", api.PathCancelJob, false),
		newJobThrottleCommand())
	return cmd
}

func newJobListCommand() *cobra.Command {
	return listCommand[api.Job]{
		use: "list", short: "List the jobs under way, and the last that have ended",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Job, string, error) {
			rows, err := c.Jobs(ctx)
			return rows, "", err
		},
		columns: jobColumns, emptyText: "no jobs",
	}.toCobra(nil)
}

var jobColumns = []output.Column[api.Job]{
	{Head: "job", Right: true, Cell: func(j api.Job) string { return j.ID }},
	{Head: "kind", Cell: func(j api.Job) string { return j.Kind }},
	{Head: "state", Cell: func(j api.Job) string { return j.State }},
	{Head: "phase", Cell: func(j api.Job) string { return j.Phase }},
	{Head: "shard", Right: true, Cell: func(j api.Job) string { return formatIDOrDash(j.Shard) }},
	{Head: "from group", Right: true, Cell: func(j api.Job) string { return formatIDOrDash(j.From) }},
	{Head: "to group", Right: true, Cell: func(j api.Job) string { return formatIDOrDash(j.To) }},
	{Head: "bytes", Right: true, Cell: func(j api.Job) string { return output.Bytes(j.Bytes) }},
	{Head: "done", Right: true, Cell: func(j api.Job) string { return fmt.Sprintf("%.0f %%", 100*j.Progress) }, Bar: func(j api.Job) float64 { return j.Progress }},
	{Head: "", Cell: func(j api.Job) string { return j.Why }, CutPriority: 1},
}

// formatIDOrDash is an id, or a dash for none.
func formatIDOrDash(id uint64) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprint(id)
}

func newJobShowCommand() *cobra.Command {
	cmd := showCommand[api.Job]{
		use: "show JOB", short: "Show all about a job", args: exactArgs("JOB"),
		get:  func(ctx context.Context, c *api.Client, args []string) (api.Job, error) { return c.Job(ctx, args[0]) },
		text: ignoreWidth(formatJob),
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeJobs)
	return cmd
}

func formatJob(j api.Job) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("job", "%s, a %s", j.ID, j.Kind)
	line("state", "%s, at %s", j.State, formatOrDash(j.Phase))
	if j.Shard != 0 {
		line("shard", "%d, from group %s to group %s", j.Shard, formatIDOrDash(j.From), formatIDOrDash(j.To))
	}
	if j.Parent != "" {
		line("part of", "job %s", j.Parent)
	}
	if j.Children > 0 {
		line("parts", "%d", j.Children)
	}
	if x := j.Expected; x != nil {
		line("expected", "%s in %s, %s", formatEstimate(output.Bytes(x.Bytes)), formatEstimate(output.Plural(output.Rough(x.Rows), "row")), formatEstimate(output.Seconds(x.Seconds)))
	}
	line("carried", "%s in %s, %s/s", output.Bytes(j.Bytes), output.Plural(j.Rows, "row"), output.Bytes(j.RateBytesPerSecond))
	if j.LimitBytesPerSecond > 0 {
		line("limit", "%s/s: cleave job throttle %s --rate 0 lifts it", output.Bytes(j.LimitBytesPerSecond), j.ID)
	}
	line("pauses", "%s at most, %s in all", output.Seconds(j.PauseSeconds), output.Seconds(j.PauseTotalSeconds))
	line("created", "%s", j.Created.Local().Format(timeLayout))
	if j.Ended != nil {
		line("ended", "%s", j.Ended.Local().Format(timeLayout))
	}
	if j.Result != "" {
		line("result", "%s", j.Result)
	}
	if j.Why != "" {
		line("why", "%s", j.Why)
	}
	return b.String()
}

// timeLayout is how times are shown to people.
const timeLayout = "2006-01-02 15:04:05"

func newJobWatchCommand() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "watch JOB", Short: "Show the progress of a job until it is over", Args: exactArgs("JOB"),
		Long: `Show the progress of a job until it is over.

Who interrupts it leaves the job at work. Exit 0 means that it was done, 1 that
it was taken back or has failed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error {
				j, err := c.Job(ctx, args[0])
				if err == nil && !j.HasEnded() {
					j, err = watchJob(ctx, c, newTerminal(cmd), j)
				}
				if err != nil {
					return err
				}
				if err := output.WriteOne(cmd.OutOrStdout(), r.format, j, func(j api.Job) string { return formatJobEnd(&j) }); err != nil {
					return err
				}
				return checkJobDone(&j)
			})
		},
	}
	r.addFlags(cmd)
	cmd.ValidArgsFunction = completeFirstArg(completeJobs)
	return cmd
}

func newJobControlCommand(verb, short, path string, harmless bool) *cobra.Command {
	a := actionCommand{use: verb + " JOB", short: short, args: exactArgs("JOB"), harmless: harmless, undoIsSuccess: !harmless}
	a.send = func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
		done, err := c.ControlJob(ctx, path, args[0], dryRun)
		if harmless {
			return withoutJob(done), err
		}
		return done, err
	}
	cmd := a.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeJobs)
	return cmd
}

// withoutJob is an answer without its job: a command that pauses one does not wait for its end.
func withoutJob(a api.Action) api.Action {
	a.Job = nil
	return a
}

func newJobThrottleCommand() *cobra.Command {
	var rate rateFlag
	var cmd *cobra.Command
	cmd = actionCommand{
		use: "throttle JOB --rate BYTES", short: "Bound how fast a job copies rows", args: exactArgs("JOB"), harmless: true,
		example: "  cleave job throttle 7 --rate 10mb\n  cleave job throttle 7 --rate 0          no bound",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			if !cmd.Flags().Changed("rate") {
				return api.Action{}, usageError{errors.New("job throttle wants --rate")}
			}
			a, err := c.ThrottleJob(ctx, args[0], uint64(rate), dryRun)
			return withoutJob(a), err
		},
	}.toCobra(func(cmd *cobra.Command) { rate.addFlag(cmd, "bytes a second, such as 10mb; 0 for no bound") })
	cmd.ValidArgsFunction = completeFirstArg(completeJobs)
	return cmd
}

func newSagaCommand() *cobra.Command {
	cmd := newNounCommand("saga", "List and show work of several steps")
	cmd.AddCommand(newSagaListCommand(), newSagaShowCommand())
	return cmd
}

func newSagaListCommand() *cobra.Command {
	var keyspace, state string
	return listCommand[api.Saga]{
		use: "list", short: "List sagas and where they are",
		example: "  cleave saga list --state stuck",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Saga, string, error) {
			return c.Sagas(ctx, keyspace, state)
		},
		columns: sagaColumns, emptyText: "no sagas",
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&keyspace, "keyspace", "", "keyspace of the journal (default the usual one)")
		cmd.Flags().StringVar(&state, "state", "", "only running, compensating, completed, compensated or stuck ones")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces,
			"state": cobra.FixedCompletions([]cobra.Completion{"running", "compensating", "completed", "compensated", "stuck"}, cobra.ShellCompDirectiveNoFileComp)})
	})
}

var sagaColumns = []output.Column[api.Saga]{
	{Head: "saga", Cell: func(s api.Saga) string { return s.ID }, CutPriority: 1},
	{Head: "definition", Cell: func(s api.Saga) string { return s.Definition }, CutPriority: 2},
	{Head: "state", Cell: func(s api.Saga) string { return s.State }},
	{Head: "step", Cell: formatSagaStep, CutPriority: 3},
	{Head: "attempts", Right: true, Cell: func(s api.Saga) string { return output.Count(s.Attempts) }},
	{Head: "stuck", Cell: func(s api.Saga) string { return s.Stuck }, CutPriority: 4},
}

// formatSagaStep returns which step is done or undone next.
func formatSagaStep(s api.Saga) string {
	if s.At < 0 || s.At >= len(s.Steps) || s.Ended != nil {
		return "-"
	}
	return fmt.Sprintf("%s (%d of %d)", s.Steps[s.At], s.At+1, len(s.Steps))
}

func newSagaShowCommand() *cobra.Command {
	var keyspace string
	return showCommand[api.Saga]{
		use: "show SAGA", short: "Show all about a saga", args: exactArgs("SAGA"),
		get: func(ctx context.Context, c *api.Client, args []string) (s api.Saga, err error) {
			all, note, err := c.Sagas(ctx, keyspace, "")
			for _, s := range all {
				if s.ID == args[0] {
					return s, nil
				}
			}
			if err == nil && note == "" {
				note = "cleave saga list shows those there are"
			}
			if err == nil {
				err = fmt.Errorf("there is no saga %q: %s", args[0], note)
			}
			return s, err
		},
		text: ignoreWidth(formatSaga),
	}.toCobra(withKeyspaceFlag(&keyspace, "keyspace of the journal (default the usual one)"))
}

func formatSaga(s api.Saga) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("saga", "%s, a %s", s.ID, s.Definition)
	line("state", "%s", s.State)
	line("steps", "%s", strings.Join(s.Steps, ", "))
	line("next", "%s", formatSagaStep(s))
	line("started", "%s", s.Started.Local().Format(timeLayout))
	if s.Ended != nil {
		line("ended", "%s", s.Ended.Local().Format(timeLayout))
	}
	if s.Stuck != "" {
		line("stuck", "%s", s.Stuck)
	}
	if s.Failure != "" {
		line("failure", "%s, %s in a row", s.Failure, output.Plural(s.Attempts, "time"))
	}
	if s.Cause != "" {
		line("cause", "%s", s.Cause)
	}
	if s.Stuck != "" {
		line("fix", "remove the cause, and let the program whose saga it is call Runner.Retry")
	}
	return b.String()
}
