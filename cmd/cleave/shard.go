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

func newShardCommand() *cobra.Command {
	cmd := newNounCommand("shard", "List, explain, split, merge and move shards")
	cmd.AddCommand(newShardListCommand(), newShardExplainCommand(), newShardSplitCommand(), newShardPresplitCommand(), newShardMergeCommand(), newShardMoveCommand())
	return cmd
}

func newShardListCommand() *cobra.Command {
	var f api.ShardFilter
	return listCommand[api.Shard]{
		use: "list", short: "List the shards in the order of their keys",
		example: "  cleave shard list\n  cleave shard list --keyspace orders -o json",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Shard, string, error) {
			rows, err := c.Shards(ctx, f)
			return rows, "", err
		},
		columns: shardColumns, emptyText: "no such shards",
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&f.Keyspace, "keyspace", "", "only those of a keyspace")
		cmd.Flags().Var(idFlag{"group", &f.Group}, "group", "only those of a group")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces, "group": completeGroups})
	})
}

var shardColumns = []output.Column[api.Shard]{
	{Head: "shard", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.ID) }},
	{Head: "keyspace", Cell: func(s api.Shard) string { return formatOrDash(s.Keyspace) }, CutPriority: 1},
	{Head: "keys", Cell: formatShardKeys, CutPriority: 2},
	{Head: "group", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.Group) }},
	{Head: "store", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.Store) }, DropPriority: 2},
	{Head: "rows", Right: true, Cell: func(s api.Shard) string { return formatEstimate(output.Count(output.Rough(s.Rows))) }, DropPriority: 1},
	{Head: "bytes", Right: true, Cell: func(s api.Shard) string { return formatEstimate(output.Bytes(s.Bytes)) }, Bar: func(s api.Shard) float64 { return s.Share }},
	{Head: "reads/s", Right: true, Cell: func(s api.Shard) string { return output.Rate(s.Load.ReadsPerSecond) }},
	{Head: "writes/s", Right: true, Cell: func(s api.Shard) string { return output.Rate(s.Load.WritesPerSecond) }},
	{Head: "busy", Right: true, Cell: func(s api.Shard) string { return formatBusy(s.Load.Busy) }},
	{Head: "job", Cell: func(s api.Shard) string { return s.Job }},
}

// formatBusy is how much of a processor's time something takes, in percent.
func formatBusy(busy float64) string { return fmt.Sprintf("%.0f %%", 100*busy) }

// formatShardKeys returns which keys a shard has.
func formatShardKeys(s api.Shard) string {
	if s.FirstSlot != nil && s.LastSlot != nil {
		return fmt.Sprintf("slots %d–%d", *s.FirstSlot, *s.LastSlot)
	}
	if s.Kind == "" {
		return "-"
	}
	from, to := "first", "last"
	if s.StartKey != nil {
		from = s.StartKey.String()
	}
	if s.EndKey != nil {
		to = "before " + s.EndKey.String()
	}
	return from + " … " + to
}

func formatOrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func newShardExplainCommand() *cobra.Command {
	cmd := showCommand[api.Explanation]{
		use: "explain SHARD", short: "Say what a shard has, and who has it", args: exactArgs("SHARD"),
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			id, err := parseNumberArg("shard", args[0])
			if err != nil {
				return e, err
			}
			return c.ExplainShard(ctx, id)
		},
		text: formatExplanation,
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeShards)
	return cmd
}

func newShardSplitCommand() *cobra.Command {
	var request api.Split
	var keys []string
	return actionCommand{
		use: "split (--slot N | --key K [--keyspace NAME] | --shard ID)", short: "Cut shards in two",
		long: `Cut shards in two.

New shards begin with the slots or keys that are named; --shard cuts one in its
middle. Nothing is copied: both parts stay with their group until one is moved.
In keys \xNN is a byte that cannot be typed.`,
		example: "  cleave shard split --shard 4\n  cleave shard split --slot 8192 --yes\n  cleave shard split --key m --keyspace orders",
		send: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Keys, err = parseKeyFlags(keys); err != nil {
				return a, err
			}
			if err := checkExactlyOne(map[string]bool{"--slot": len(request.Slots) > 0, "--key": len(keys) > 0, "--shard": request.Shard != 0}, "where to cut"); err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathSplit, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.IntSliceVar(&request.Slots, "slot", nil, "`slots` with which new shards begin, such as 4096,8192")
		flags.StringArrayVar(&keys, "key", nil, "`key` with which a new shard begins; may be given again")
		flags.StringVar(&request.Keyspace, "keyspace", "", "keyspace of slots and keys (default the usual one)")
		flags.Var(idFlag{"shard", &request.Shard}, "shard", "`id` of a shard to cut in its middle")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces, "shard": completeShards})
	})
}

func newShardPresplitCommand() *cobra.Command {
	var request api.Presplit
	var keys []string
	return actionCommand{
		use: "presplit [--keyspace NAME] (--into N | --key K …)", short: "Cut a keyspace into many shards before it is filled",
		example: "  cleave shard presplit --into 64\n  cleave shard presplit --keyspace orders --key g --key n --key t",
		send: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Keys, err = parseKeyFlags(keys); err != nil {
				return a, err
			}
			if err := checkExactlyOne(map[string]bool{"--into": request.Into != 0, "--key": len(keys) > 0}, "how to cut"); err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathPresplit, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&request.Keyspace, "keyspace", "", "keyspace to cut (default the usual one)")
		flags.IntVar(&request.Into, "into", 0, "how many `pieces` the slots of a hash keyspace are cut into")
		flags.StringArrayVar(&keys, "key", nil, "`key` of a range keyspace with which a shard begins; may be given\nseveral times")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces})
	})
}

