// Command cleave is the server and the toolkit on the command line. Each noun is a
// command, each command a file.
//
// It exits with 0 when it did what it was asked, 1 when that failed and 2 when
// it was asked wrongly; the exit constants below are all of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/output"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "cleave",
		Short:             "A sharded, ordered, transactional store for Redis clients, and its toolkit",
		Version:           formatVersion(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              checkKnownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{explainFlagError(cmd, err)} })
	root.SetVersionTemplate("{{.Version}}\n")
	// Defined here, the flag has no -v, which elsewhere means verbose.
	root.Flags().Bool("version", false, "print the version of this binary")
	// A command that has commands runs only to show its help, so a line of
	// usage for it alone would mislead.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	addCommands(root)
	makeBuiltinsStrict(root)
	return root
}

// addCommands adds all commands, in the order in which the help is best read.
func addCommands(root *cobra.Command) {
	cobra.EnableCommandSorting = false
	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"server", "Run a server:", []*cobra.Command{newServeCommand(), newDemoCommand(), newConfigCommand(), newImportCommand(), newRestoreCommand()}},
		{"look", "Look at a running server:", []*cobra.Command{newStatusCommand(), newTopCommand(), newMapCommand(), newExplainCommand(), newHotKeysCommand(), newHeatMapCommand(), newProfileCommand(), newPlanCommand(), newDecisionCommand(), newSagaCommand(), newClientCommand(), newSlowlogCommand(), newAuditCommand(), newPageCommand()}},
		{"change", "Look at and change a running server:", []*cobra.Command{newRebalanceCommand(), newAcceptCommand(), newKnobCommand(), newShardCommand(), newGroupCommand(), newKeyspaceCommand(), newIndexCommand(), newCapCommand(), newJobCommand(), newBackupCommand()}},
		{"toolkit", "The toolkit, without a server:", []*cobra.Command{newAdviseCommand(), newRouteCommand(), newHashCommand()}},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersionCommand())
}

// makeBuiltinsStrict makes the commands that cobra brings along exit with 2 when
// they are asked wrongly. They would explain themselves and exit with 0.
func makeBuiltinsStrict(root *cobra.Command) {
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
				return checkKnownCommand(found, rest)
			}
		case "completion":
			cmd.Args = checkKnownCommand
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
	return reportError(root, cmd, err)
}

func main() { os.Exit(run(newRootCommand())) }

// The exit codes that scripts rely on.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // or it needs --yes
	exitUnhealthy   = 3 // something is found that wants to be put right
	exitUnreachable = 4
	exitTimeout     = 5
	exitInterrupted = 130 // by Ctrl-C, as shells have it, or asked to end
)

// errInterrupted is what a command ends with that was interrupted.
var errInterrupted = exitError{exitInterrupted, errors.New("interrupted")}

// signalContext is a context that ends with Ctrl-C, or when the command is asked to end. From then on
// a second one ends the program at once, whatever it is at.
func signalContext(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// silentExit ends a command whose output says all.
type silentExit struct{ code int }

func (e silentExit) Error() string { return fmt.Sprintf("exit %d", e.code) }

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// reportError prints an error and returns the exit code.
func reportError(root, cmd *cobra.Command, err error) int {
	var quiet silentExit
	if errors.As(err, &quiet) {
		return quiet.code
	}
	if err == context.Canceled { // no earlier error says what was under way
		err = errInterrupted
	}
	// Errors of the packages begin with their names, too.
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "cleave: "), "api: ")
	fmt.Fprintf(root.ErrOrStderr(), "cleave: %s\n", output.EscapeUnprintable(text))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(root.ErrOrStderr(), "See '%s --help'.\n", cmd.CommandPath())
		return exitUsage
	}
	var code exitError
	if errors.As(err, &code) {
		return code.code
	}
	return exitFailed
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version of this binary",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), formatVersion())
			return err
		},
	}
}

// readModuleVersion is that of the module that was built.
func readModuleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

func formatVersion() string {
	return fmt.Sprintf("cleave %s %s %s/%s", readModuleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
