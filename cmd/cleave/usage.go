package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
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

// oneNamedArg wants one argument, and calls it by its name.
func oneNamedArg(name string) cobra.PositionalArgs {
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

// newNounCommand is a command that only has commands.
func newNounCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: checkKnownCommand, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// checkKnownCommand refuses what is left of a command line when no command of cmd
// took it, and names those that may have been meant.
func checkKnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2 // two typos; more match any short name
	if near := preferPrefixMatches(args[0], cmd.SuggestionsFor(args[0])); len(near) > 0 {
		hint = `: did you mean "` + strings.Join(near, `" or "`) + `"?`
	}
	return usageError{fmt.Errorf("unknown command %q%s", args[0], hint)}
}

// preferPrefixMatches leaves, of names that may have been meant, those that were begun, if there are
// any: a word that was not finished is likelier than two typos.
func preferPrefixMatches(typed string, names []string) []string {
	begun := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, typed) })
	if len(begun) > 0 {
		return begun
	}
	return names
}

// explainFlagError adds what a flag wants, or which one may have been meant. The flags of pflag answer a bad number
// with the words of strconv.
func explainFlagError(cmd *cobra.Command, err error) error {
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

// exactArgs wants as many arguments as there are names.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		return usageError{fmt.Errorf("%s wants %s, got %q", path, strings.Join(names, " and "), args)}
	}
}

// atMostOneArg wants no argument or one.
func atMostOneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
			return usageError{fmt.Errorf("%s takes one %s, got %q", path, name, args)}
		}
		return nil
	}
}

// parseNumberArg reads a number, or an id, that was given as an argument.
func parseNumberArg(what, text string) (uint64, error) {
	n, err := parseID(what, text)
	if err != nil {
		return 0, usageError{fmt.Errorf("%s %q: %w", what, text, err)}
	}
	return n, nil
}

// parseID reads the id of a shard or a group: 10, or with the first letter of what it is, s10.
func parseID(what, text string) (uint64, error) {
	digits := text
	if what == "shard" || what == "group" {
		digits = strings.TrimPrefix(text, what[:1])
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 {
		return 0, errors.New("want a number from 1 on")
	}
	return n, nil
}

// idFlag is a flag for the id of a shard or a group; 0 if it is not given.
type idFlag struct {
	kind string
	id   *uint64
}

// String is part of the flag interface.
func (f idFlag) String() string {
	if f.id == nil || *f.id == 0 {
		return ""
	}
	return strconv.FormatUint(*f.id, 10)
}

// Type is part of the flag interface.
func (f idFlag) Type() string { return f.kind }

// Set is part of the flag interface.
func (f idFlag) Set(text string) (err error) {
	*f.id, err = parseID(f.kind, text)
	return err
}

// parseKeyFlags are keys as people write them: \xNN is a byte that cannot be typed.
func parseKeyFlags(texts []string) (keys []api.Key, err error) {
	for _, t := range texts {
		k, err := api.ParseKey(t)
		if err != nil {
			return nil, usageError{fmt.Errorf("--key %q: %w", t, err)}
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// rateFlag is a flag for bytes in a second, such as 10mb.
type rateFlag uint64

func (r *rateFlag) addFlag(cmd *cobra.Command, help string) {
	f := cmd.Flags().VarPF(r, "rate", "", help)
	f.DefValue = ""
}

// String is part of the flag interface.
func (r *rateFlag) String() string { return strconv.FormatUint(uint64(*r), 10) }

// Type is part of the flag interface.
func (r *rateFlag) Type() string { return "bytes" }

// Set is part of the flag interface.
func (r *rateFlag) Set(text string) error {
	s := config.Setting{Kind: config.Bytes}
	parsed, err := s.Parse(text)
	if err != nil {
		return fmt.Errorf("want bytes in a second, such as 10mb")
	}
	n, err := strconv.ParseUint(parsed, 10, 64)
	*r = rateFlag(n)
	return err
}
