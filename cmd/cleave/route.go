package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
	"github.com/cleavekv/cleave/route"
)

func newRouteCommand() *cobra.Command {
	var (
		format output.Format
		e      route.Experiment
	)
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Compare what each routing function moves when nodes come and go",
		Long: `Compare what each routing function moves when nodes come and go.

moved is the fraction of all keys that change their owner, and ± its standard
error, or "exact". excess is the part of it that no need demanded; below 0, new
nodes got less than their share. imbalance is the load of the most loaded node
over its share, before → after: 1 is even, and a sample makes any router look a
little worse than it is. can lose says which nodes a router can do without, and
weights whether its nodes may have some. Routers that cannot make the change are
left out, and it says why.`,
		Example: `  cleave route                            8 nodes and one more
  cleave route --nodes 8 --remove 1       a node in the middle fails
  cleave route --nodes 8 --multiply 2     twice the nodes
  cleave route --weights 1,1,2 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := cmd.Flags()
			if err := checkRouteFlags(flags, e); err != nil {
				return usageError{err}
			}
			if !flags.Changed("nodes") && len(e.Weights) > 0 {
				e.Nodes = len(e.Weights)
			}
			if !flags.Changed("add") && (flags.Changed("remove") || flags.Changed("multiply")) {
				e.Add = 0
			}
			comparisons, err := e.Run()
			if errors.Is(err, route.ErrExperiment) || errors.Is(err, route.ErrUnknownKind) {
				return usageError{toExperimentError(err)}
			}
			if err != nil {
				return err
			}
			return writeRoutes(cmd.OutOrStdout(), cmd.ErrOrStderr(), format, e, comparisons)
		},
	}
	addRouteFlags(cmd, &e, &format)
	return cmd
}

// addRouteFlags defines the flags in the order in which they are best read.
func addRouteFlags(cmd *cobra.Command, e *route.Experiment, format *output.Format) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&e.Nodes, "nodes", 8, "how many nodes there are at first")
	flags.IntVar(&e.Add, "add", 1, "how many nodes join (default 1, and 0 with --remove or --multiply)")
	flags.IntVar(&e.Remove, "remove", 0, "how many nodes leave, from the middle of the list on")
	flags.BoolVar(&e.RemoveLast, "last", false, "with --remove: take nodes from the end of the list")
	flags.IntVar(&e.Multiply, "multiply", 1, "`factor` by which the number of nodes then grows")
	flags.Float64SliceVar(&e.Weights, "weights", nil, "one weight for each node at first, such as `1,1,2`;\nsets --nodes; nodes that join weigh 1")
	flags.StringSliceVar(&e.Kinds, "kind", nil, "routing functions to compare, such as `ring,jump` (default all)")
	flags.IntVar(&e.Keys, "keys", 0, fmt.Sprintf("how many keys to route\n(default exact without keys where possible, else %d)", route.DefaultSample))
	flags.VarP(format, "output", "o", "form of the output")
	// The text of --add says its default, and pflag would show no weights as [].
	flags.Lookup("add").DefValue = "0"
	flags.Lookup("weights").DefValue = ""
	completeFlags(cmd, map[string]cobra.CompletionFunc{"kind": completeKinds, "output": completeOutput})
}

// checkRouteFlags finds what the values of the flags alone do not show.
func checkRouteFlags(flags *pflag.FlagSet, e route.Experiment) error {
	switch {
	case flags.Changed("kind") && len(e.Kinds) == 0:
		return errors.New("--kind names no routing function: leave it out to compare all")
	case flags.Changed("multiply") && e.Multiply < 1:
		return fmt.Errorf("--multiply %d: want at least 1", e.Multiply)
	case e.RemoveLast && e.Remove == 0:
		return errors.New("--last says which nodes leave: say how many with --remove")
	}
	return nil
}

// toExperimentError names what is wrong with the experiment as the command line
// has it: without the names of the package and of its errors.
func toExperimentError(err error) error {
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line == route.ErrExperiment.Error() {
			continue // the next line says why
		}
		line = strings.TrimPrefix(line, route.ErrExperiment.Error()+": ")
		if kind, ok := strings.CutPrefix(line, route.ErrUnknownKind.Error()+": "); ok {
			line = "--kind " + kind
		}
		errs = append(errs, errors.New(strings.TrimPrefix(line, "route: ")))
	}
	return errors.Join(errs...)
}

// writeRoutes writes the comparisons. A router that cannot make the change has
// no figures: the table says why below, and the JSON forms, whose rows all have
// them, leave it out and say why on stderr. If none can, the command failed.
func writeRoutes(stdout, stderr io.Writer, format output.Format, e route.Experiment, comparisons []route.Comparison) error {
	var rows []routeRow
	for _, c := range comparisons {
		if c.Err == nil {
			rows = append(rows, newRouteRow(e, c))
		}
	}
	reasons := listRouteReasons(comparisons)
	if len(rows) == 0 {
		return fmt.Errorf("none of the routing functions can make this change:\n%s", strings.Join(reasons, "\n"))
	}
	if format != output.Table {
		if err := output.WriteRows(stdout, format, terminal.Width(stdout), rows, nil); err != nil {
			return err
		}
		for _, reason := range reasons {
			fmt.Fprintf(stderr, "cleave: left out %s\n", reason)
		}
		return nil
	}
	if _, err := fmt.Fprintf(stdout, "%s\n\n", output.Wrap(formatRouteTitle(e))); err != nil {
		return err
	}
	if err := output.WriteRows(stdout, format, terminal.Width(stdout), rows, newRouteColumns()); err != nil {
		return err
	}
	return writeRouteNotes(stdout, rows, reasons)
}

// formatRouteTitle returns what is compared: "8 nodes, then 1 joins:".
func formatRouteTitle(e route.Experiment) string {
	// More weights than these are no longer taken in, only counted.
	const shown = 8
	title := output.Plural(e.Nodes, "node")
	if n := len(e.Weights); n > shown {
		title += " with weights"
	} else if n > 0 {
		title += " of " + formatPlural(n, "weight ", "weights ") + strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Weights), " ", ", "), "[]")
	}
	var steps []string
	if e.Remove > 0 {
		step := formatPlural(e.Remove, "1 leaves", "%d leave")
		if e.RemoveLast {
			step += " from the end of the list"
		}
		steps = append(steps, step)
	}
	if e.Add > 0 {
		steps = append(steps, formatPlural(e.Add, "1 joins", "%d join"))
	}
	if e.Multiply > 1 {
		after := e.NodesAfter()
		steps = append(steps, formatPlural(after/e.Multiply, "1 grows", "%d grow")+fmt.Sprintf(" to %d", after))
	}
	if len(steps) == 0 {
		return title + ", and nothing changes:"
	}
	return title + ", then " + strings.Join(steps, ", then ") + ":"
}

// formatPlural returns one for 1, else many with its %d, if any, filled in.
func formatPlural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return strings.Replace(many, "%d", fmt.Sprint(n), 1)
}

// listRouteReasons returns why routers cannot make the change, those that share a
// reason on one line: "mask, jump: this router has no weights".
func listRouteReasons(comparisons []route.Comparison) []string {
	var reasons []string
	names := make(map[string][]string)
	for _, c := range comparisons {
		if c.Err == nil {
			continue
		}
		reason := formatRouteReason(c)
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], c.Kind.Name)
	}
	for i, reason := range reasons {
		reasons[i] = strings.Join(names[reason], ", ") + ": " + reason
	}
	return reasons
}

// formatRouteReason is the first thing that keeps a router from making the change. A
// router without weights has one such error for each node, all for one reason.
func formatRouteReason(c route.Comparison) string {
	if errors.Is(c.Err, route.ErrWeight) && !c.Kind.Weighted {
		return "this router has no weights"
	}
	first, _, _ := strings.Cut(c.Err.Error(), "\n")
	first = strings.TrimPrefix(first, c.Kind.Name+": ")
	return strings.TrimPrefix(first, "route: ")
}

// writeRouteNotes prints how to read the table and why some routers are not in it.
func writeRouteNotes(w io.Writer, rows []routeRow, reasons []string) error {
	var notes []string
	for _, reason := range reasons {
		notes = append(notes, "No "+reason+".")
	}
	even := ""
	for _, r := range rows {
		if !r.Exact {
			even = fmt.Sprintf("; up to %.3f is what %d keys show of an even router", r.EvenImbalance, r.Keys)
		}
	}
	notes = append(notes,
		fmt.Sprintf("At least %.2f %% of all keys must move to keep shares right; the excess need not.", rows[0].Minimum*100),
		"imbalance is the load of the most loaded node over its share, before → after: 1 is even"+even+".")
	for i, note := range notes {
		notes[i] = output.Wrap(note)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	return err
}

// A routeRow is a line of the comparison. Its fields are the stable schema of
// the JSON forms.
type routeRow struct {
	Name            string  `json:"name"`
	NodesBefore     int     `json:"nodes_before"`
	NodesAfter      int     `json:"nodes_after"`
	Moved           float64 `json:"moved"`
	Imbalance       float64 `json:"imbalance"`
	ImbalanceBefore float64 `json:"imbalance_before"`
	EvenImbalance   float64 `json:"even_imbalance"`
	StdErr          float64 `json:"std_err"`
	Minimum         float64 `json:"minimum"`
	Excess          float64 `json:"excess"`
	Exact           bool    `json:"exact"`
	Keys            int     `json:"keys"`
	Weighted        bool    `json:"weighted"`
	Removal         string  `json:"removal"`
	Summary         string  `json:"summary"`
}

func newRouteRow(e route.Experiment, c route.Comparison) routeRow {
	m := c.Movement
	return routeRow{
		Name:            c.Kind.Name,
		NodesBefore:     e.Nodes,
		NodesAfter:      e.NodesAfter(),
		Moved:           m.Moved,
		Imbalance:       m.After.Imbalance,
		ImbalanceBefore: m.Before.Imbalance,
		EvenImbalance:   m.After.EvenImbalance,
		StdErr:          m.StdErr,
		Minimum:         m.Minimum,
		Excess:          m.Excess(),
		Exact:           m.Exact,
		Keys:            m.Keys,
		Weighted:        c.Kind.Weighted,
		Removal:         c.Kind.Removal.String(),
		Summary:         c.Kind.Summary,
	}
}

func newRouteColumns() []output.Column[routeRow] {
	return []output.Column[routeRow]{
		{Head: "router", Cell: func(r routeRow) string { return r.Name }},
		{
			Head: "moved", Right: true,
			Cell: func(r routeRow) string { return fmt.Sprintf("%.2f %%", r.Moved*100) },
			Bar:  func(r routeRow) float64 { return r.Moved },
		},
		{Head: "±", Right: true, Cell: func(r routeRow) string {
			if r.Exact {
				return "exact"
			}
			return fmt.Sprintf("%.2f %%", r.StdErr*100)
		}},
		{Head: "excess", Right: true, Cell: func(r routeRow) string { return output.FormatSigned(r.Excess*100, 2) + " %" }},
		{Head: "imbalance", Right: true, Cell: func(r routeRow) string {
			return fmt.Sprintf("%.3f → %.3f", r.ImbalanceBefore, r.Imbalance)
		}},
		{Head: "can lose", Cell: func(r routeRow) string { return r.Removal }},
		{Head: "weights", Cell: func(r routeRow) string {
			if r.Weighted {
				return "yes"
			}
			return "no"
		}},
	}
}
