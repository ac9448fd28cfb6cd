package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

// topReport is what cleave top shows at one moment.
type topReport struct {
	Time     time.Time     `json:"time"`
	Verdict  string        `json:"verdict"`
	Findings []api.Finding `json:"findings"`
	Groups   []api.Group   `json:"groups"`
	// Shards are those that are asked most, the hottest first.
	Shards []api.Shard  `json:"shards"`
	Keys   []api.HotKey `json:"keys"`
	// HeatOff reports whether the server does not look for hot keys.
	HeatOff bool `json:"heat_off,omitempty"`
}

const (
	// defaultTopLines is the screen of a terminal that does not report its size, and of --once.
	defaultTopLines = 40
	maxTopShards    = 8
	maxTopKeys      = 20
	// minTopKeys is how many keys are shown even if they are hardly hotter than others.
	minTopKeys = 3
)

func newTopCommand() *cobra.Command {
	var r remote
	var once bool
	every := 2 * time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch what a server does: groups, hottest shards, hottest keys",
		Long: `Watch what a server does: groups, hottest shards, hottest keys.

It is drawn anew all the time at a terminal, until q or Ctrl-C. --once, and a pipe,
get it once.`,
		Example: "  cleave top\n  cleave top --once -o json",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 100*time.Millisecond {
			return usageError{fmt.Errorf("--every %v: want at least 100ms", every)}
		}
		return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error {
			out, t := cmd.OutOrStdout(), terminal.New(cmd.InOrStdin(), cmd.OutOrStdout())
			if once || !t.OutputIsTerminal || r.format != output.Table {
				report, err := loadTopReport(ctx, c)
				if err != nil {
					return err
				}
				return output.WriteOne(out, r.format, report, func(p topReport) string { return formatTop(p, terminal.Width(out), defaultTopLines) })
			}
			keys, restore := t.ReadKeys(cmd.InOrStdin())
			defer restore()
			// The other screen of the terminal, without a cursor: what was there before is there again afterwards.
			fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
			defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
			for {
				report, err := loadTopReport(ctx, c)
				if err != nil {
					return err
				}
				text := formatTop(report, terminal.Width(out), cmp.Or(terminal.Height(out), defaultTopLines)-1)
				fmt.Fprint(out, "\x1b[H\x1b[2J"+strings.ReplaceAll(paintVerdict(report.Verdict, text), "\n", "\r\n"))
				if waitForQuit(ctx, keys, every) {
					return nil
				}
			}
		})
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&once, "once", false, "show it once")
	cmd.Flags().DurationVar(&every, "every", every, "how often it is drawn")
	r.addFlags(cmd)
	return cmd
}

// waitForQuit waits for so long, and reports whether the command is to end: after q, Ctrl-C or Ctrl-D, which are bytes
// while the terminal is read key by key.
func waitForQuit(ctx context.Context, keys <-chan byte, d time.Duration) bool {
	next := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return true
		case <-next:
			return false
		case k := <-keys:
			if k == 'q' || k == 'Q' || k == 3 || k == 4 {
				return true
			}
		}
	}
}

// loadTopReport asks a server for all of it.
func loadTopReport(ctx context.Context, c *api.Client) (p topReport, err error) {
	s, err := c.Status(ctx)
	if err != nil {
		return p, err
	}
	m, err := c.Map(ctx)
	if err != nil {
		return p, err
	}
	p = topReport{Time: time.Now().UTC(), Verdict: s.Verdict, Findings: s.Findings, Groups: m.Groups}
	p.Shards = slices.DeleteFunc(m.Shards, func(s api.Shard) bool { return s.Keyspace == "" || s.Load.OpsPerSecond() < 0.5 })
	slices.SortStableFunc(p.Shards, func(a, b api.Shard) int { return cmp.Compare(b.Load.OpsPerSecond(), a.Load.OpsPerSecond()) })
	p.Shards = p.Shards[:min(maxTopShards, len(p.Shards))]
	h, err := c.HotKeys(ctx, api.HotKeyFilter{N: maxTopKeys})
	if errors.Is(err, &api.Error{Code: api.CodeRefused}) {
		p.HeatOff, err = true, nil
	}
	p.Keys = h.Keys
	return p, err
}

