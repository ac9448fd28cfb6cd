package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/config"
)

func configCommand() *cobra.Command {
	cmd := nounCommand("config", "Check a file of settings, or list and change those of a server")
	cmd.AddCommand(configCheckCommand(), configExampleCommand(), configListCommand(), configSetCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Find the mistakes in a file of settings",
		Long: `Find the mistakes in a file of settings.

Each is a line with its place, as editors understand it. Exit 0 means that serve
would take the file, 2 that it would not. The environment is left out, so the
answer is the same wherever it is asked for.`,
		Example: "  cleave config check /etc/cleave/cleave.toml",
		Args:    oneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := config.Load(config.Sources{File: args[0]})
			var wrong config.Mistakes
			if errors.As(err, &wrong) {
				fmt.Fprintln(cmd.OutOrStdout(), wrong)
				return silent{exitUsage}
			}
			if err != nil {
				return misconfigured(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes\n", args[0])
			return err
		},
	}
}

func configExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "example",
		Short:             "Print a file in which every setting stands with its default",
		Example:           "  cleave config example > cleave.toml",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Example())
			return err
		},
	}
}
