package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/output"
	"github.com/cleavekv/cleave/route"
)

// completeFlags lets shells complete a command that takes no arguments: the
// values of some flags, and no names of files for anything else.
func completeFlags(cmd *cobra.Command, values map[string]cobra.CompletionFunc) {
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete, ok := values[f.Name]
		if !ok {
			complete = cobra.NoFileCompletions
		}
		// It fails for a flag that is not there or has one already: f is
		// there, and is met once.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
}

func completeOutput(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return output.Words(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeKinds completes the last name of a list with those not in it yet.
func completeKinds(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		list, last = typed[:i+1], typed[i+1:]
	}
	var names []cobra.Completion
	for _, k := range route.Kinds() {
		if strings.HasPrefix(k.Name, last) && !slices.Contains(strings.Split(list, ","), k.Name) {
			names = append(names, cobra.CompletionWithDesc(list+k.Name, k.Summary))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeMore is completeFlags for a command that takes arguments too, or gets its flags
// in several steps: what has a completion already keeps it.
func completeMore(cmd *cobra.Command, values map[string]cobra.CompletionFunc) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
			return
		}
		complete, ok := values[f.Name]
		if !ok {
			complete = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it has none: see above
	})
}

// fileCompletion lets the shell complete names of files.
func fileCompletion(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// directoryCompletion lets the shell complete names of directories.
func directoryCompletion(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
