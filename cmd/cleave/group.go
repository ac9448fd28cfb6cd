package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func groupCommand() *cobra.Command {
	cmd := nounCommand("group", "List, drain and change the groups that execute commands")
	cmd.AddCommand(groupListCommand(), groupDrainCommand(), groupUndrainCommand(), groupResizeCommand())
	return cmd
}

func groupListCommand() *cobra.Command {
	return listing[api.Group]{
		use: "list", short: "List the groups with what they have and do",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Group, string, error) {
			rows, err := c.Groups(ctx)
			return rows, "", err
		},
		columns: groupColumns, none: "no groups",
	}.command(nil)
}

var groupColumns = []output.Column[api.Group]{
	{Head: "group", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.ID) }},
	{Head: "store", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.Store) }},
	{Head: "shards", Right: true, Cell: func(g api.Group) string { return output.Count(g.Shards) }},
	{Head: "rows", Right: true, Cell: func(g api.Group) string { return output.Count(g.Rows) }},
	{Head: "bytes", Right: true, Cell: func(g api.Group) string { return output.Bytes(g.Bytes) }},
	{Head: "commands", Right: true, Cell: func(g api.Group) string { return output.Count(g.Commands) }},
	{Head: "waiting", Right: true, Cell: func(g api.Group) string { return output.Count(g.QueueDepth) }},
	{Head: "p99", Right: true, Cell: func(g api.Group) string { return output.Seconds(g.ServiceP99Seconds) }},
	{Head: "", Cell: func(g api.Group) string {
		switch {
		case g.Draining:
			return "draining"
		case g.Catalog:
			return "catalog"
		}
		return ""
	}},
}

func groupDrainCommand() *cobra.Command {
	var request api.Drain
	var rate rateFlag
	cmd := acting{
		use: "drain GROUP", short: "Move all shards of a group to others", args: args("GROUP"),
		example: "  cleave group drain 3",
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			if request.Group, err = number("group", args[0]); err != nil {
				return a, err
			}
			request.BytesPerSecond = uint64(rate)
			return c.Act(ctx, api.PathDrain, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().IntVar(&request.Parallel, "parallel", 1, "how many shards are moved at a time")
		rate.flag(cmd, "copy at most so many bytes a second, such as 20mb")
	})
	cmd.ValidArgsFunction = completeOne(completeGroups)
	return cmd
}

func groupUndrainCommand() *cobra.Command {
	cmd := acting{
		use: "undrain GROUP", short: "Let a group that was drained have shards again", args: args("GROUP"), harmless: true,
		long: `Let a group that was drained have shards again.

None comes back by itself: cleave shard move gives it some, and a drain or a
resize may.`,
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			group, err := number("group", args[0])
			if err != nil {
				return a, err
			}
			return c.Act(ctx, api.PathUndrain, api.Undrain{Group: group}, dryRun)
		},
	}.command(nil)
	cmd.ValidArgsFunction = completeOne(completeGroups)
	return cmd
}

func groupResizeCommand() *cobra.Command {
	var request api.Regroup
	var rate rateFlag
	return acting{
		use: "resize N", short: "Change how many groups there are", args: args("N"),
		example: "  cleave group resize 8",
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			n, err := number("number of groups", args[0])
			if err != nil {
				return a, err
			}
			request.Groups, request.BytesPerSecond = int(min(n, 1<<30)), uint64(rate)
			return c.Act(ctx, api.PathRegroup, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().IntVar(&request.Parallel, "parallel", 1, "how many shards are moved at a time")
		rate.flag(cmd, "copy at most so many bytes a second, such as 20mb")
	})
}
