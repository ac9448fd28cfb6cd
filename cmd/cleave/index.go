package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func indexCommand() *cobra.Command {
	cmd := nounCommand("index", "List, show and drop indexes")
	cmd.AddCommand(indexListCommand(), indexShowCommand(), indexDropCommand())
	return cmd
}

func indexListCommand() *cobra.Command {
	var keyspace string
	return listing[api.Index]{
		use: "list", short: "List the indexes and how far behind they are",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Index, string, error) {
			rows, err := c.Indexes(ctx, keyspace)
			return rows, "", err
		},
		columns: indexColumns, none: "no indexes",
	}.command(keyspaceFlag(&keyspace, "only those of a keyspace"))
}

var indexColumns = []output.Column[api.Index]{
	{Head: "keyspace", Cell: func(i api.Index) string { return i.Keyspace }},
	{Head: "index", Cell: func(i api.Index) string { return i.Name }},
	{Head: "mode", Cell: func(i api.Index) string {
		if i.Unique {
			return i.Mode + ", unique"
		}
		return i.Mode
	}},
	{Head: "by", Cell: func(i api.Index) string {
		if i.Columns != "" {
			return i.Columns
		}
		return "function " + i.Function
	}},
	{Head: "state", Cell: indexState},
	{Head: "behind", Right: true, Cell: func(i api.Index) string { return output.Seconds(i.BehindSeconds) }},
}

// indexState says whether an index can be read.
func indexState(i api.Index) string {
	switch {
	case i.Error != "":
		return "stands still"
	case !i.Ready:
		return "built for " + output.Counted(i.Built, "row")
	}
	return "ready"
}

func indexShowCommand() *cobra.Command {
	var keyspace string
	cmd := showing[api.Index]{
		use: "show NAME", short: "Show all about an index", args: args("NAME"),
		get: func(ctx context.Context, c *api.Client, args []string) (api.Index, error) {
			return findIndex(ctx, c, keyspace, args[0])
		},
		text: indexText,
	}.command(keyspaceFlag(&keyspace, "keyspace of the index (default any)"))
	cmd.ValidArgsFunction = completeOne(completeIndexes)
	return cmd
}

// findIndex finds the one index of a name.
func findIndex(ctx context.Context, c *api.Client, keyspace, name string) (found api.Index, err error) {
	all, err := c.Indexes(ctx, keyspace)
	if err != nil {
		return found, err
	}
	var in []string
	for _, i := range all {
		if i.Name == name {
			found = i
			in = append(in, i.Keyspace)
		}
	}
	switch len(in) {
	case 0:
		return found, fmt.Errorf("there is no index %q: cleave index list shows those there are", name)
	case 1:
		return found, nil
	}
	return found, usageError{fmt.Errorf("keyspaces %s have an index %q: say which with --keyspace", strings.Join(in, " and "), name)}
}

func indexText(i api.Index) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("index", "%s of keyspace %s", i.Name, i.Keyspace)
	line("mode", "%s", indexColumns[2].Cell(i))
	line("by", "%s", indexColumns[3].Cell(i))
	if len(i.Stored) > 0 {
		line("stores", "%s", strings.Join(i.Stored, ", "))
	}
	line("state", "%s", indexState(i))
	line("behind", "%s, %s", output.Seconds(i.BehindSeconds), output.Bytes(i.BehindBytes))
	line("refused", "%s", output.Counted(i.Refused, "row"))
	line("rebuilt", "%s", output.Counted(i.Rebuilt, "row"))
	if i.Error != "" {
		line("error", "%s", i.Error)
	}
	return b.String()
}

func indexDropCommand() *cobra.Command {
	var keyspace string
	cmd := acting{
		use: "drop NAME", short: "Remove an index; its rows stay", args: args("NAME"),
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			i, err := findIndex(ctx, c, keyspace, args[0])
			if err != nil {
				return a, err
			}
			return c.Act(ctx, api.PathDropIndex, api.DropIndex{Keyspace: i.Keyspace, Name: i.Name}, dryRun)
		},
	}.command(keyspaceFlag(&keyspace, "keyspace of the index (default any)"))
	cmd.ValidArgsFunction = completeOne(completeIndexes)
	return cmd
}
