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

func newKeyspaceCommand() *cobra.Command {
	cmd := newNounCommand("keyspace", "List, create, mark and drop keyspaces")
	cmd.AddCommand(newKeyspaceListCommand(), newKeyspaceCreateCommand(), newKeyspaceDropCommand(), newKeyspaceCriticalCommand())
	return cmd
}

func newKeyspaceListCommand() *cobra.Command {
	return listCommand[api.Keyspace]{
		use: "list", short: "List the keyspaces with what they hold",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Keyspace, string, error) {
			rows, err := c.Keyspaces(ctx)
			return rows, "", err
		},
		columns: keyspaceColumns, emptyText: "no keyspaces",
	}.toCobra(nil)
}

var keyspaceColumns = []output.Column[api.Keyspace]{
	{Head: "keyspace", Cell: func(k api.Keyspace) string { return k.Name }},
	{Head: "kind", Cell: func(k api.Keyspace) string {
		switch {
		case k.Index:
			return "index"
		case k.Layout != "":
			return k.Kind + " " + k.Layout
		}
		return k.Kind
	}, CutPriority: 1},
	{Head: "slots", Right: true, Cell: func(k api.Keyspace) string {
		if k.Slots == 0 {
			return "-"
		}
		return output.Count(k.Slots)
	}},
	{Head: "shards", Right: true, Cell: func(k api.Keyspace) string { return output.Count(k.Shards) }},
	{Head: "indexes", Right: true, Cell: func(k api.Keyspace) string { return output.Count(k.Indexes) }},
	{Head: "rows", Right: true, Cell: func(k api.Keyspace) string { return formatEstimate(output.Count(output.Rough(k.Rows))) }},
	{Head: "bytes", Right: true, Cell: func(k api.Keyspace) string { return formatEstimate(output.Bytes(k.Bytes)) }},
	{Head: "cache hits", Right: true, Cell: func(k api.Keyspace) string { return fmt.Sprintf("%.0f %%", 100*k.CacheHitRatio) }},
}

func newKeyspaceCreateCommand() *cobra.Command {
	var request api.CreateKeyspace
	var isRange, isHash bool
	return actionCommand{
		use: "create NAME (--range | --hash [--slots N])", short: "Make a keyspace", args: exactArgs("NAME"), harmless: true,
		long: `Make a keyspace.

A hash keyspace spreads its keys over slots, as Redis Cluster does; a range
keyspace keeps them in the order of their bytes, for scans. If there is one of that
name which is the same, that is no failure; one that is not the same is.`,
		example: "  cleave keyspace create sessions --hash\n  cleave keyspace create orders --range",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			switch {
			case isRange == isHash:
				return a, usageError{errors.New("say which kind with one of --range, --hash")}
			case isRange && request.Slots != 0:
				return a, usageError{errors.New("--slots is for --hash: a range keyspace has none")}
			}
			request.Name, request.Kind = args[0], "hash"
			if isRange {
				request.Kind = "range"
			}
			return c.Post(ctx, api.PathCreateKeyspace, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.BoolVar(&isRange, "range", false, "keys in the order of their bytes")
		flags.BoolVar(&isHash, "hash", false, "keys spread over slots")
		flags.IntVar(&request.Slots, "slots", 0, "how many slots, a power of two (default 16384)")
		flags.StringVar(&request.Layout, "layout", "", "`layout` of the keys, such as (region, hour(ts)) | id\nor hash(id), id")
	})
}

func newKeyspaceDropCommand() *cobra.Command {
	cmd := actionCommand{
		use: "drop NAME", short: "Remove a keyspace with all its keys and indexes", args: exactArgs("NAME"),
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.Post(ctx, api.PathDropKeyspace, api.DropKeyspace{Name: args[0]}, dryRun)
		},
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeKeyspaces)
	return cmd
}

func newIndexCommand() *cobra.Command {
	cmd := newNounCommand("index", "List, show and drop indexes")
	cmd.AddCommand(newIndexListCommand(), newIndexShowCommand(), newIndexDropCommand())
	return cmd
}

func newIndexListCommand() *cobra.Command {
	var keyspace string
	return listCommand[api.Index]{
		use: "list", short: "List the indexes and how far behind they are",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Index, string, error) {
			rows, err := c.Indexes(ctx, keyspace)
			return rows, "", err
		},
		columns: indexColumns, emptyText: "no indexes",
	}.toCobra(withKeyspaceFlag(&keyspace, "only those of a keyspace"))
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
	}, CutPriority: 1},
	{Head: "state", Cell: formatIndexState},
	{Head: "behind", Right: true, Cell: func(i api.Index) string { return output.Seconds(i.BehindSeconds) }},
}

// formatIndexState returns whether an index can be read.
func formatIndexState(i api.Index) string {
	switch {
	case i.Error != "":
		return "stands still"
	case !i.Ready:
		return "built for " + output.Plural(i.Built, "row")
	}
	return "ready"
}

func newIndexShowCommand() *cobra.Command {
	var keyspace string
	cmd := showCommand[api.Index]{
		use: "show NAME", short: "Show all about an index", args: exactArgs("NAME"),
		get: func(ctx context.Context, c *api.Client, args []string) (api.Index, error) {
			return findIndex(ctx, c, keyspace, args[0])
		},
		text: ignoreWidth(formatIndex),
	}.toCobra(withKeyspaceFlag(&keyspace, "keyspace of the index (default any)"))
	cmd.ValidArgsFunction = completeFirstArg(completeIndexes)
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

func formatIndex(i api.Index) string {
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
	line("state", "%s", formatIndexState(i))
	line("behind", "%s, %s", output.Seconds(i.BehindSeconds), output.Bytes(i.BehindBytes))
	line("refused", "%s", output.Plural(i.Refused, "row"))
	line("rebuilt", "%s", output.Plural(i.Rebuilt, "row"))
	if i.Error != "" {
		line("error", "%s", i.Error)
	}
	return b.String()
}

func newIndexDropCommand() *cobra.Command {
	var keyspace string
	cmd := actionCommand{
		use: "drop NAME", short: "Remove an index; its rows stay", args: exactArgs("NAME"),
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			i, err := findIndex(ctx, c, keyspace, args[0])
			if err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathDropIndex, api.DropIndex{Keyspace: i.Keyspace, Name: i.Name}, dryRun)
		},
	}.toCobra(withKeyspaceFlag(&keyspace, "keyspace of the index (default any)"))
	cmd.ValidArgsFunction = completeFirstArg(completeIndexes)
	return cmd
}
