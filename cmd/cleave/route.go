package main

import (
	"errors"
	"fmt"
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
				return usageError{experimentMisuse(err)}
			}
			if err != nil {
				return err
			}
			return writeRoutes(cmd.OutOrStdout(), cmd.ErrOrStderr(), format, e, comparisons)
		},
	}
	routeFlags(cmd, &e, &format)
	return cmd
}

// routeFlags defines the flags in the order in which they are best read.
func routeFlags(cmd *cobra.Command, e *route.Experiment, format *output.Format) {
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

// experimentMisuse says what is wrong with the experiment as the command line
// has it: without the names of the package and of its errors.
func experimentMisuse(err error) error {
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
