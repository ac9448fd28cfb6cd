package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/config"
)

// args wants as many arguments as there are names.
func args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		return usageError{fmt.Errorf("%s wants %s, got %q", path, strings.Join(names, " and "), args)}
	}
}

// atMostOne wants no argument or one.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
			return usageError{fmt.Errorf("%s takes one %s, got %q", path, name, args)}
		}
		return nil
	}
}

// number reads an id that was given as an argument.
func number(what, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Errorf("%s %q: want a number from 1 on", what, text)}
	}
	return n, nil
}

// keyFlags are keys as people write them: \xNN is a byte that cannot be typed.
func keyFlags(texts []string) (keys []api.Key, err error) {
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

func (r *rateFlag) flag(cmd *cobra.Command, help string) {
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
