package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
)

func TestEveryCommandIsInTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.HasAvailableSubCommands() {
			for _, c := range cmd.Commands() {
				look(c)
			}
			return
		}
		path := cmd.CommandPath()
		if !cmd.IsAvailableCommand() || cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || cmd.Flags().HasFlags() && cmd.Flags().Lookup("output") == nil && cmd.Flags().Lookup("addr") != nil {
			t.Errorf("%s: short help %q, or no -o", path, cmd.Short)
		}
		if !strings.Contains(string(doc), "`"+path+"`") && !strings.Contains(string(doc), "`"+path+" ") {
			t.Errorf("docs/cli.md does not have %s", path)
		}
	}
	look(rootCommand())
}

func TestEveryHelpFitsATerminal(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		_, help, _ := exec(append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		checkWidth(t, help)
		for _, c := range cmd.Commands() {
			if c.Name() != "completion" && c.Name() != "help" {
				look(c)
			}
		}
	}
	look(rootCommand())
}

// What is documented to tell a client its token is what clients look at.
func TestTheDocumentationNamesTheTokensVariables(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{api.EnvToken, api.EnvTokenFile, api.DefaultAddr} {
		if !strings.Contains(string(doc), name) {
			t.Errorf("docs/cli.md does not name %s", name)
		}
	}
}
