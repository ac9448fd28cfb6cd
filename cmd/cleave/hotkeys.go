package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newHotKeysCommand() *cobra.Command {
	f := api.HotKeyFilter{By: api.ByOps, N: 10}
	return listCommand[api.HotKey]{
		use: "hotkeys", short: "Show the keys that are asked for most, and who asks",
		long: `Show the keys that are asked for most, and who asks.

One request of 128 is sampled, over about the last minute. A count is at most too
high by what stands behind ±: what the table of keys may be off by, and twice the
standard deviation of the sample. Client is the name that a program has set, or its
library, and its host; address is a single connection, if one has a fifth or more.`,
		example: "  cleave hotkeys\n  cleave hotkeys --by bytes --keyspace orders\n  cleave hotkeys --shard 4 -n 3 -o jsonl",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.HotKey, string, error) {
			h, err := c.HotKeys(ctx, f)
			if err != nil {
				return nil, "", err
			}
			return h.Keys, formatHotKeysNote(&h), nil
		},
		columns: hotKeyColumns, emptyText: "no key was asked for lately",
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&f.By, "by", f.By, "compare them by ops, bytes, time or conflicts")
		flags.IntVarP(&f.N, "number", "n", f.N, "how many to show")
		flags.StringVar(&f.Keyspace, "keyspace", "", "only those of a keyspace")
		flags.Var(idFlag{"shard", &f.Shard}, "shard", "only those of a shard")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{
			"by":       cobra.FixedCompletions([]string{api.ByOps, api.ByBytes, api.ByTime, api.ByConflicts}, cobra.ShellCompDirectiveNoFileComp),
			"keyspace": completeKeyspaces, "shard": completeShards,
		})
	})
}

// formatHotKeysNote says what the figures are of. It is empty if there are none.
func formatHotKeysNote(h *api.HotKeys) string {
	if len(h.Keys) == 0 {
		return ""
	}
	return fmt.Sprintf("by %s: %s in a second, of about the last %s", h.By, formatMeasure(h.By, h.Total/max(h.WindowSeconds, 1)), output.Seconds(math.Round(h.WindowSeconds)))
}

// formatMeasure is a figure by a measure.
func formatMeasure(by string, n float64) string {
	switch by {
	case api.ByBytes:
		return output.Bytes(uint64(max(n, 0)))
	case api.ByTime:
		return formatBusy(n)
	}
	return output.Rate(n)
}

// maxKeyWidth is how much of a key a table has: names of clients and addresses have to fit beside it.
const maxKeyWidth = 40

var hotKeyColumns = []output.Column[api.HotKey]{
	{Head: "key", Cell: func(k api.HotKey) string {
		if k.Truncated {
			return output.Clip(k.Key.String()+"…", maxKeyWidth)
		}
		return output.Clip(k.Key.String(), maxKeyWidth)
	}},
	{Head: "keyspace", Cell: func(k api.HotKey) string { return formatOrDash(k.Keyspace) }, CutPriority: 2, DropPriority: 5},
	{Head: "shard", Right: true, Cell: func(k api.HotKey) string { return fmt.Sprint(k.Shard) }, DropPriority: 1},
	{Head: "ops/s", Right: true, Cell: func(k api.HotKey) string { return output.Rate(k.ReadsPerSecond + k.WritesPerSecond) }},
	{Head: "±", Right: true, Cell: func(k api.HotKey) string {
		return fmt.Sprintf("%.0f %%", math.Min(999, 100*(k.Error+2*k.Deviation)/math.Max(k.Count, 1e-12)))
	}},
	{Head: "of all", Right: true, Cell: func(k api.HotKey) string { return formatPercent(k.ShareOfAll) }},
	{Head: "writes", Right: true, Cell: func(k api.HotKey) string {
		return formatPercent(k.WritesPerSecond / math.Max(k.ReadsPerSecond+k.WritesPerSecond, 1e-12))
	}, DropPriority: 4},
	{Head: "bytes/s", Right: true, Cell: func(k api.HotKey) string { return output.Bytes(uint64(max(k.BytesPerSecond, 0))) }, DropPriority: 3},
	{Head: "p99", Right: true, Cell: func(k api.HotKey) string { return formatSecondsOrDash(k.P99Seconds) }, DropPriority: 2},
	{Head: "command", Cell: func(k api.HotKey) string { return formatNames(k.Commands) }},
	{Head: "client", Cell: func(k api.HotKey) string { return formatNames(k.Clients) }},
	{Head: "address", Cell: func(k api.HotKey) string { return formatAddress(k.Addresses) }},
}

func formatPercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func formatSecondsOrDash(s float64) string {
	if s <= 0 {
		return "-"
	}
	return output.Seconds(s)
}

// formatNames is the most frequent name, and the second if that matters too.
func formatNames(names []api.NameShare) string {
	var shown []string
	for i, n := range names {
		if i < 2 && (i == 0 || n.Share >= 0.1) {
			shown = append(shown, n.Name)
		}
	}
	return formatOrDash(strings.Join(shown, ", "))
}

// formatAddress is the connection that sends most of it. There is none if many share it.
func formatAddress(names []api.NameShare) string {
	if len(names) == 0 || names[0].Share < 0.1 {
		return "-"
	}
	return names[0].Name
}
