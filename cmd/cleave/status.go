package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

func newStatusCommand() *cobra.Command {
	var ready bool
	cmd := showCommand[api.Status]{
		use: "status", short: "Say how the server is, and what to do",
		long: `Say how the server is, and what to do.

The verdict comes first, then each finding with the command that fixes it. Exit 3
means that the server is unhealthy, 4 that it does not answer.`,
		example: "  cleave status\n  cleave status --watch\n  cleave status --ready       for health checks",
		get:     func(ctx context.Context, c *api.Client, _ []string) (api.Status, error) { return c.Status(ctx) },
		text:    formatStatus,
		paint:   paintStatus,
		check: func(s api.Status) error {
			if s.Verdict == api.Unhealthy {
				return silentExit{exitUnhealthy}
			}
			return nil
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().BoolVar(&ready, "ready", false, "only ask whether it takes requests: exit 0 if so, else 3")
	})
	all := cmd.RunE
	only := newReadyRun(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ready {
			return only(cmd, args)
		}
		return all(cmd, args)
	}
	return cmd
}

// newReadyRun asks whether the server takes requests, with the flags of a command that has
// those of a remote one.
func newReadyRun(from *cobra.Command) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		r, err := parseRemote(from)
		if err != nil {
			return err
		}
		return r.runWithClient(cmd, func(ctx context.Context, c *api.Client) error {
			is, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			if err := output.WriteOne(cmd.OutOrStdout(), r.format, is, formatReadiness); err != nil {
				return err
			}
			if !is.Ready {
				return silentExit{exitUnhealthy}
			}
			return nil
		})
	}
}

func formatReadiness(r api.Ready) string {
	var b strings.Builder
	if b.WriteString("ready\n"); !r.Ready {
		b.Reset()
		b.WriteString("not ready\n")
	}
	for _, c := range r.Checks {
		if !c.OK {
			fmt.Fprintf(&b, "  %s: %s\n", c.Name, c.Detail)
		}
	}
	return b.String()
}

// What of a list fits on the screen of 25 lines.
const (
	maxStatusFindings = 4
	maxStatusJobs     = 3
	maxStatusEvents   = 3
)

// formatStatus is at most 25 lines: an operator called at night reads the first ones.
// On a screen of so many columns none is broken.
func formatStatus(s api.Status, width int) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		b.WriteString(output.Clip(output.EscapeUnprintable(fmt.Sprintf("%-9s %s", name, fmt.Sprintf(format, args...))), width) + "\n")
	}
	verdict := strings.ToUpper(s.Verdict)
	if s.Verdict == api.Healthy {
		verdict = s.Verdict
	}
	fmt.Fprintf(&b, "%s\n", formatVerdict(verdict, len(s.Findings)))
	lines := 2
	if len(s.Findings) >= maxStatusFindings {
		lines = 1
	}
	for i, f := range s.Findings {
		if i == maxStatusFindings {
			fmt.Fprintf(&b, "  … and %d more: cleave status -o json\n", len(s.Findings)-i)
			break
		}
		b.WriteString(formatFinding(&f, width, lines))
	}
	line("tolerates", "%s; storage %s, appendfsync %s", output.Plural(s.FailuresTolerated, "lost machine"), s.Storage, s.Durability)
	line("server", "%s, up %s, %s of %s, %s", s.Version, output.Seconds(s.UptimeSeconds), output.Count(s.Clients), output.Plural(s.MaxClients, "client"), output.Plural(s.Commands, "command"))
	line("data", "%s in %s of %s", formatEstimate(output.Bytes(s.Bytes)), formatEstimate(output.Plural(output.Rough(s.Rows), "row")), output.Plural(s.Keyspaces, "keyspace"))
	line("map", "version %d, %s in %s on %s", s.MapVersion, output.Plural(s.Shards, "shard"), output.Plural(s.Groups, "group"), output.Plural(len(s.Stores), "store"))
	for _, h := range []*api.Hottest{s.Hottest, s.Fullest} {
		if h == nil {
			continue
		}
		line(formatHottestLabel(h.By), "shard %d has %.1f times the mean by %s: cleave shard explain %d", h.Shard, h.Ratio, h.By, h.Shard)
	}
	writeStatusWork(&s, line)
	return b.String()
}

// formatVerdict is the verdict with how many findings there are.
func formatVerdict(verdict string, findings int) string {
	switch {
	case findings == 0:
		return verdict + ": nothing to do"
	case verdict == api.Healthy:
		return verdict + ", " + output.Plural(findings, "finding")
	}
	return verdict + ": " + output.Plural(findings, "finding")
}

