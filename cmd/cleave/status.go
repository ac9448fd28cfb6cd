package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func statusCommand() *cobra.Command {
	var ready bool
	cmd := showing[api.Status]{
		use: "status", short: "Say how the server is, and what to do",
		long: `Say how the server is, and what to do.

The verdict comes first, then each finding with the command that fixes it. Exit 3
means that the server is unhealthy, 4 that it does not answer.`,
		example: "  cleave status\n  cleave status --watch\n  cleave status --ready       for health checks",
		get:     func(ctx context.Context, c *api.Client, _ []string) (api.Status, error) { return c.Status(ctx) },
		text:    statusText,
		paint:   paintStatus,
		verdict: func(s api.Status) error {
			if s.Verdict == api.Unhealthy {
				return silent{exitUnhealthy}
			}
			return nil
		},
	}.command(func(cmd *cobra.Command) {
		cmd.Flags().BoolVar(&ready, "ready", false, "only ask whether it takes requests: exit 0 if so, else 3")
	})
	all := cmd.RunE
	only := readyRun(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ready {
			return only(cmd, args)
		}
		return all(cmd, args)
	}
	return cmd
}

// readyRun asks whether the server takes requests, with the flags of a command that has
// those of a remote one.
func readyRun(from *cobra.Command) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		r, err := remoteOf(from)
		if err != nil {
			return err
		}
		return r.talk(cmd, func(ctx context.Context, c *api.Client) error {
			is, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			if err := output.One(cmd.OutOrStdout(), r.format, is, readyText); err != nil {
				return err
			}
			if !is.Ready {
				return silent{exitUnhealthy}
			}
			return nil
		})
	}
}

func readyText(r api.Ready) string {
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
	statusFindings = 4
	statusJobs     = 3
	statusEvents   = 3
)

// statusText is at most 25 lines: who is called at night reads the first ones.
func statusText(s api.Status) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, clip(fmt.Sprintf(format, args...), output.Width-10))
	}
	verdict := strings.ToUpper(s.Verdict)
	if s.Verdict == api.Healthy {
		verdict = s.Verdict
	}
	what := "nothing to do"
	if n := len(s.Findings); n > 0 {
		what = output.Counted(n, "finding")
	}
	fmt.Fprintf(&b, "%s: %s\n", verdict, what)
	for i, f := range s.Findings {
		if i == statusFindings {
			fmt.Fprintf(&b, "  … and %d more: cleave status -o json\n", len(s.Findings)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", clip(f.Severity+": "+f.Message, output.Width-2))
		if f.Fix != "" {
			fmt.Fprintf(&b, "    fix: %s\n", f.Fix)
		}
	}
	line("tolerates", "%s; storage %s, appendfsync %s", output.Counted(s.FailuresTolerated, "lost machine"), s.Storage, s.Durability)
	line("server", "%s, up %s, %s of %s, %s", s.Version, output.Seconds(s.UptimeSeconds), output.Count(s.Clients), output.Counted(s.MaxClients, "client"), output.Counted(s.Commands, "command"))
	line("data", "%s in %s of %s", output.Bytes(s.Bytes), output.Counted(s.Rows, "row"), output.Counted(s.Keyspaces, "keyspace"))
	line("map", "version %d, %s in %s on %s", s.MapVersion, output.Counted(s.Shards, "shard"), output.Counted(s.Groups, "group"), output.Counted(len(s.Stores), "store"))
	if h := s.Hottest; h != nil {
		line(mostBy(h.By), "shard %d has %.1f times the mean by %s: cleave shard explain %d", h.Shard, h.Ratio, h.By, h.Shard)
	}
	statusWork(&s, line)
	return b.String()
}

// mostBy is the word for a shard that has most: what has many bytes need not be hot.
func mostBy(measure string) string {
	if measure == "bytes" {
		return "fullest"
	}
	return "hottest"
}

// paintStatus makes the verdict green, yellow or red.
func paintStatus(s api.Status, text string) string {
	colour := map[string]string{api.Healthy: "32", api.Degraded: "33", api.Unhealthy: "31"}[s.Verdict]
	verdict, rest, _ := strings.Cut(text, ":")
	return "\x1b[" + colour + "m" + verdict + "\x1b[0m:" + rest
}

// statusWork tells of jobs and events, each with the command that shows more.
func statusWork(s *api.Status, line func(name, format string, args ...any)) {
	if len(s.Jobs) == 0 {
		line("jobs", "none under way")
	}
	for i, j := range s.Jobs {
		if i == statusJobs {
			line("", "… and %d more: cleave job list", len(s.Jobs)-i)
			break
		}
		line("job", "%s %s %s %.0f %%: cleave job watch %s", j.ID, j.Kind, j.State, 100*j.Progress, j.ID)
	}
	for i, e := range s.Events {
		if i == statusEvents {
			break
		}
		more := ""
		if e.Command != "" {
			more = ": " + e.Command
		}
		line("event", "%s %s%s", e.Time.Local().Format(time.TimeOnly), e.Message, more)
	}
}

// clip cuts a text that would run over the screen.
func clip(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
