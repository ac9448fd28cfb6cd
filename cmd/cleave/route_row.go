package main

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/route"
)

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

func routeColumns() []output.Column[routeRow] {
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
		{Head: "excess", Right: true, Cell: func(r routeRow) string { return output.Signed(r.Excess*100, 2) + " %" }},
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