// formatFinding is a finding in so many lines at most, and one with the command that helps.
func formatFinding(f *api.Finding, width, lines int) string {
	const indent = "  "
	all := strings.Split(output.WrapTo(output.EscapeUnprintable(f.Severity+": "+f.Message), cmp.Or(width, output.MaxWidth)-len(indent)), "\n")
	if len(all) > lines {
		for i := range all[lines:] {
			all[lines+i] = strings.TrimSpace(all[lines+i])
		}
		all = append(all[:lines-1], output.Clip(strings.Join(all[lines-1:], " "), cmp.Or(width, output.MaxWidth)-len(indent)))
	}
	text := indent + strings.Join(all, "\n"+indent) + "\n"
	switch {
	case f.Fix == "":
		return text
	case f.Severity == api.Notice:
		return text + output.Clip("    see: "+f.Fix, width) + "\n"
	}
	return text + output.Clip("    fix: "+f.Fix, width) + "\n"
}

// formatHottestLabel is the word for a shard that has most: what has many bytes need not be hot.
func formatHottestLabel(measure string) string {
	if measure == "bytes" {
		return "fullest"
	}
	return "hottest"
}

// paintStatus makes the verdict green, yellow or red.
func paintStatus(s api.Status, text string) string {
	colour := map[string]string{api.Healthy: "32", api.Degraded: "33", api.Unhealthy: "31"}[s.Verdict]
	end := max(0, strings.IndexAny(text, ":,"))
	return "\x1b[" + colour + "m" + text[:end] + "\x1b[0m" + text[end:]
}

// writeStatusWork prints jobs and events, each with the command that shows more.
func writeStatusWork(s *api.Status, line func(name, format string, args ...any)) {
	if len(s.Jobs) == 0 {
		line("jobs", "none under way")
	}
	for i, j := range s.Jobs {
		if i == maxStatusJobs {
			line("", "… and %d more: cleave job list", len(s.Jobs)-i)
			break
		}
		line("job", "%s %s %s %.0f %%: cleave job watch %s", j.ID, j.Kind, j.State, 100*j.Progress, j.ID)
	}
	for i, e := range s.Events {
		if i == maxStatusEvents {
			break
		}
		more := ""
		if e.Command != "" {
			more = ": " + e.Command
		}
		line("event", "%s %s%s", e.Time.Local().Format(time.TimeOnly), e.Message, more)
	}
}

func newAuditCommand() *cobra.Command {
	return listCommand[api.Audit]{
		use: "audit", short: "Show who has changed what, the newest first",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Audit, string, error) {
			rows, err := c.Audit(ctx)
			return rows, "", err
		},
		columns: auditColumns, emptyText: "nothing was changed yet",
	}.toCobra(nil)
}

var auditColumns = []output.Column[api.Audit]{
	{Head: "time", Cell: func(a api.Audit) string { return a.Time.Local().Format(timeLayout) }},
	{Head: "who", Cell: func(a api.Audit) string {
		if a.Claims != "" {
			return a.Who + " (" + a.Claims + ")"
		}
		return a.Who
	}, CutPriority: 1},
	{Head: "action", Cell: func(a api.Audit) string { return a.Action }, CutPriority: 2},
	{Head: "what", Cell: func(a api.Audit) string { return a.What }, CutPriority: 3},
	{Head: "outcome", Cell: func(a api.Audit) string {
		if a.Job != "" {
			return a.Outcome + ", job " + a.Job
		}
		return a.Outcome
	}},
	{Head: "detail", Cell: func(a api.Audit) string { return a.Detail }, CutPriority: 4},
}

func newSlowlogCommand() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "slowlog", Short: "Show requests of Redis clients that took long, the newest first",
		Example: "  cleave slowlog\n  cleave slowlog --by shard     which shards they were on",
	}
	return initShowCommand(cmd, func(cmd *cobra.Command) {
		cmd.Flags().StringVar(&by, "by", "", "shard adds them up by shard")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"by": cobra.FixedCompletions([]string{"shard"}, cobra.ShellCompDirectiveNoFileComp)})
	}, func(ctx context.Context, c *api.Client, w watchFlag, f output.Format, _ []string) error {
		if by != "" && by != "shard" {
			return usageError{fmt.Errorf("--by %s: want shard", by)}
		}
		out := cmd.OutOrStdout()
		return w.runRepeatedly(ctx, out, func() error {
			rows, err := c.Slowlog(ctx)
			switch {
			case err != nil:
				return err
			case f == output.Table && len(rows) == 0:
				_, err := fmt.Fprintln(out, "no request took long")
				return err
			case by == "shard":
				return output.WriteRows(out, f, terminal.Width(out), sumSlowByShard(rows), slowShardColumns)
			}
			return output.WriteRows(out, f, terminal.Width(out), rows, slowColumns)
		})
	})
}

