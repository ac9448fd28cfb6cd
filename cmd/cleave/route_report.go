package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/route"
)

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
	reasons := routeReasons(comparisons)
	if len(rows) == 0 {
		return fmt.Errorf("none of the routing functions can make this change:\n%s", strings.Join(reasons, "\n"))
	}
	if format != output.Table {
		if err := output.Write(stdout, format, rows, nil); err != nil {
			return err
		}
		for _, reason := range reasons {
			fmt.Fprintf(stderr, "cleave: left out %s\n", reason)
		}
		return nil
	}
	if _, err := fmt.Fprintf(stdout, "%s\n\n", output.Wrap(routeTitle(e))); err != nil {
		return err
	}
	if err := output.Write(stdout, format, rows, routeColumns()); err != nil {
		return err
	}
	return routeNotes(stdout, rows, reasons)
}

// routeTitle says what is compared: "8 nodes, then 1 joins:".
func routeTitle(e route.Experiment) string {
	// More weights than these are no longer taken in, only counted.
	const shown = 8
	title := output.Counted(e.Nodes, "node")
	if n := len(e.Weights); n > shown {
		title += " with weights"
	} else if n > 0 {
		title += " of " + count(n, "weight ", "weights ") + strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Weights), " ", ", "), "[]")
	}
	var steps []string
	if e.Remove > 0 {
		step := count(e.Remove, "1 leaves", "%d leave")
		if e.RemoveLast {
			step += " from the end of the list"
		}
		steps = append(steps, step)
	}
	if e.Add > 0 {
		steps = append(steps, count(e.Add, "1 joins", "%d join"))
	}
	if e.Multiply > 1 {
		after := e.NodesAfter()
		steps = append(steps, count(after/e.Multiply, "1 grows", "%d grow")+fmt.Sprintf(" to %d", after))
	}
	if len(steps) == 0 {
		return title + ", and nothing changes:"
	}
	return title + ", then " + strings.Join(steps, ", then ") + ":"
}

// count returns one for 1, else many with its %d, if any, filled in.
func count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return strings.Replace(many, "%d", fmt.Sprint(n), 1)
}

// routeReasons says why routers cannot make the change, those that share a
// reason on one line: "mask, jump: this router has no weights".
func routeReasons(comparisons []route.Comparison) []string {
	var reasons []string
	names := make(map[string][]string)
	for _, c := range comparisons {
		if c.Err == nil {
			continue
		}
		reason := routeReason(c)
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

// routeReason is the first thing that keeps a router from making the change. A
// router without weights has one such error for each node, all for one reason.
func routeReason(c route.Comparison) string {
	if errors.Is(c.Err, route.ErrWeight) && !c.Kind.Weighted {
		return "this router has no weights"
	}
	first, _, _ := strings.Cut(c.Err.Error(), "\n")
	first = strings.TrimPrefix(first, c.Kind.Name+": ")
	return strings.TrimPrefix(first, "route: ")
}

// routeNotes tells how to read the table and why some routers are not in it.
func routeNotes(w io.Writer, rows []routeRow, reasons []string) error {
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
