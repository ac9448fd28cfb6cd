package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newMapCommand() *cobra.Command {
	return showCommand[api.Map]{
		use: "map", short: "Show which group has which keys",
		long: `Show which group has which keys.

For each keyspace a strip is drawn from its first slot or key to its last, with
the group that has each part: 1 to 9, then a to z, and * for those beyond. Of a hash
keyspace each place is as many slots as any other; of a range keyspace it is a
shard.`,
		get:  func(ctx context.Context, c *api.Client, _ []string) (api.Map, error) { return c.Map(ctx) },
		text: formatMap,
	}.toCobra(nil)
}

// stripCells is how wide the strip of a keyspace is.
const stripCells = 64

func formatMap(m api.Map, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d: %s in %s\n\n", m.Version, output.Plural(len(m.Shards), "shard"), output.Plural(len(m.Groups), "group"))
	b.WriteString(output.RenderTable(width, m.Groups, newMapColumns(m)))
	var names []string
	shards := map[string][]api.Shard{}
	for _, s := range m.Shards {
		if s.Keyspace == "" {
			continue
		}
		if shards[s.Keyspace] == nil {
			names = append(names, s.Keyspace)
		}
		shards[s.Keyspace] = append(shards[s.Keyspace], s)
	}
	longest := 0
	for _, n := range names {
		longest = max(longest, len(n))
	}
	if len(names) > 0 {
		b.WriteString("\n")
	}
	for _, n := range names {
		fmt.Fprintf(&b, "%-*s  %s\n", longest, n, renderStrip(shards[n]))
	}
	if m.Truncated {
		b.WriteString("\nThere are more shards than are shown: cleave shard list\n")
	}
	return b.String()
}

// newMapColumns are those of groups, with a bar for the part of all bytes that each has.
func newMapColumns(m api.Map) []output.Column[api.Group] {
	var all uint64
	for _, g := range m.Groups {
		all += g.Bytes
	}
	share := func(g api.Group) float64 { return float64(g.Bytes) / float64(max(all, 1)) }
	return []output.Column[api.Group]{
		{Head: "group", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.ID) }},
		{Head: "drawn", Cell: func(g api.Group) string { return string(groupSymbol(g.ID)) }},
		{Head: "store", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.Store) }},
		{Head: "shards", Right: true, Cell: func(g api.Group) string { return output.Count(g.Shards) }},
		{Head: "rows", Right: true, Cell: func(g api.Group) string { return formatEstimate(output.Count(output.Rough(g.Rows))) }},
		{Head: "bytes", Right: true, Cell: func(g api.Group) string { return formatEstimate(output.Bytes(g.Bytes)) }, Bar: share},
	}
}

// groupSymbol is one character for a group.
func groupSymbol(id uint64) rune {
	const signs = "0123456789abcdefghijklmnopqrstuvwxyz"
	if id < uint64(len(signs)) {
		return rune(signs[id])
	}
	return '*'
}

// renderStrip draws which group has what of a keyspace, its shards in the order of their keys.
func renderStrip(shards []api.Shard) string {
	last := shards[len(shards)-1].LastSlot
	var b strings.Builder
	if last == nil { // a range keyspace
		for i, s := range shards {
			if i == stripCells {
				b.WriteString("…")
				break
			}
			b.WriteRune(groupSymbol(s.Group))
		}
		return b.String()
	}
	for cell, at := 0, 0; cell < stripCells; cell++ {
		slot := cell * (*last + 1) / stripCells
		for at < len(shards)-1 && shards[at].LastSlot != nil && *shards[at].LastSlot < slot {
			at++
		}
		b.WriteRune(groupSymbol(shards[at].Group))
	}
	return b.String()
}

func newExplainCommand() *cobra.Command {
	cmd := newNounCommand("explain", "Say where a key, a slot or a shard is, and why")
	shard := newShardExplainCommand()
	shard.Use = "shard SHARD"
	cmd.AddCommand(newExplainKeyCommand(), newExplainSlotCommand(), shard)
	return cmd
}

