package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func keyspaceCommand() *cobra.Command {
	cmd := nounCommand("keyspace", "List, create and drop keyspaces")
	cmd.AddCommand(keyspaceListCommand(), keyspaceCreateCommand(), keyspaceDropCommand())
	return cmd
}

func keyspaceListCommand() *cobra.Command {
	return listing[api.Keyspace]{
		use: "list", short: "List the keyspaces with what they hold",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Keyspace, string, error) {
			rows, err := c.Keyspaces(ctx)
			return rows, "", err
		},
		columns: keyspaceColumns, none: "no keyspaces",
	}.command(nil)
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
	}},
	{Head: "slots", Right: true, Cell: func(k api.Keyspace) string {
		if k.Slots == 0 {
			return "-"
		}
		return output.Count(k.Slots)
	}},
	{Head: "shards", Right: true, Cell: func(k api.Keyspace) string { return output.Count(k.Shards) }},
	{Head: "indexes", Right: true, Cell: func(k api.Keyspace) string { return output.Count(k.Indexes) }},
	{Head: "rows", Right: true, Cell: func(k api.Keyspace) string { return output.Count(k.Rows) }},
	{Head: "bytes", Right: true, Cell: func(k api.Keyspace) string { return output.Bytes(k.Bytes) }},
	{Head: "cache hits", Right: true, Cell: func(k api.Keyspace) string { return fmt.Sprintf("%.0f %%", 100*k.CacheHitRatio) }},
}

func keyspaceCreateCommand() *cobra.Command {
	var request api.CreateKeyspace
	var isRange, isHash bool
	return acting{
		use: "create NAME (--range | --hash [--slots N])", short: "Make a keyspace", args: args("NAME"), harmless: true,
		long: `Make a keyspace.

A hash keyspace spreads its keys over slots, as Redis Cluster does; a range
keyspace keeps them in the order of their bytes, for scans. If there is one of that
name which is the same, that is no failure; one that is not the same is.`,
		example: "  cleave keyspace create sessions --hash\n  cleave keyspace create orders --range",
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
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
			return c.Act(ctx, api.PathCreateKeyspace, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.BoolVar(&isRange, "range", false, "keys in the order of their bytes")
		flags.BoolVar(&isHash, "hash", false, "keys spread over slots")
		flags.IntVar(&request.Slots, "slots", 0, "how many slots, a power of two (default 16384)")
		flags.StringVar(&request.Layout, "layout", "", "`layout` of the keys, such as (region, hour(ts)) | id")
	})
}

func keyspaceDropCommand() *cobra.Command {
	cmd := acting{
		use: "drop NAME", short: "Remove a keyspace with all its keys and indexes", args: args("NAME"),
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.Act(ctx, api.PathDropKeyspace, api.DropKeyspace{Name: args[0]}, dryRun)
		},
	}.command(nil)
	cmd.ValidArgsFunction = completeOne(completeKeyspaces)
	return cmd
}
