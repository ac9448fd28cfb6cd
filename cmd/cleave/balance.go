package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newPlanCommand() *cobra.Command {
	return showCommand[api.BalancePlan]{
		use: "plan", short: "Show what is hot, and what would be done about it",
		long: `Show what is hot, and what would be done about it now. Nothing is done.

A server splits, moves and merges shards by itself. After cleave knob set
relief=manual it does what the plan says only when cleave rebalance asks for it.`,
		example: "  cleave plan\n  cleave plan -o json",
		get:     func(ctx context.Context, c *api.Client, _ []string) (api.BalancePlan, error) { return c.Plan(ctx) },
		text:    formatBalancePlan,
	}.toCobra(nil)
}

// formatBalancePlan shows a plan on a screen of so many columns.
func formatBalancePlan(p api.BalancePlan, width int) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(output.WrapTo(fmt.Sprintf(format, args...), width) + "\n")
	}
	for _, g := range p.Groups {
		fmt.Fprintf(&b, "group %-4d takes %3.0f %% of a processor\n", g.Group, 100*g.Work)
	}
	if p.Imbalance > 0 {
		line("The busiest group has %.2f times the mean.", p.Imbalance)
	}
	if p.ExtraShards > 0 {
		line("Splits for this load may add about %s.", output.Plural(p.ExtraShards, "shard"))
	}
	for _, f := range p.Found {
		what := fmt.Sprintf("Shard %d", f.Shard)
		if f.Shard == 0 {
			what = "The machine"
		}
		line("%s is found to be %s: %s.", what, f.Class, f.Evidence)
		if f.Key != nil {
			line("  Key: %s", f.Key)
		}
		if f.Remedy != "" {
			line("  What an application can do: %s.", f.Remedy)
		}
		if f.Shard != 0 {
			line("  %s", formatThrottleState(&f, p.Decisions))
		}
		if a := f.Accepted; a != nil {
			line("  It is accepted as it is until %s: %s. Price: %s.", a.Until.Local().Format(timeLayout), a.Reason, a.Price)
		}
	}
	if len(p.Found) == 0 {
		line("No shard is hot.")
	}
	for i := range p.Decisions {
		line("%s", formatDecision(&p.Decisions[i]))
	}
	if p.Manual && len(p.Found) > 0 {
		line("Relief is manual: cleave rebalance does it.")
	}
	return b.String()
}

// formatThrottleState says whether the writers of a hot shard are held up, and why or why not.
func formatThrottleState(h *api.Hot, planned []api.Decision) string {
	changes := slices.ContainsFunc(planned, func(d api.Decision) bool { return d.Shard == h.Shard && d.Change != "keep" })
	switch t := h.Throttle; {
	case t != nil:
		return fmt.Sprintf("Its writers are held up at %s a second: %s. %s refused.", output.Rate(t.WritesPerSecond), t.Reason, output.Plural(t.Refused, "write"))
	case h.Accepted != nil:
		return "Its writers are not held up: it is accepted as it is."
	case changes:
		return "Its writers are not held up: a change relieves it."
	}
	return "Its writers are not held up: no others of its group wait for it, or that did not help them."
}

// formatDecision is a decision in a sentence.
func formatDecision(d *api.Decision) string {
	var b strings.Builder
	switch {
	case d.Change == "keep" && d.Shard != 0:
		fmt.Fprintf(&b, "Leave shard %d of group %d as it is", d.Shard, d.Group)
	case d.Change == "keep" && d.Group != 0:
		fmt.Fprintf(&b, "Leave group %d as it is", d.Group)
	case d.Change == "keep":
		b.WriteString("Leave all as it is")
	case d.Change == "throttle":
		fmt.Fprintf(&b, "Limit the writers of shard %d", d.Shard)
	case d.Change == "split":
		fmt.Fprintf(&b, "Split shard %d at %s", d.Shard, joinKeys(d.Cuts))
	case d.Change == "move":
		fmt.Fprintf(&b, "Move shard %d from group %d to group %d", d.Shard, d.Group, d.To)
	default:
		fmt.Fprintf(&b, "Merge shards %d and %d", d.Shard, d.With)
	}
	b.WriteString(": " + d.Reason)
	if d.Key != nil && d.Change == "keep" {
		fmt.Fprintf(&b, " (key %s)", d.Key)
	}
	switch {
	case d.WorkMeasured != nil && d.Change != "keep":
		fmt.Fprintf(&b, "; work %.0f %%, predicted %.0f %%, measured %.0f %%", 100*d.WorkBefore, 100*d.WorkPredicted, 100**d.WorkMeasured)
	case d.WorkBefore > 0 && d.Change == "move":
		fmt.Fprintf(&b, "; work of the group %.0f %%, predicted %.0f %%", 100*d.WorkBefore, 100*d.WorkPredicted)
	}
	if d.Error != "" {
		b.WriteString("; refused: " + d.Error)
	}
	return b.String() + "."
}

