package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/route"
)

func routeCommand() *cobra.Command {
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
over its share, before and after: 1 is even, and a sample makes any router look
a little worse than it is. Routers that cannot make the change are left out, and
it says why.`,
		Example: `  cleave route                            8 nodes and one more
  cleave route --nodes 8 --remove 1       a node in the middle fails
  cleave route --nodes 8 --multiply 2     twice the nodes
  cleave route --weights 1,1,2 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := cmd.Flags()
			if err := routeMisuse(flags, e); err != nil {
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
				return usageError{err}
			}
			if err != nil {
				return err
			}
			return writeRoutes(cmd.OutOrStdout(), cmd.ErrOrStderr(), format, comparisons)
		},
	}
	flags := cmd.Flags()
	flags.VarP(&format, "output", "o", "form of the output")
	flags.IntVar(&e.Nodes, "nodes", 8, "nodes at first")
	flags.IntVar(&e.Add, "add", 1, "nodes that join (0 with --remove or --multiply)")
	flags.IntVar(&e.Remove, "remove", 0, "nodes that leave, from the middle of the list")
	flags.BoolVar(&e.RemoveLast, "last", false, "let them leave from the end of the list instead")
	flags.IntVar(&e.Multiply, "multiply", 1, "factor by which the nodes then grow")
	flags.Float64SliceVar(&e.Weights, "weights", nil, "weights of the first nodes, such as 1,1,2")
	flags.IntVar(&e.Keys, "keys", 0, fmt.Sprintf("keys to route (0: exact where it can be, else %d)", route.DefaultSample))
	flags.StringSliceVar(&e.Kinds, "kind", nil, "routing functions to compare (default all)")
	return cmd
}

// routeMisuse finds what the values of the flags alone do not show.
func routeMisuse(flags *pflag.FlagSet, e route.Experiment) error {
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

// writeRoutes writes the comparisons. A router that cannot make the change has
// no figures: the table says why below, and the JSON forms, whose rows all have
// them, leave it out and say why on stderr. If none can, the command failed.
func writeRoutes(stdout, stderr io.Writer, format output.Format, comparisons []route.Comparison) error {
	var rows []routeRow
	var reasons []string
	for _, c := range comparisons {
		if c.Err != nil {
			reasons = append(reasons, routeReason(c.Err))
			continue
		}
		rows = append(rows, newRouteRow(c))
	}
	if len(rows) == 0 {
		return fmt.Errorf("none of the routing functions can make this change:\n%s", strings.Join(reasons, "\n"))
	}
	if err := output.Write(stdout, format, rows, routeColumns()); err != nil {
		return err
	}
	if format != output.Table {
		for _, reason := range reasons {
			fmt.Fprintf(stderr, "cleave: left out %s\n", reason)
		}
		return nil
	}
	return routeLegend(stdout, rows, reasons)
}

// routeReason is the first line of why a router cannot make the change.
func routeReason(err error) string {
	first, more, _ := strings.Cut(err.Error(), "\n")
	if more != "" {
		first += fmt.Sprintf(" (and %d more)", strings.Count(more, "\n")+1)
	}
	return strings.Replace(first, "route: ", "", 1)
}

// A routeRow is a line of the comparison. Its fields are the stable schema of
// the JSON forms.
type routeRow struct {
	Name            string  `json:"name"`
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

func newRouteRow(c route.Comparison) routeRow {
	m := c.Movement
	return routeRow{
		Name:            c.Kind.Name,
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

func routeColumns() []output.Column[routeRow] {
	figure := func(format string, of func(routeRow) float64) func(routeRow) string {
		return func(r routeRow) string { return fmt.Sprintf(format, of(r)) }
	}
	return []output.Column[routeRow]{
		{Head: "router", Cell: func(r routeRow) string { return r.Name }},
		{
			Head: "moved", Right: true,
			Cell: figure("%.2f %%", func(r routeRow) float64 { return r.Moved * 100 }),
			Bar:  func(r routeRow) float64 { return r.Moved },
		},
		{Head: "±", Right: true, Cell: func(r routeRow) string {
			if r.Exact {
				return "exact"
			}
			return fmt.Sprintf("%.2f %%", r.StdErr*100)
		}},
		{Head: "excess", Right: true, Cell: figure("%+.2f %%", func(r routeRow) float64 { return r.Excess * 100 })},
		{Head: "imbalance before", Right: true, Cell: figure("%.3f", func(r routeRow) float64 { return r.ImbalanceBefore })},
		{Head: "after", Right: true, Cell: figure("%.3f", func(r routeRow) float64 { return r.Imbalance })},
		{Head: "can lose", Cell: func(r routeRow) string { return r.Removal }},
		{Head: "weights", Cell: func(r routeRow) string {
			if r.Weighted {
				return "yes"
			}
			return "no"
		}},
	}
}

// routeLegend tells how to read the table and why some routers are not in it.
func routeLegend(w io.Writer, rows []routeRow, reasons []string) error {
	even := ""
	for _, r := range rows {
		if !r.Exact {
			even = fmt.Sprintf("; up to %.3f is what %d keys show of an even router", r.EvenImbalance, r.Keys)
		}
	}
	var notes strings.Builder
	for _, reason := range reasons {
		notes.WriteString("No " + reason + "\n")
	}
	_, err := fmt.Fprintf(w, "\n%sAt least %.2f %% of all keys must move to keep shares right; the excess need not.\n"+
		"imbalance is the load of the most loaded node over its share: 1 is even%s.\n", notes.String(), rows[0].Minimum*100, even)
	return err
}
