// Command cleave is the server and the toolkit on the command line. Each noun is a
// command, each command a file.
//
// It exits with 0 when it did what it was asked, 1 when that failed and 2 when
// it was asked wrongly; exit.go has the others.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "cleave",
		Short:             "A sharded, ordered, transactional store for Redis clients, and its toolkit",
		Version:           versionText(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{flagError(cmd, err)} })
	root.SetVersionTemplate("{{.Version}}\n")
	// Defined here, the flag has no -v, which elsewhere means verbose.
	root.Flags().Bool("version", false, "print the version of this binary")
	// A command that has commands runs only to show its help, so a line of
	// usage for it alone would mislead.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	addCommands(root)
	strictBuiltins(root)
	return root
}

// addCommands adds all commands, in the order in which the help is best read.
func addCommands(root *cobra.Command) {
	cobra.EnableCommandSorting = false
	groups := []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"server", "Run a server:", []*cobra.Command{serveCommand(), configCommand(), importCommand(), restoreCommand()}},
		{"look", "Look at a running server:", []*cobra.Command{statusCommand(), mapCommand(), explainCommand(), sagaCommand(), clientCommand(), slowlogCommand(), auditCommand()}},
		{"change", "Look at and change a running server:", []*cobra.Command{shardCommand(), groupCommand(), keyspaceCommand(), indexCommand(), jobCommand(), backupCommand()}},
		{"toolkit", "The toolkit, without a server:", []*cobra.Command{routeCommand(), hashCommand()}},
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(versionCommand())
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
	return report(root, cmd, err)
}

func main() { os.Exit(run(rootCommand())) }
