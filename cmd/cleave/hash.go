package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/ops/terminal"
)

func newHashCommand() *cobra.Command {
	var (
		format output.Format
		opts   hash.MeasureOptions
	)
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Show how well each hash function mixes and spreads keys",
		Long: `Show how well each hash function mixes and spreads keys.

mean and worst are probabilities that flipping a bit of a key flips a bit of
its hash, over all pairs of bits and for the pair furthest from the ideal 0.5;
± is how far chance lets the worst pair stray.

The other columns put keys of one kind into buckets, by the low bits of their
hash (mask), by its high bits (top) and by modulo (mod), and show the way that
is furthest from chance as a z-score of chi-squared: about 0 is random, far
above is clumped, far below is more even than random. The last does those keys
no harm and betrays that the function keeps their structure.

A stable function may be persisted; a seeded one is valid in one process; a
weak one is here to be seen failing. crc16-slot is Redis Cluster's: linear, so
it spreads keys over slots and mixes nothing.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := hash.MeasureAll(opts)
			if errors.Is(err, hash.ErrOptions) {
				return usageError{toHashOptionError(err)}
			}
			if err != nil {
				return err
			}
			return output.WriteRows(cmd.OutOrStdout(), format, terminal.Width(cmd.OutOrStdout()), reports, newHashColumns())
		},
	}
	addHashFlags(cmd, &opts, &format)
	return cmd
}

// addHashFlags defines the flags in the order in which they are best read.
func addHashFlags(cmd *cobra.Command, opts *hash.MeasureOptions, format *output.Format) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&opts.Samples, "samples", 0, "random keys whose bits are flipped (default 1024)")
	flags.IntVar(&opts.KeyBytes, "key-bytes", 0, "length of the random keys (default 16)")
	flags.IntVar(&opts.Buckets, "buckets", 0, "buckets that keys are spread over, a power of two (default 1024)")
	flags.IntVar(&opts.Keys, "keys", 0, "keys that are spread over the buckets (default 64 a bucket)")
	flags.Uint64Var(&opts.Seed, "seed", 0, "seed of the random keys")
	flags.VarP(format, "output", "o", "form of the output")
	completeFlags(cmd, map[string]cobra.CompletionFunc{"output": completeOutput})
}

// toHashOptionError names what is wrong with the options as the command line has them:
// "measure xxh3: hash: bad report options: Buckets is 1000, want ..." becomes
// "--buckets 1000: want ...".
func toHashOptionError(err error) error {
	flags := map[string]string{"Samples": "--samples", "KeyBytes": "--key-bytes", "Buckets": "--buckets", "Keys": "--keys"}
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, text, _ := strings.Cut(line, hash.ErrOptions.Error()+": ")
		field, rest, _ := strings.Cut(text, " is ")
		value, want, ok := strings.Cut(rest, ", ")
		flag, known := flags[field]
		if !ok || !known {
			return err // none of ours: it speaks for itself
		}
		want = strings.ReplaceAll(strings.TrimPrefix(want, "but "), "Buckets", "--buckets")
		errs = append(errs, fmt.Errorf("%s %s: %s", flag, value, want))
	}
	return errors.Join(errs...)
}

func newHashColumns() []output.Column[hash.Report] {
	type report = hash.Report
	columns := []output.Column[report]{
		{Head: "function", Cell: func(r report) string { return r.Name }},
		{Head: "kind", Cell: func(r report) string { return r.Kind.String() }},
		{Head: "mean", Right: true, Cell: func(r report) string { return fmt.Sprintf("%.3f", r.Avalanche.Mean) }},
		{Head: "worst", Right: true, Cell: func(r report) string { return fmt.Sprintf("%.3f", r.Avalanche.Worst) }},
		{Head: "±", Right: true, Cell: func(r report) string { return fmt.Sprintf("%.3f", r.Avalanche.Noise) }},
	}
	for _, c := range hash.Corpora(0) {
		columns = append(columns, output.Column[report]{Head: c.Name, Right: true, Cell: func(r report) string {
			s, ok := r.Furthest(c.Name)
			if !ok {
				return "-"
			}
			// The table has to fit: modulo is mod, and a z-score far from
			// chance needs no decimals.
			decimals := 1
			if math.Abs(s.Z) >= 100 {
				decimals = 0
			}
			return fmt.Sprintf("%s %-4s", output.FormatSigned(s.Z, decimals), strings.TrimSuffix(s.By, "ulo"))
		}})
	}
	return append(columns, output.Column[report]{Head: "verdict", Cell: func(r report) string { return r.Verdict.String() }})
}