func joinKeys(keys []api.Key) string {
	var all []string
	for _, k := range keys {
		all = append(all, k.String())
	}
	return strings.Join(all, ", ")
}

func newRebalanceCommand() *cobra.Command {
	return actionCommand{
		use: "rebalance", short: "Do now what the plan says",
		long: `Do now what cleave plan says, without waiting for the next round.

After cleave knob set relief=manual this is how hot shards are relieved.`,
		example: "  cleave rebalance\n  cleave rebalance --yes --detach",
		send: func(ctx context.Context, c *api.Client, _ []string, dryRun bool) (api.Action, error) {
			return c.Post(ctx, api.PathRebalance, api.Rebalance{}, dryRun)
		},
	}.toCobra(nil)
}

func newDecisionCommand() *cobra.Command {
	cmd := newNounCommand("decision", "See what was decided about hot, large and cold shards")
	cmd.AddCommand(newDecisionListCommand())
	return cmd
}

func newDecisionListCommand() *cobra.Command {
	var f api.DecisionFilter
	var since string
	return listCommand[api.Decision]{
		use: "list", short: "List the decisions, the newest first",
		example: "  cleave decision list\n  cleave decision list --shard 7 -o json",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Decision, string, error) {
			var err error
			if f.Since, err = parseTimeFlag("--since", since, time.Now()); err != nil {
				return nil, "", usageError{err}
			}
			rows, err := c.Decisions(ctx, f)
			return rows, "", err
		},
		columns: decisionColumns, emptyText: "nothing was decided: no shard was hot, too large or cold",
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().Var(idFlag{"shard", &f.Shard}, "shard", "only those about a shard, or its group")
		cmd.Flags().StringVar(&f.Class, "class", "", "only those about what is of a class, such as 'hot key'")
		cmd.Flags().StringVar(&since, "since", "", "only those that were made since then: how long ago, such as 30m,\nor a `time` such as 14:30")
		cmd.Flags().IntVar(&f.N, "limit", 20, "how `many` at most")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{
			"shard": completeShards, "class": cobra.FixedCompletions([]string{"hot key", "hot range", "moving edge", "hot prefix", "cross-shard contention", "oversized", "cold", "saturated"}, cobra.ShellCompDirectiveNoFileComp),
		})
	})
}

var decisionColumns = []output.Column[api.Decision]{
	{Head: "first", Cell: func(d api.Decision) string { return d.Time.Local().Format(timeLayout) }, DropPriority: 1},
	{Head: "last", Cell: func(d api.Decision) string { return d.Last.Local().Format(timeLayout) }},
	{Head: "times", Right: true, Cell: func(d api.Decision) string { return output.Count(d.Times) }},
	{Head: "class", Cell: func(d api.Decision) string { return formatOrDash(d.Class) }, DropPriority: 2},
	{Head: "decision", Cell: func(d api.Decision) string { return formatDecision(&d) }, CutPriority: 1},
	{Head: "outcome", Cell: func(d api.Decision) string { return d.Outcome }},
	{Head: "job", Cell: func(d api.Decision) string { return formatOrDash(d.Job) }},
}

