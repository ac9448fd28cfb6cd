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

func shardCommand() *cobra.Command {
	cmd := nounCommand("shard", "List, explain, split, merge and move shards")
	cmd.AddCommand(shardListCommand(), shardExplainCommand(), shardSplitCommand(), shardPresplitCommand(), shardMergeCommand(), shardMoveCommand())
	return cmd
}

func shardListCommand() *cobra.Command {
	var f api.ShardFilter
	return listing[api.Shard]{
		use: "list", short: "List the shards in the order of their keys",
		example: "  cleave shard list\n  cleave shard list --keyspace orders -o json",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Shard, string, error) {
			rows, err := c.Shards(ctx, f)
			return rows, "", err
		},
		columns: shardColumns, none: "no such shards",
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&f.Keyspace, "keyspace", "", "only those of a keyspace")
		cmd.Flags().Uint64Var(&f.Group, "group", 0, "only those of a group")
		completeMore(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces, "group": completeGroups})
	})
}

var shardColumns = []output.Column[api.Shard]{
	{Head: "shard", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.ID) }},
	{Head: "keyspace", Cell: func(s api.Shard) string { return orDash(s.Keyspace) }},
	{Head: "keys", Cell: shardKeys},
	{Head: "group", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.Group) }},
	{Head: "store", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.Store) }},
	{Head: "rows", Right: true, Cell: func(s api.Shard) string { return output.Count(s.Rows) }},
	{Head: "bytes", Right: true, Cell: func(s api.Shard) string { return output.Bytes(s.Bytes) }, Bar: func(s api.Shard) float64 { return s.Share }},
	{Head: "job", Cell: func(s api.Shard) string { return s.Job }},
}

// shardKeys says which keys a shard has.
func shardKeys(s api.Shard) string {
	if s.FirstSlot != nil && s.LastSlot != nil {
		return fmt.Sprintf("slots %d–%d", *s.FirstSlot, *s.LastSlot)
	}
	if s.Kind == "" {
		return "-"
	}
	from, to := "first", "last"
	if s.StartKey != nil {
		from = shortKey(*s.StartKey)
	}
	if s.EndKey != nil {
		to = "before " + shortKey(*s.EndKey)
	}
	return from + " … " + to
}

// shortKey is a key that leaves room for others on a line.
func shortKey(k api.Key) string {
	text := k.String()
	if len(text) > 24 {
		text = text[:23] + "…"
	}
	return text
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func shardExplainCommand() *cobra.Command {
	cmd := showing[api.Explanation]{
		use: "explain SHARD", short: "Say what a shard has, and who has it", args: args("SHARD"),
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			id, err := number("shard", args[0])
			if err != nil {
				return e, err
			}
			return c.ExplainShard(ctx, id)
		},
		text: explanationText,
	}.command(nil)
	cmd.ValidArgsFunction = completeOne(completeShards)
	return cmd
}

func shardSplitCommand() *cobra.Command {
	var request api.Split
	var keys []string
	return acting{
		use: "split (--slot N | --key K [--keyspace NAME] | --shard ID)", short: "Cut shards in two",
		long: `Cut shards in two.

New shards begin with the slots or keys that are named; --shard cuts one in its
middle. Nothing is copied: both parts stay with their group until one is moved.
In keys \xNN is a byte that cannot be typed.`,
		example: "  cleave shard split --shard 4\n  cleave shard split --slot 8192 --yes\n  cleave shard split --key m --keyspace orders",
		do: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Keys, err = keyFlags(keys); err != nil {
				return a, err
			}
			if err := exactlyOne(map[string]bool{"--slot": len(request.Slots) > 0, "--key": len(keys) > 0, "--shard": request.Shard != 0}, "where to cut"); err != nil {
				return a, err
			}
			return c.Act(ctx, api.PathSplit, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.IntSliceVar(&request.Slots, "slot", nil, "`slots` with which new shards begin, such as 4096,8192")
		flags.StringArrayVar(&keys, "key", nil, "`key` with which a new shard begins; may be given again")
		flags.StringVar(&request.Keyspace, "keyspace", "", "keyspace of slots and keys (default the usual one)")
		flags.Uint64Var(&request.Shard, "shard", 0, "`id` of a shard to cut in its middle")
		completeMore(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces, "shard": completeShards})
	})
}

func shardPresplitCommand() *cobra.Command {
	var request api.Presplit
	var keys []string
	return acting{
		use: "presplit [--keyspace NAME] (--into N | --key K …)", short: "Cut a keyspace into many shards before it is filled",
		example: "  cleave shard presplit --into 64\n  cleave shard presplit --keyspace orders --key g --key n --key t",
		do: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Keys, err = keyFlags(keys); err != nil {
				return a, err
			}
			if err := exactlyOne(map[string]bool{"--into": request.Into != 0, "--key": len(keys) > 0}, "how to cut"); err != nil {
				return a, err
			}
			return c.Act(ctx, api.PathPresplit, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&request.Keyspace, "keyspace", "", "keyspace to cut (default the usual one)")
		flags.IntVar(&request.Into, "into", 0, "how many `pieces` the slots of a hash keyspace are cut into")
		flags.StringArrayVar(&keys, "key", nil, "`key` of a range keyspace with which a shard begins; may be given\nseveral times")
		completeMore(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces})
	})
}

func shardMergeCommand() *cobra.Command {
	cmd := acting{
		use: "merge LEFT RIGHT", short: "Join two shards that are neighbours, of one group", args: args("LEFT", "RIGHT"),
		example: "  cleave shard merge 4 9",
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			left, err1 := number("shard", args[0])
			right, err2 := number("shard", args[1])
			if err := errors.Join(err1, err2); err != nil {
				return a, usageError{err}
			}
			return c.Act(ctx, api.PathMerge, api.Merge{Left: left, Right: right}, dryRun)
		},
	}.command(nil)
	cmd.ValidArgsFunction = completeShards
	return cmd
}

func shardMoveCommand() *cobra.Command {
	var request api.Move
	var rate rateFlag
	return acting{
		use: "move --shard ID --to GROUP", short: "Give a shard to another group",
		long: `Give a shard to another group.

Reads go on, and so do writes, but for some milliseconds when it is handed over.
Between groups of one store nothing is copied.`,
		example: "  cleave shard move --shard 4 --to 2\n  cleave shard move --shard 4 --to 2 --rate 20mb --yes --detach",
		do: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (a api.Action, err error) {
			if request.Shard == 0 || request.To == 0 {
				return a, usageError{errors.New("shard move wants --shard and --to")}
			}
			request.BytesPerSecond = uint64(rate)
			return c.Act(ctx, api.PathMove, request, dryRun)
		},
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().Uint64Var(&request.Shard, "shard", 0, "`id` of the shard")
		cmd.Flags().Uint64Var(&request.To, "to", 0, "`group` that gets it")
		rate.flag(cmd, "copy at most so many bytes a second, such as 20mb")
		completeMore(cmd, map[string]cobra.CompletionFunc{"shard": completeShards, "to": completeGroups})
	})
}

// exactlyOne wants one of several flags.
func exactlyOne(given map[string]bool, what string) error {
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
