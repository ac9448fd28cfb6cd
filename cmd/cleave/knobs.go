package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

func configListCommand() *cobra.Command {
	return listing[api.Setting]{
		use: "list", short: "List the settings of a running server",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Setting, string, error) {
			rows, err := c.Config(ctx)
			return rows, "", err
		},
		columns: []output.Column[api.Setting]{
			{Head: "setting", Cell: func(s api.Setting) string { return s.Name }},
			{Head: "value", Cell: func(s api.Setting) string { return clip(strings.TrimSpace(s.Value+" "+s.Unit), 32) }},
			{Head: "live", Cell: func(s api.Setting) string {
				if s.Live {
					return "yes"
				}
				return "no"
			}},
			{Head: "meaning", Cell: func(s api.Setting) string { return clip(s.Meaning, 48) }},
		},
		none: "no settings",
	}.command(nil)
}

func configSetCommand() *cobra.Command {
	return acting{
		use: "set NAME=VALUE …", short: "Change settings of a running server, until it is restarted", harmless: true,
		example: "  cleave config set timeout=300 maxmemory=2gb",
		args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("config set wants NAME=VALUE")}
			}
			for _, a := range args {
				if name, _, ok := strings.Cut(a, "="); !ok || name == "" {
					return usageError{fmt.Errorf("%q: want NAME=VALUE", a)}
				}
			}
			return nil
		},
		do: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (api.Action, error) {
			request := api.SetConfig{Settings: map[string]string{}}
			for _, a := range args {
				name, value, _ := strings.Cut(a, "=")
				request.Settings[name] = value
			}
			return c.Act(ctx, api.PathSetConfig, request, dryRun)
		},
	}.command(nil)
}
