package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/config"
)

// settingFlags gives a command a flag for each setting, and returns those that will
// have been given when it runs.
func settingFlags(cmd *cobra.Command) map[string]string {
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
		if s.Kind == config.Word {
			words[s.Name] = cobra.FixedCompletions(s.Words, cobra.ShellCompDirectiveNoFileComp)
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

// Set takes what the setting takes. Whoever reports the error names the flag.
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
	case config.Word, config.YesNo:
		return "string"
	case config.Number:
		return "n"
	}
	return "text"
}

// misconfigured makes an error of a configuration one of usage, but for a file that
// cannot be read.
func misconfigured(err error) error {
	var wrong config.Mistakes
	if errors.As(err, &wrong) || errors.Is(err, os.ErrNotExist) {
		return usageError{err}
	}
	return err
}