func newShardMergeCommand() *cobra.Command {
	cmd := actionCommand{
		use: "merge LEFT RIGHT", short: "Join two shards that are neighbours, of one group", args: exactArgs("LEFT", "RIGHT"),
		example: "  cleave shard merge 4 9",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			left, err1 := parseNumberArg("shard", args[0])
			right, err2 := parseNumberArg("shard", args[1])
			if err := errors.Join(err1, err2); err != nil {
				return a, usageError{err}
			}
			return c.Post(ctx, api.PathMerge, api.Merge{Left: left, Right: right}, dryRun)
		},
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeShards
	return cmd
}

func newShardMoveCommand() *cobra.Command {
	var request api.Move
	var rate rateFlag
	return actionCommand{
		use: "move --shard ID --to GROUP", short: "Give a shard to another group",
		long: `Give a shard to another group.

Reads go on, and so do writes, but for some milliseconds when it is handed over.
Between groups of one store nothing is copied.`,
		example: "  cleave shard move --shard 4 --to 2\n  cleave shard move --shard 4 --to 2 --rate 20mb --yes --detach",
		send: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Shard == 0 || request.To == 0 {
				return a, usageError{errors.New("shard move wants --shard and --to")}
			}
			request.BytesPerSecond = uint64(rate)
			return c.Post(ctx, api.PathMove, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().Var(idFlag{"shard", &request.Shard}, "shard", "`id` of the shard")
		cmd.Flags().Var(idFlag{"group", &request.To}, "to", "`group` that gets it")
		rate.addFlag(cmd, "copy at most so many bytes a second, such as 20mb")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"shard": completeShards, "to": completeGroups})
	})
}

// checkExactlyOne wants one of several flags.
func checkExactlyOne(given map[string]bool, what string) error {
	var names, have []string
	for _, name := range []string{"--slot", "--into", "--key", "--shard"} {
		if set, known := given[name]; known {
			names = append(names, name)
			if set {
				have = append(have, name)
			}
		}
	}
	if len(have) == 1 {
		return nil
	}
	return usageError{fmt.Errorf("say %s with one of %s", what, strings.Join(names, ", "))}
}

func newGroupCommand() *cobra.Command {
	cmd := newNounCommand("group", "List, drain and change the groups that execute commands")
	cmd.AddCommand(newGroupListCommand(), newGroupDrainCommand(), newGroupUndrainCommand(), newGroupResizeCommand())
	return cmd
}

func newGroupListCommand() *cobra.Command {
	return listCommand[api.Group]{
		use: "list", short: "List the groups with what they have and do",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Group, string, error) {
			rows, err := c.Groups(ctx)
			return rows, "", err
		},
		columns: groupColumns, emptyText: "no groups",
	}.toCobra(nil)
}

var groupColumns = []output.Column[api.Group]{
	{Head: "group", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.ID) }},
	{Head: "store", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.Store) }},
	{Head: "shards", Right: true, Cell: func(g api.Group) string { return output.Count(g.Shards) }},
	{Head: "rows", Right: true, Cell: func(g api.Group) string { return formatEstimate(output.Count(output.Rough(g.Rows))) }},
	{Head: "bytes", Right: true, Cell: func(g api.Group) string { return formatEstimate(output.Bytes(g.Bytes)) }},
	{Head: "reads/s", Right: true, Cell: func(g api.Group) string { return output.Rate(g.Load.ReadsPerSecond) }},
	{Head: "writes/s", Right: true, Cell: func(g api.Group) string { return output.Rate(g.Load.WritesPerSecond) }},
	{Head: "commands", Right: true, Cell: func(g api.Group) string { return output.Count(g.Commands) }, DropPriority: 1},
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

func newGroupDrainCommand() *cobra.Command {
	var request api.Drain
	var rate rateFlag
	cmd := actionCommand{
		use: "drain GROUP", short: "Move all shards of a group to others", args: exactArgs("GROUP"),
		example: "  cleave group drain 3",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			if request.Group, err = parseNumberArg("group", args[0]); err != nil {
				return a, err
			}
			request.BytesPerSecond = uint64(rate)
			return c.Post(ctx, api.PathDrain, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().IntVar(&request.Parallel, "parallel", 1, "how many shards are moved at a time")
		rate.addFlag(cmd, "copy at most so many bytes a second, such as 20mb")
	})
	cmd.ValidArgsFunction = completeFirstArg(completeGroups)
	return cmd
}

func newGroupUndrainCommand() *cobra.Command {
	cmd := actionCommand{
		use: "undrain GROUP", short: "Let a group that was drained have shards again", args: exactArgs("GROUP"), harmless: true,
		long: `Let a group that was drained have shards again.

None comes back by itself: cleave shard move gives it some, and a drain or a
resize may.`,
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			group, err := parseNumberArg("group", args[0])
			if err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathUndrain, api.Undrain{Group: group}, dryRun)
		},
	}.toCobra(nil)
	cmd.ValidArgsFunction = completeFirstArg(completeGroups)
	return cmd
}

func newGroupResizeCommand() *cobra.Command {
	var request api.Regroup
	var rate rateFlag
	return actionCommand{
		use: "resize N", short: "Change how many groups there are", args: exactArgs("N"),
		example: "  cleave group resize 8",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			n, err := parseNumberArg("number of groups", args[0])
			if err != nil {
				return a, err
			}
			request.Groups, request.BytesPerSecond = int(min(n, 1<<30)), uint64(rate)
			return c.Post(ctx, api.PathRegroup, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().IntVar(&request.Parallel, "parallel", 1, "how many shards are moved at a time")
		rate.addFlag(cmd, "copy at most so many bytes a second, such as 20mb")
	})
}
