package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// knownCommand refuses what is left of a command line when no command of cmd
// took it, and names those that may have been meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2 // two typos; more match any short name
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = `: did you mean "` + strings.Join(near, `" or "`) + `"?`
	}
	return usageError{fmt.Errorf("unknown command %q%s", args[0], hint)}
}

// flagError says what a flag wants. The flags of pflag answer a bad number
// with the words of strconv.
func flagError(err error) error {
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
	case "bool":
		want = "want true or false"
	}
	if errors.Is(err, strconv.ErrRange) {
		want = "out of range"
	}
	return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}
