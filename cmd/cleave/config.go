package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newConfigCommand() *cobra.Command {
	cmd := newNounCommand("config", "Check a file of settings, or list and change those of a server")
	cmd.AddCommand(newConfigCheckCommand(), newConfigExampleCommand(), newConfigListCommand(), newConfigSetCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Find the mistakes in a file of settings",
		Long: `Find the mistakes in a file of settings.

Each is a line with its place, as editors understand it. Exit 0 means that serve
would take the file, 2 that it would not. The environment is left out, so the
answer is the same wherever it is asked for.`,
		Example: "  cleave config check /etc/cleave/cleave.toml",
		Args:    oneNamedArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := config.Load(config.Sources{File: args[0]})
			var wrong config.Mistakes
			if errors.As(err, &wrong) {
				fmt.Fprintln(cmd.OutOrStdout(), wrong)
				return silentExit{exitUsage}
			}
			if err != nil {
				return toConfigError(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no mistakes\n", args[0])
			return err
		},
	}
}

func newConfigExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "example",
		Short:             "Print a file in which every setting stands with its default",
		Example:           "  cleave config example > cleave.toml",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.ExampleFile())
			return err
		},
	}
}

func newConfigListCommand() *cobra.Command {
	return listCommand[api.Setting]{
		use: "list", short: "List the settings of a running server",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Setting, string, error) {
			rows, err := c.Config(ctx)
			return rows, "", err
		},
		columns: []output.Column[api.Setting]{
			{Head: "setting", Cell: func(s api.Setting) string { return s.Name }},
			{Head: "value", Cell: func(s api.Setting) string { return strings.TrimSpace(s.Value + " " + s.Unit) }, CutPriority: 1},
			{Head: "source", Cell: func(s api.Setting) string { return strings.TrimSpace(s.Source + " " + formatSettingOrigin(s)) }, CutPriority: 1},
			{Head: "change", Cell: formatSettingChange},
			{Head: "meaning", Cell: func(s api.Setting) string { return s.Meaning }, CutPriority: 2},
		},
		emptyText: "no settings",
	}.toCobra(nil)
}

// formatSettingOrigin is where a setting was set, if its source does not say it all.
func formatSettingOrigin(s api.Setting) string {
	if s.Source == "file" {
		_, line, _ := strings.Cut(filepath.Base(s.From), ":")
		return "line " + strings.Split(line, ":")[0]
	}
	return s.From
}

// formatSettingChange is what a change of a setting needs.
func formatSettingChange(s api.Setting) string {
	switch {
	case s.Live:
		return "live"
	case s.Pending != "":
		return "restart for " + output.Clip(s.Pending, 20)
	}
	return "restart"
}

func newConfigSetCommand() *cobra.Command {
	return actionCommand{
		use: "set NAME=VALUE …", short: "Change settings of a running server, until it is restarted", harmless: true,
		example: "  cleave config set timeout=300 maxmemory=2gb",
		args: func(_ *cobra.Command, args []string) error {
			_, err := parseAssignments("config set", args)
			return err
		},
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			values, err := parseAssignments("config set", args)
			if err != nil {
				return api.Action{}, err
			}
			return c.Post(ctx, api.PathSetConfig, api.SetConfig{Settings: values}, dryRun)
		},
	}.toCobra(nil)
}

// addSettingFlags gives a command a flag for each setting, and returns those that will
// have been given when it runs.
func addSettingFlags(cmd *cobra.Command) map[string]string {
	given := map[string]string{}
	words := map[string]cobra.CompletionFunc{"config": cobra.FixedCompletions([]cobra.Completion{"toml"}, cobra.ShellCompDirectiveFilterFileExt)}
	for _, s := range config.Settings() {
		help := s.Help
		if s.Placeholder != "" && !strings.Contains(help, s.Placeholder) {
			help += " (`" + s.Placeholder + "`)"
		} else if s.Placeholder != "" {
			help = strings.Replace(help, s.Placeholder, "`"+s.Placeholder+"`", 1)
		}
		f := cmd.Flags().VarPF(&settingFlag{s, given}, s.Name, "", help)
		if s.Default == "0" {
			f.DefValue = "" // the text says what 0 means
		}
		if s.Kind == config.Enum {
			words[s.Name] = cobra.FixedCompletions(s.EnumValues, cobra.ShellCompDirectiveNoFileComp)
		}
	}
	completeFlags(cmd, words)
	return given
}

// settingFlag is a setting as a flag.
type settingFlag struct {
	setting config.Setting
	given   map[string]string
}

func (f *settingFlag) String() string {
	if text, ok := f.given[f.setting.Name]; ok {
		return text
	}
	return f.setting.Default
}

// Set parses the text and keeps it as given. The caller adds the flag's name to an error.
func (f *settingFlag) Set(text string) error {
	parsed, err := f.setting.Parse(text)
	if err == nil {
		f.given[f.setting.Name] = parsed
	}
	return err
}

// Type names the value in the help of flags whose text has no better name.
func (f *settingFlag) Type() string {
	switch f.setting.Kind {
	case config.Enum, config.YesNo:
		return "string"
	case config.Number:
		return "n"
	}
	return "text"
}

// toConfigError makes an error of a configuration one of usage, but for a file that
// cannot be read.
func toConfigError(err error) error {
	var wrong config.Mistakes
	if errors.As(err, &wrong) || errors.Is(err, os.ErrNotExist) {
		return usageError{err}
	}
	return err
}
