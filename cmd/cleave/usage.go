package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/config"
)

// usageError marks an error as the caller's: exit 2, and point at the help.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// noArgs refuses arguments as a mistake in usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		return usageError{fmt.Errorf("%s takes no arguments, got %q", name, args)}
	}
	return nil
}

// oneArg wants one argument, and calls it by its name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		switch {
		case len(args) == 0:
			return usageError{fmt.Errorf("%s needs %s", path, name)}
		case len(args) > 1:
			return usageError{fmt.Errorf("%s takes one %s, got %q", path, name, args)}
		}
		return nil
	}
}

// nounCommand is a command that only has commands.
func nounCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: knownCommand, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// knownCommand refuses what is left of a command line when no command of cmd
// took it, and names those that may have been meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2 // two typos; more match any short name
	if near := nearest(args[0], cmd.SuggestionsFor(args[0])); len(near) > 0 {
		hint = `: did you mean "` + strings.Join(near, `" or "`) + `"?`
	}
	return usageError{fmt.Errorf("unknown command %q%s", args[0], hint)}
}

// nearest leaves, of names that may have been meant, those that were begun, if there are
// any: a word that was not finished is likelier than two typos.
func nearest(typed string, names []string) []string {
	begun := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, typed) })
	if len(begun) > 0 {
		return begun
	}
	return names
}

// flagError says what a flag wants, or which one may have been meant. The flags of pflag answer a bad number
// with the words of strconv.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
		return err
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := invalid.Unwrap().Error()
	switch invalid.GetFlag().Value.Type() {
	case "int":
		want = "want a whole number"
	case "uint64":
		want = "want a whole number that is not negative"
	case "float64Slice":
		want = "want numbers such as 1,1,2"
	case "intSlice":
		want = "want whole numbers such as 4096,8192"
	case "duration":
		want = "want a time such as 30s"
	case "bool":
		want = "want true or false"
	}
	if errors.Is(err, strconv.ErrRange) {
		want = "out of range"
	}
	return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}
