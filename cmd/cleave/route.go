package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

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
a little worse than it is. Routers that cannot make the change say why.`,
		Example: `  cleave route                            8 nodes and one more
  cleave route --nodes 8 --remove 1       a node in the middle fails
  cleave route --nodes 8 --multiply 2     twice the nodes
  cleave route --weights 1,1,2 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := cmd.Flags()
			if flags.Changed("kind") && len(e.Kinds) == 0 {
				return usageError{errors.New("--kind names no routing function: leave it out to compare all")}
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
			rows := routeRows(comparisons)
			if err := output.Write(cmd.OutOrStdout(), format, rows, routeColumns()); err != nil || format != output.Table {
				return err
			}
			return routeLegend(cmd.OutOrStdout(), rows)
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

// A routeRow is a line of the comparison. Its fields are the stable schema of
// the JSON forms. The measured ones are null if the change cannot be made.
type routeRow struct {
	Name            string   `json:"name"`
	Moved           *float64 `json:"moved"`
	Imbalance       *float64 `json:"imbalance"`
	ImbalanceBefore *float64 `json:"imbalance_before"`
	EvenImbalance   *float64 `json:"even_imbalance"`
	StdErr          *float64 `json:"std_err"`
	Minimum         *float64 `json:"minimum"`
	Excess          *float64 `json:"excess"`
	Exact           bool     `json:"exact"`
	Keys            int      `json:"keys"`
	Weighted        bool     `json:"weighted"`
	Removal         string   `json:"removal"`
	Summary         string   `json:"summary"`
	Error           string   `json:"error,omitempty"`
}

func routeRows(comparisons []route.Comparison) []routeRow {
	rows := make([]routeRow, 0, len(comparisons))
	for _, c := range comparisons {
		row := routeRow{
			Name:     c.Kind.Name,
			Weighted: c.Kind.Weighted,
			Removal:  c.Kind.Removal.String(),
			Summary:  c.Kind.Summary,
		}
		if c.Err != nil {
			row.Error = c.Err.Error()
		} else {
			m, excess := c.Movement, c.Movement.Excess()
			row.Moved, row.StdErr, row.Minimum, row.Excess = &m.Moved, &m.StdErr, &m.Minimum, &excess
			row.Imbalance, row.ImbalanceBefore, row.EvenImbalance = &m.After.Imbalance, &m.Before.Imbalance, &m.After.EvenImbalance
			row.Exact, row.Keys = m.Exact, m.Keys
		}
		rows = append(rows, row)
	}
	return rows
}

func routeColumns() []output.Column[routeRow] {
	figure := func(format string, scale float64, of func(routeRow) *float64) func(routeRow) string {
		return func(r routeRow) string {
			x := of(r)
			if x == nil {
				return "-"
			}
			return fmt.Sprintf(format, *x*scale)
		}
	}
	return []output.Column[routeRow]{
		{Head: "router", Cell: func(r routeRow) string { return r.Name }},
		{
			Head: "moved", Right: true,
			Cell: figure("%.2f %%", 100, func(r routeRow) *float64 { return r.Moved }),
			Bar: func(r routeRow) float64 {
				if r.Moved == nil {
					return 0
				}
				return *r.Moved
			},
		},
		{Head: "±", Right: true, Cell: func(r routeRow) string {
			switch {
			case r.Moved == nil:
				return "-"
			case r.Exact:
				return "exact"
			}
			return fmt.Sprintf("%.2f %%", *r.StdErr*100)
		}},
		{Head: "excess", Right: true, Cell: figure("%+.2f %%", 100, func(r routeRow) *float64 { return r.Excess })},
		{Head: "imbalance before", Right: true, Cell: figure("%.3f", 1, func(r routeRow) *float64 { return r.ImbalanceBefore })},
		{Head: "after", Right: true, Cell: figure("%.3f", 1, func(r routeRow) *float64 { return r.Imbalance })},
		{Head: "can lose", Cell: func(r routeRow) string { return r.Removal }},
		{Head: "weights", Cell: func(r routeRow) string {
			if r.Weighted {
				return "yes"
			}
			return "no"
		}},
	}
}

// routeLegend tells how to read the table and why some rows are empty.
func routeLegend(w io.Writer, rows []routeRow) error {
	var reasons, minimum, even string
	for _, r := range rows {
		if r.Error != "" {
			first, more, _ := strings.Cut(r.Error, "\n")
			if more != "" {
				first += fmt.Sprintf(" (and %d more)", strings.Count(more, "\n")+1)
			}
			reasons += strings.Replace(first, "route: ", "", 1) + "\n"
			continue
		}
		minimum = fmt.Sprintf("At least %.2f %% of all keys must move to keep shares right; the excess need not.\n", *r.Minimum*100)
		if !r.Exact {
			even = fmt.Sprintf("; up to %.3f is what %d keys show of an even router", *r.EvenImbalance, r.Keys)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s%simbalance is the load of the most loaded node over its share: 1 is even%s.\n", reasons, minimum, even)
	return err
}