func newExplainKeyCommand() *cobra.Command {
	var keyspace string
	return showCommand[api.Explanation]{
		use: "key KEY", short: "Say where a key is, and why", args: exactArgs("KEY"),
		example: "  cleave explain key user:42\n  cleave explain key '{cart}:7' --keyspace shop",
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			k, err := api.ParseKey(args[0])
			if err != nil {
				return e, usageError{fmt.Errorf("key %q: %w", args[0], err)}
			}
			return c.ExplainKey(ctx, keyspace, k)
		},
		text: formatExplanation,
	}.toCobra(withKeyspaceFlag(&keyspace, "keyspace of the key (default the usual one)"))
}

func newExplainSlotCommand() *cobra.Command {
	var keyspace string
	return showCommand[api.Explanation]{
		use: "slot N", short: "Say where a slot of a hash keyspace is", args: exactArgs("N"),
		get: func(ctx context.Context, c *api.Client, args []string) (e api.Explanation, err error) {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 0 {
				return e, usageError{fmt.Errorf("slot %q: want a number from 0 on", args[0])}
			}
			return c.ExplainSlot(ctx, keyspace, n)
		},
		text: formatExplanation,
	}.toCobra(withKeyspaceFlag(&keyspace, "keyspace of the slot (default the usual one)"))
}

// withKeyspaceFlag gives a command --keyspace.
func withKeyspaceFlag(keyspace *string, help string) func(*cobra.Command) {
	return func(cmd *cobra.Command) {
		cmd.Flags().StringVar(keyspace, "keyspace", "", help)
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"keyspace": completeKeyspaces})
	}
}

// formatExplanation shows where something is, from the key down to the store, on a screen of so many columns.
func formatExplanation(e api.Explanation, width int) string {
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
	writeKeyFacts(&e, line)
	s := e.Shard
	line("shard", "%d: %s, %s, %s (~%.0f %% of all)", s.ID, formatShardKeys(s), formatEstimate(output.Plural(output.Rough(s.Rows), "row")), formatEstimate(output.Bytes(s.Bytes)), 100*s.Share)
	line("group", "%d", s.Group)
	line("store", "%d", s.Store)
	if e.Class != "" {
		line("class", "%s", e.Class)
	}
	if s.Job != "" {
		line("job", "%s is at work on it: cleave job watch %s", s.Job, s.Job)
	}
	why := e.Why
	if len(why) == 0 {
		why = s.Why
	}
	for _, w := range why {
		b.WriteString(output.WrapTo(w, width) + "\n")
	}
	for i := range e.Decisions {
		d := &e.Decisions[i]
		b.WriteString(output.WrapTo(fmt.Sprintf("%s, %s: %s", d.Last.Local().Format(time.DateTime), d.Outcome, formatDecision(d)), width) + "\n")
	}
	return b.String()
}

// writeKeyFacts prints what a key holds, and what is asked of it.
func writeKeyFacts(e *api.Explanation, line func(name, format string, args ...any)) {
	if len(e.Parts) > 0 {
		line("parts", "%s", strings.Join(e.Parts, " | "))
	}
	switch {
	case e.Bytes != nil:
		line("holds", "a %s of %s", e.Type, output.Plural(*e.Bytes, "byte"))
	case e.Fields != nil:
		line("holds", "a %s of %s", e.Type, output.Plural(*e.Fields, "field"))
	}
	if e.ExpiresSeconds != nil {
		line("expires", "in %s", output.Seconds(*e.ExpiresSeconds))
	}
	if e.Key != nil && e.Heat == nil {
		line("heat", "it is not among the keys that are asked for most")
	}
	if h := e.Heat; h != nil {
		line("heat", "%s operations a second ± %s, %s of all, %s of its shard; %s by %s", output.Rate(h.PerSecond), output.Rate((h.Error+2*h.Deviation)*h.PerSecond/h.Count),
			formatPercent(h.ShareOfAll), formatPercent(h.ShareOfShard), formatNames(h.Commands), formatNames(h.Clients))
	}
}