// formatTop shows a report on a screen of so many columns and lines.
func formatTop(p topReport, width, lines int) string {
	var b strings.Builder
	total := 0.0
	for _, g := range p.Groups {
		total += g.Load.OpsPerSecond()
	}
	fmt.Fprintf(&b, "%s\n", output.Clip(fmt.Sprintf("%s · %s operations/s · %s", formatVerdict(p.Verdict, len(p.Findings)), output.Rate(total), p.Time.Local().Format(time.TimeOnly)), width))
	if len(p.Findings) > 0 {
		b.WriteString(formatFinding(&p.Findings[0], width, 2))
	}
	b.WriteString("\n")
	groups := slices.Clone(groupLoadColumns)
	groups[len(groups)-1].Bar = func(g api.Group) float64 { return g.Load.OpsPerSecond() / max(total, 1) }
	b.WriteString(output.RenderTable(width, p.Groups, groups))
	b.WriteString("\n")
	if len(p.Shards) == 0 {
		b.WriteString("no shard is asked for anything\n")
	} else {
		b.WriteString(output.RenderTable(width, p.Shards, shardLoadColumns))
	}
	b.WriteString("\n")
	used := strings.Count(b.String(), "\n")
	switch room := max(3, lines-used-1); {
	case p.HeatOff:
		b.WriteString("heat is off: the server does not look for hot keys\n")
	case len(p.Keys) == 0:
		b.WriteString("no key was asked for lately\n")
	default:
		b.WriteString(output.RenderTable(width, p.Keys[:min(room, len(p.Keys), max(minTopKeys, countCertain(p.Keys)))], hotKeyColumns))
	}
	return b.String()
}

// countCertain is how many keys are hot for certain: of the others the count is hardly more than its error.
func countCertain(keys []api.HotKey) int {
	i := slices.IndexFunc(keys, func(k api.HotKey) bool { return k.Error+2*k.Deviation > k.Count/2 })
	if i < 0 {
		return len(keys)
	}
	return i
}

// paintVerdict makes the first word of a text green, yellow or red.
func paintVerdict(verdict, text string) string {
	return paintStatus(api.Status{Verdict: verdict}, text)
}

var groupLoadColumns = []output.Column[api.Group]{
	{Head: "group", Right: true, Cell: func(g api.Group) string { return fmt.Sprint(g.ID) }},
	{Head: "shards", Right: true, Cell: func(g api.Group) string { return output.Count(g.Shards) }, DropPriority: 1},
	{Head: "reads/s", Right: true, Cell: func(g api.Group) string { return output.Rate(g.Load.ReadsPerSecond) }},
	{Head: "writes/s", Right: true, Cell: func(g api.Group) string { return output.Rate(g.Load.WritesPerSecond) }},
	{Head: "waiting", Right: true, Cell: func(g api.Group) string { return output.Count(g.QueueDepth) }},
	{Head: "busy", Right: true, Cell: func(g api.Group) string { return formatBusy(g.Load.Busy) }},
	{Head: "load", Right: true, Cell: func(g api.Group) string { return output.Rate(g.Load.OpsPerSecond()) }},
}

var shardLoadColumns = []output.Column[api.Shard]{
	{Head: "shard", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.ID) }},
	{Head: "keyspace", Cell: func(s api.Shard) string { return formatOrDash(s.Keyspace) }, CutPriority: 1},
	{Head: "keys", Cell: formatShardKeys, CutPriority: 2},
	{Head: "group", Right: true, Cell: func(s api.Shard) string { return fmt.Sprint(s.Group) }},
	{Head: "ops/s", Right: true, Cell: func(s api.Shard) string { return output.Rate(s.Load.OpsPerSecond()) }},
	{Head: "writes/s", Right: true, Cell: func(s api.Shard) string { return output.Rate(s.Load.WritesPerSecond) }, DropPriority: 1},
	{Head: "p99", Right: true, Cell: func(s api.Shard) string { return formatSecondsOrDash(s.Load.ServiceP99Seconds) }},
	{Head: "busy", Right: true, Cell: func(s api.Shard) string { return formatBusy(s.Load.Busy) }},
}