// slowShard is the slow requests of one shard, or of several shards together if it is 0.
type slowShard struct {
	Shard    uint64 `json:"shard"`
	Group    uint64 `json:"group"`
	Requests int    `json:"requests"`
	// Seconds is the time of all, and MaxSeconds that of the slowest.
	Seconds    float64 `json:"seconds"`
	MaxSeconds float64 `json:"max_seconds"`
	// Slowest is the slowest request, and Last when the newest was.
	Slowest api.Slow  `json:"slowest"`
	Last    time.Time `json:"last"`
}

// sumSlowByShard adds up slow requests by shard, that with the most time first.
func sumSlowByShard(rows []api.Slow) []slowShard {
	byShard := map[uint64]*slowShard{}
	for _, r := range rows {
		s := byShard[r.Shard]
		if s == nil {
			s = &slowShard{Shard: r.Shard, Group: r.Group}
			byShard[r.Shard] = s
		}
		s.Requests++
		s.Seconds += r.Seconds
		if r.Seconds > s.MaxSeconds {
			s.MaxSeconds, s.Slowest = r.Seconds, r
		}
		if r.Time.After(s.Last) {
			s.Last = r.Time
		}
	}
	all := []slowShard{}
	for _, s := range byShard {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b slowShard) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Shard, b.Shard))
	})
	return all
}

var slowShardColumns = []output.Column[slowShard]{
	{Head: "shard", Right: true, Cell: func(s slowShard) string {
		if s.Shard == 0 {
			return "several"
		}
		return fmt.Sprint(s.Shard)
	}},
	{Head: "group", Right: true, Cell: func(s slowShard) string { return formatIDOrDash(s.Group) }},
	{Head: "requests", Right: true, Cell: func(s slowShard) string { return output.Count(s.Requests) }},
	{Head: "together", Right: true, Cell: func(s slowShard) string { return output.Seconds(s.Seconds) }},
	{Head: "slowest", Right: true, Cell: func(s slowShard) string { return output.Seconds(s.MaxSeconds) }},
	{Head: "command", Cell: func(s slowShard) string { return s.Slowest.Command }},
	{Head: "keys", Cell: func(s slowShard) string { return formatKeys(s.Slowest.Keys) }, CutPriority: 1},
	{Head: "last", Cell: func(s slowShard) string { return s.Last.Local().Format(timeLayout) }},
}

func formatKeys(keys []api.Key) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.String())
	}
	return strings.Join(texts, " ")
}

var slowColumns = []output.Column[api.Slow]{
	{Head: "time", Cell: func(s api.Slow) string { return s.Time.Local().Format(timeLayout) }},
	{Head: "took", Right: true, Cell: func(s api.Slow) string { return output.Seconds(s.Seconds) }},
	{Head: "command", Cell: func(s api.Slow) string { return s.Command }},
	{Head: "keys", Cell: func(s api.Slow) string { return formatKeys(s.Keys) }, CutPriority: 2},
	{Head: "shard", Right: true, Cell: func(s api.Slow) string { return formatIDOrDash(s.Shard) }},
	{Head: "group", Right: true, Cell: func(s api.Slow) string { return formatIDOrDash(s.Group) }},
	{Head: "client", Cell: func(s api.Slow) string { return strings.TrimSpace(s.Client + " " + s.Name) }, CutPriority: 1},
}

func newClientCommand() *cobra.Command {
	cmd := newNounCommand("client", "List the connections of Redis clients")
	cmd.AddCommand(listCommand[api.Connection]{
		use: "list", short: "List the connections of Redis clients",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Connection, string, error) {
			rows, err := c.Clients(ctx)
			return rows, "", err
		},
		columns: clientColumns, emptyText: "no clients",
	}.toCobra(nil))
	return cmd
}

var clientColumns = []output.Column[api.Connection]{
	{Head: "id", Right: true, Cell: func(c api.Connection) string { return fmt.Sprint(c.ID) }},
	{Head: "addr", Cell: func(c api.Connection) string { return c.Addr }},
	{Head: "name", Cell: func(c api.Connection) string { return formatOrDash(c.Name) }, CutPriority: 1},
	{Head: "user", Cell: func(c api.Connection) string { return c.User }},
	{Head: "keyspace", Cell: func(c api.Connection) string { return c.Keyspace }},
	{Head: "library", Cell: func(c api.Connection) string {
		return formatOrDash(strings.TrimSpace(c.Library + " " + c.LibraryVersion))
	}, CutPriority: 2},
	{Head: "age", Right: true, Cell: func(c api.Connection) string { return output.Seconds(c.AgeSeconds) }},
	{Head: "idle", Right: true, Cell: func(c api.Connection) string { return output.Seconds(c.IdleSeconds) }},
	{Head: "last", Cell: func(c api.Connection) string { return formatOrDash(c.Command) }},
}
