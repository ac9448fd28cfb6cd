package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func explainCommand() *cobra.Command {
	cmd := nounCommand("explain", "Say where a key, a slot or a shard is, and why")
	shard := shardExplainCommand()
	shard.Use = "shard SHARD"
	cmd.AddCommand(explainKeyCommand(), explainSlotCommand(), shard)
	return cmd
}

func explainKeyCommand() *cobra.Command {
	var keyspace string
	return showing[api.Explanation]{
		use: "key KEY", short: "Say where a key is, and why", args: args("KEY"),
		example: "  cleave explain key user:42\n  cleave explain key '{cart}:7' --keyspace shop",
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			k, err := api.ParseKey(args[0])
			if err != nil {
				return e, usageError{fmt.Errorf("key %q: %w", args[0], err)}
			}
			return c.ExplainKey(ctx, keyspace, k)
		},
		text: explanationText,
	}.command(keyspaceFlag(&keyspace, "keyspace of the key (default the usual one)"))
}

func explainSlotCommand() *cobra.Command {
	var keyspace string
	return showing[api.Explanation]{
		use: "slot N", short: "Say where a slot of a hash keyspace is", args: args("N"),
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 0 {
				return e, usageError{fmt.Errorf("slot %q: want a number from 0 on", args[0])}
			}
			return c.ExplainSlot(ctx, keyspace, n)
		},
		text: explanationText,
	}.command(keyspaceFlag(&keyspace, "keyspace of the slot (default the usual one)"))
}

// keyspaceFlag gives a command --keyspace.
func keyspaceFlag(keyspace *string, help string) func(*cobra.Command) {
	return func(cmd *cobra.Command) {
		cmd.Flags().StringVar(keyspace, "keyspace", "", help)
		completeMore(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces})
	}
}

// explanationText shows where something is, from the key down to the store.
func explanationText(e api.Explanation) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if e.Key != nil {
		there := ""
		if e.Exists != nil && !*e.Exists {
			there = " (there is no such key now)"
		}
		line("key", "%s%s", e.Key, there)
	}
	if e.HashTag != nil {
		line("tag", "%s", e.HashTag)
	}
	if e.Keyspace != "" {
		line("keyspace", "%s (%s)", e.Keyspace, e.Kind)
	}
	if e.Slot != nil {
		line("slot", "%d", *e.Slot)
	}
	s := e.Shard
	line("shard", "%d: %s, %s, %s (%.0f %% of all)", s.ID, shardKeys(s), output.Counted(s.Rows, "row"), output.Bytes(s.Bytes), 100*s.Share)
	line("group", "%d", s.Group)
	line("store", "%d", s.Store)
	if s.Job != "" {
		line("job", "%s is at work on it: cleave job watch %s", s.Job, s.Job)
	}
	why := e.Why
	if len(why) == 0 {
		why = s.Why
	}
	for _, w := range why {
		b.WriteString(output.Wrap(w) + "\n")
	}
	return b.String()
}