func newAcceptCommand() *cobra.Command {
	var request api.Accept
	var lasts time.Duration
	cmd := actionCommand{
		use: "accept SHARD (--ground G --price P --reason R --for TIME | --end)", short: "Leave a hot shard as it is, with a price, a reason and an end",
		long: `Leave a hot shard as it is, with a price, a reason and an end.

There are three grounds: brief-peaks, which are over before a change would pay;
change-costs-more than the heat does; and end-of-life, when the keys are replaced
soon. A shard of a keyspace that is marked critical is never accepted.`,
		example: "  cleave accept 7 --ground brief-peaks --price 'slow at noon' --reason 'an hour' --for 720h\n  cleave accept 7 --end",
		args:    exactArgs("SHARD"),
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			if request.Shard, err = parseNumberArg("shard", args[0]); err != nil {
				return a, err
			}
			request.Seconds = lasts.Seconds()
			return c.Post(ctx, api.PathAccept, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringVar(&request.Ground, "ground", "", "brief-peaks, change-costs-more or end-of-life")
		flags.StringVar(&request.Price, "price", "", "what it costs to leave it")
		flags.StringVar(&request.Reason, "reason", "", "why that is better")
		flags.DurationVar(&lasts, "for", 0, "for how `long`, such as 720h; at most 2160h")
		flags.BoolVar(&request.End, "end", false, "relieve it again")
		completeMissingFlags(cmd, map[string]cobra.CompletionFunc{"ground": cobra.FixedCompletions([]cobra.Completion{"brief-peaks", "change-costs-more", "end-of-life"}, cobra.ShellCompDirectiveNoFileComp)})
	})
	cmd.ValidArgsFunction = completeFirstArg(completeShards)
	return cmd
}

func newKeyspaceCriticalCommand() *cobra.Command {
	var off bool
	cmd := actionCommand{
		use: "critical NAME", short: "Mark a keyspace: heat on it is never accepted", harmless: true, args: exactArgs("NAME"),
		example: "  cleave keyspace critical payments\n  cleave keyspace critical payments --off",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			return c.Post(ctx, api.PathCritical, api.MarkCritical{Keyspace: args[0], Off: off}, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		cmd.Flags().BoolVar(&off, "off", false, "take the mark away")
		completeMissingFlags(cmd, nil)
	})
	cmd.ValidArgsFunction = completeFirstArg(completeKeyspaces)
	return cmd
}

func newKnobCommand() *cobra.Command {
	cmd := newNounCommand("knob", "See and change what the relief of hot shards is tuned by")
	cmd.AddCommand(newKnobListCommand(), newKnobSetCommand())
	return cmd
}

func newKnobListCommand() *cobra.Command {
	return listCommand[api.Knob]{
		use: "list", short: "List the knobs", example: "  cleave knob list",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Knob, string, error) {
			rows, err := c.Knobs(ctx)
			return rows, "", err
		},
		columns: []output.Column[api.Knob]{
			{Head: "knob", Cell: func(k api.Knob) string { return k.Name }},
			{Head: "value", Right: true, Cell: func(k api.Knob) string { return k.Value }},
			{Head: "default", Right: true, Cell: func(k api.Knob) string { return k.Default }},
			{Head: "meaning", Cell: func(k api.Knob) string { return k.Help }, CutPriority: 1},
		},
	}.toCobra(nil)
}

func newKnobSetCommand() *cobra.Command {
	return actionCommand{
		use: "set NAME=VALUE …", short: "Change knobs, all or none; they are kept", harmless: true,
		long: `Change knobs, all or none. They are kept over a restart. An empty value is the
default. What does not go together is refused: see cleave knob list.`,
		example: "  cleave knob set imbalance=1.5 max-jobs=1\n  cleave knob set imbalance=",
		args: func(_ *cobra.Command, args []string) error {
			_, err := parseAssignments("knob set", args)
			return err
		},
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			values, err := parseAssignments("knob set", args)
			if err != nil {
				return api.Action{}, err
			}
			return c.Post(ctx, api.PathSetKnobs, api.SetKnobs{Values: values}, dryRun)
		},
	}.toCobra(nil)
}

// parseAssignments reads NAME=VALUE.
func parseAssignments(command string, args []string) (map[string]string, error) {
	values := map[string]string{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("%q: want NAME=VALUE", a)}
		}
		values[name] = value
	}
	if len(values) == 0 {
		return nil, usageError{fmt.Errorf("%s wants NAME=VALUE", command)}
	}
	return values, nil
}
