package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func sagaCommand() *cobra.Command {
	cmd := nounCommand("saga", "List and show work of several steps")
	cmd.AddCommand(sagaListCommand(), sagaShowCommand())
	return cmd
}

func sagaListCommand() *cobra.Command {
	var keyspace, state string
	return listing[api.Saga]{
		use: "list", short: "List sagas and where they are",
		example: "  cleave saga list --state stuck",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Saga, string, error) {
			return c.Sagas(ctx, keyspace, state)
		},
		columns: sagaColumns, none: "no sagas",
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&keyspace, "keyspace", "", "keyspace of the journal (default the usual one)")
		cmd.Flags().StringVar(&state, "state", "", "only running, compensating, completed, compensated or stuck ones")
		completeMore(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces,
			"state": cobra.FixedCompletions([]cobra.Completion{"running", "compensating", "completed", "compensated", "stuck"}, cobra.ShellCompDirectiveNoFileComp)})
	})
}

var sagaColumns = []output.Column[api.Saga]{
	{Head: "saga", Cell: func(s api.Saga) string { return s.ID }},
	{Head: "definition", Cell: func(s api.Saga) string { return s.Definition }},
	{Head: "state", Cell: func(s api.Saga) string { return s.State }},
	{Head: "step", Cell: sagaStep},
	{Head: "attempts", Right: true, Cell: func(s api.Saga) string { return output.Count(s.Attempts) }},
	{Head: "stuck", Cell: func(s api.Saga) string { return s.Stuck }},
}

// sagaStep says which step is done or undone next.
func sagaStep(s api.Saga) string {
	if s.At < 0 || s.At >= len(s.Steps) || s.Ended != nil {
		return "-"
	}
	return fmt.Sprintf("%s (%d of %d)", s.Steps[s.At], s.At+1, len(s.Steps))
}

func sagaShowCommand() *cobra.Command {
	var keyspace string
	return showing[api.Saga]{
		use: "show SAGA", short: "Show all about a saga", args: args("SAGA"),
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
		text: sagaText,
	}.command(keyspaceFlag(&keyspace, "keyspace of the journal (default the usual one)"))
}

func sagaText(s api.Saga) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("saga", "%s, a %s", s.ID, s.Definition)
	line("state", "%s", s.State)
	line("steps", "%s", strings.Join(s.Steps, ", "))
	line("next", "%s", sagaStep(s))
	line("started", "%s", s.Started.Format(timeForm))
	if s.Ended != nil {
		line("ended", "%s", s.Ended.Format(timeForm))
	}
	if s.Stuck != "" {
		line("stuck", "%s", s.Stuck)
	}
	if s.Failure != "" {
		line("failure", "%s, %s in a row", s.Failure, output.Counted(s.Attempts, "time"))
	}
	if s.Cause != "" {
		line("cause", "%s", s.Cause)
	}
	if s.Stuck != "" {
		line("fix", "remove the cause, and let the program whose saga it is call Runner.Retry")
	}
	return b.String()
}
