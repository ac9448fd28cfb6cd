package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

// patience is how long a shell waits for names from the server: whoever presses tab
// would rather get none.
const patience = time.Second

// remoteOf reads the flags of a command that talks to a server back from it.
func remoteOf(cmd *cobra.Command) (*remote, error) {
	r := &remote{timeout: patience}
	flags := cmd.Flags()
	for name, to := range map[string]*string{"addr": &r.addr, "token-file": &r.tokenFile, "data": &r.data} {
		if f := flags.Lookup(name); f != nil {
			*to = f.Value.String()
		}
	}
	if d, err := flags.GetDuration("timeout"); err == nil {
		r.timeout = d
	}
	if f := flags.Lookup("output"); f != nil {
		return r, r.format.Set(f.Value.String())
	}
	return r, nil
}

// fromServer completes with what the server has. If it does not answer, with nothing.
func fromServer[T any](list func(context.Context, *api.Client) ([]T, error), name func(T) (word, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		r, err := remoteOf(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r.timeout = min(r.timeout, patience)
		c, err := r.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		things, err := list(cmd.Context(), c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, t := range things {
			word, about := name(t)
			words = append(words, cobra.CompletionWithDesc(word, about))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeOne completes the first argument alone.
func completeOne(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

var (
	completeShards = fromServer(func(ctx context.Context, c *api.Client) ([]api.Shard, error) { return c.Shards(ctx, api.ShardFilter{}) },
		func(s api.Shard) (string, string) { return fmt.Sprint(s.ID), s.Keyspace + " " + shardKeys(s) })
	completeGroups = fromServer(func(ctx context.Context, c *api.Client) ([]api.Group, error) { return c.Groups(ctx) },
		func(g api.Group) (string, string) { return fmt.Sprint(g.ID), output.Counted(g.Shards, "shard") })
	completeKeyspaces = fromServer(func(ctx context.Context, c *api.Client) ([]api.Keyspace, error) { return c.Keyspaces(ctx) },
		func(k api.Keyspace) (string, string) { return k.Name, k.Kind })
	completeIndexes = fromServer(func(ctx context.Context, c *api.Client) ([]api.Index, error) { return c.Indexes(ctx, "") },
		func(i api.Index) (string, string) { return i.Name, "of " + i.Keyspace })
	completeJobs = fromServer(func(ctx context.Context, c *api.Client) ([]api.Job, error) { return c.Jobs(ctx) },
		func(j api.Job) (string, string) { return j.ID, j.Kind + " " + j.State })
	completeBackups = fromServer(func(ctx context.Context, c *api.Client) ([]api.Backup, error) {
		b, _, err := c.Backups(ctx)
		return b, err
	},
		func(b api.Backup) (string, string) { return b.Name, b.Created.Local().Format(timeForm) })
)
