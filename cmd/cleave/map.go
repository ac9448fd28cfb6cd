package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func mapCommand() *cobra.Command {
	return showing[api.Map]{
		use: "map", short: "Show which group has which keys",
		long: `Show which group has which keys.

For each keyspace a strip is drawn from its first slot or key to its last, with
the group that has each part: 1 to 9, then a to z, and * for those beyond. Of a hash
keyspace each place is as many slots as any other; of a range keyspace it is a
shard.`,
		get:  func(ctx context.Context, c *api.Client, _ []string) (api.Map, error) { return c.Map(ctx) },
		text: mapText,
	}.command(nil)
}

// stripCells is how wide the strip of a keyspace is.
const stripCells = 64

func mapText(m api.Map) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d: %s in %s\n\n", m.Version, output.Counted(len(m.Shards), "shard"), output.Counted(len(m.Groups), "group"))
	b.WriteString(output.Render(m.Groups, mapColumns(m)))
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
	width := 0
	for _, n := range names {
		width = max(width, len(n))
	}
	if len(names) > 0 {
		b.WriteString("\n")
	}
	for _, n := range names {
		fmt.Fprintf(&b, "%-*s  %s\n", width, n, strip(shards[n]))
	}
	if m.Truncated {
		b.WriteString("\nThere are more shards than are shown: cleave shard list\n")
	}
	return b.String()
}

// mapColumns are those of groups, with a bar for the part of all bytes that each has.
func mapColumns(m api.Map) []output.Column[api.Group] {
	var all uint64
	for _, g := range m.Groups {
		all += g.Bytes
	}
	share := func(g api.Group) float64 { return float64(g.Bytes) / float64(max(all, 1)) }
	return []output.Column[api.Group]{
		{Head: "group", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.ID) }},
		{Head: "drawn", Cell: func(g api.Group) string { return string(groupSign(g.ID)) }},
		{Head: "store", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.Store) }},
		{Head: "shards", Right: true, Cell: func(g api.Group) string { return output.Count(g.Shards) }},
		{Head: "rows", Right: true, Cell: func(g api.Group) string { return output.Count(g.Rows) }},
		{Head: "bytes", Right: true, Cell: func(g api.Group) string { return output.Bytes(g.Bytes) }, Bar: share},
	}
}

// groupSign is one character for a group.
func groupSign(id uint64) rune {
	const signs = "0123456789abcdefghijklmnopqrstuvwxyz"
	if id < uint64(len(signs)) {
		return rune(signs[id])
	}
	return '*'
}

// strip draws who has what of a keyspace, its shards in the order of their keys.
func strip(shards []api.Shard) string {
	last := shards[len(shards)-1].LastSlot
	var b strings.Builder
	if last == nil { // a range keyspace
		for i, s := range shards {
			if i == stripCells {
				b.WriteString("…")
				break
			}
			b.WriteRune(groupSign(s.Group))
		}
		return b.String()
	}
	for cell, at := 0, 0; cell < stripCells; cell++ {
		slot := cell * (*last + 1) / stripCells
		for at < len(shards)-1 && shards[at].LastSlot != nil && *shards[at].LastSlot < slot {
			at++
		}
		b.WriteRune(groupSign(shards[at].Group))
	}
	return b.String()
}
