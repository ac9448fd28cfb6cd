// Command cleave is the whole product in one binary: each noun is a command,
// each command a file.
//
// It exits with 0 when it did what it was asked, 1 when that failed and 2 when
// it was asked wrongly.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// The exit codes that scripts rely on.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error as the caller's: exit 2, and point at the help.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// noArgs refuses arguments as a mistake in usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args)}
	}
	return nil
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cleave",
		Short:         "A sharded, ordered, transactional key-value store, and its toolkit",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(routeCommand(), hashCommand(), versionCommand())
	strictBuiltins(root)
	return root
}

// knownCommand refuses what is left of a command line when no command took it.
func knownCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q", args[0])}
	}
	return nil
}

// strictBuiltins makes the commands that cobra brings along exit with 2 when
// they are asked wrongly. They would explain themselves and exit with 0.
func strictBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				_, rest, err := root.Find(args)
				if err != nil {
					return usageError{err}
				}
				return knownCommand(cmd, rest)
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
	cmd, err := root.ExecuteC()
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
