package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func newCapCommand() *cobra.Command {
	cmd := newNounCommand("cap", "Limit the writes of a shard or prefix, in an emergency")
	cmd.AddCommand(newCapListCommand(), newCapShardCommand(), newCapPrefixCommand(), newCapRemoveCommand())
	return cmd
}

func newCapListCommand() *cobra.Command {
	return listCommand[api.Cap]{
		use: "list", short: "List the caps that hold",
		rows: func(ctx context.Context, c *api.Client, _ []string) ([]api.Cap, string, error) {
			rows, err := c.Caps(ctx)
			return rows, "", err
		},
		columns: capColumns, emptyText: "no caps",
	}.toCobra(nil)
}

var capColumns = []output.Column[api.Cap]{
	{Head: "cap", Right: true, Cell: func(c api.Cap) string { return strconv.FormatUint(c.ID, 10) }},
	{Head: "of", Cell: formatCapped, CutPriority: 1},
	{Head: "writes/s", Right: true, Cell: func(c api.Cap) string {
		if c.WritesPerSecond == 0 {
			return "read-only"
		}
		return strconv.FormatFloat(c.WritesPerSecond, 'f', -1, 64)
	}},
	{Head: "until", Cell: func(c api.Cap) string {
		if c.Until == nil {
			return "removed"
		}
		return c.Until.Local().Format(timeLayout)
	}},
	{Head: "refused", Right: true, Cell: func(c api.Cap) string { return output.Count(c.Refused) }},
}

// formatCapped is what is capped.
func formatCapped(c api.Cap) string {
	switch {
	case c.Shard != 0:
		return fmt.Sprintf("shard %d", c.Shard)
	case c.Prefix == nil || len(*c.Prefix) == 0:
		return "keyspace " + c.Keyspace
	}
	return fmt.Sprintf("%v… of keyspace %s", *c.Prefix, c.Keyspace)
}

const capLong = `

Writers beyond it wait for their turn. Where that is too far away, Redis clients
get THROTTLED with the time after which to try again, and programs that embed the
store wait until their context ends. Reads go on. --writes 0 makes it read-only.
The cap stays, also when the server is restarted, until --for is over or
cleave cap remove; a second one of the same takes its place.`

// capFlags are how much a cap admits, and for how long.
type capFlags struct {
	writes float64
	last   time.Duration
}

// addFlags adds them to a command.
func (f *capFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&f.writes, "writes", -1, "how many `writes` a second are admitted, 0 for none")
	cmd.Flags().DurationVar(&f.last, "for", 0, "how `long`, such as 10m (default until it is removed)")
}

// fill completes a request.
func (f *capFlags) fill(r *api.SetCap) error {
	switch {
	case f.writes < 0:
		return usageError{errors.New("say how many with --writes N: 0 or more a second")}
	case f.last < 0:
		return usageError{errors.New("--for is a time such as 10m")}
	}
	r.WritesPerSecond, r.Seconds = f.writes, f.last.Seconds()
	return nil
}

func newCapShardCommand() *cobra.Command {
	var f capFlags
	return actionCommand{
		use: "shard SHARD --writes N", short: "Cap the writes of a shard", args: exactArgs("SHARD"), harmless: true,
		long: `Cap the writes of a shard: of the keys that it has now. It stays on them when
the shard is split, merged or moved.` + capLong,
		example: "  cleave cap shard 7 --writes 100 --for 10m",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			var request api.SetCap
			if request.Shard, err = parseID("shard", args[0]); err != nil {
				return a, usageError{fmt.Errorf("shard %q: %w", args[0], err)}
			}
			if err := f.fill(&request); err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathSetCap, request, dryRun)
		},
	}.toCobra(f.addFlags)
}

func newCapPrefixCommand() *cobra.Command {
	var f capFlags
	var keyspace string
	return actionCommand{
		use: "prefix PREFIX --writes N", short: "Cap the writes of keys that begin alike", args: exactArgs("PREFIX"), harmless: true,
		long: `Cap the writes of the keys of a keyspace that begin with a prefix, in all slots.
An empty prefix is the whole keyspace.` + capLong,
		example: "  cleave cap prefix order: --writes 1000 --for 10m\n  cleave cap prefix '' --keyspace events --writes 0",
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			prefix, err := api.ParseKey(args[0])
			if err != nil {
				return a, usageError{err}
			}
			request := api.SetCap{Keyspace: keyspace, Prefix: &prefix}
			if err := f.fill(&request); err != nil {
				return a, err
			}
			return c.Post(ctx, api.PathSetCap, request, dryRun)
		},
	}.toCobra(func(cmd *cobra.Command) {
		f.addFlags(cmd)
		withKeyspaceFlag(&keyspace, "keyspace of the keys (default the default one)")(cmd)
	})
}

func newCapRemoveCommand() *cobra.Command {
	return actionCommand{
		use: "remove CAP", short: "Remove a cap: writers go on at once", args: exactArgs("CAP"), harmless: true,
		send: func(ctx context.Context, c *api.Client, args []string, dryRun bool) (a api.Action, err error) {
			id, err := parseID("cap", args[0])
			if err != nil {
				return a, usageError{fmt.Errorf("cap %q: %w, as cleave cap list has them", args[0], err)}
			}
			return c.Post(ctx, api.PathRemoveCap, api.RemoveCap{ID: id}, dryRun)
		},
	}.toCobra(nil)
}
