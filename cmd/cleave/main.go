// Command cleave is the toolkit on the command line: it compares routing
// functions and hash functions. Each noun is a command, each command a file.
//
// It exits with 0 when it did what it was asked, 1 when that failed and 2 when
// it was asked wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes that scripts rely on.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "cleave",
		Short:             "Cleave's sharding toolkit: compare routing functions and hash functions",
		Version:           versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	root.SetVersionTemplate("{{.Version}}\n")
	// Defined here, the flag has no -v, which elsewhere means verbose.
	root.Flags().Bool("version", false, "print the version of this binary")
	// A command that has commands runs only to show its help, so a line of
	// usage for it alone would mislead.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	root.AddCommand(serveCommand(), routeCommand(), hashCommand(), versionCommand())
	strictBuiltins(root)
	return root
}

// strictBuiltins makes the commands that cobra brings along exit with 2 when
// they are asked wrongly. They would explain themselves and exit with 0.
func strictBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					return usageError{err}
				}
				return knownCommand(found, rest)
			}
		case "completion":
			cmd.Args = knownCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range cmd.Commands() {
				shell.Args = noArgs
			}
		}
	}
}

// run executes the command line and returns the exit code.
func run(root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(root.ErrOrStderr(), "cleave: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(root.ErrOrStderr(), "See '%s --help'.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

func main() { os.Exit(run(rootCommand())) }
