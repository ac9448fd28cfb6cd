package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/route"
)

// completeFlags lets shells complete a command that takes no arguments: the
// values of some flags, and no names of files for anything else.
func completeFlags(cmd *cobra.Command, values map[string]cobra.CompletionFunc) {
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete, ok := values[f.Name]
		if !ok {
			complete = cobra.NoFileCompletions
		}
		// It fails for a flag that is not there or has one already: f is
		// there, and is met once.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
}

func completeOutput(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return output.FormatNames(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeKinds completes the last name of a list with those not in it yet.
func completeKinds(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		list, last = typed[:i+1], typed[i+1:]
	}
	var names []cobra.Completion
	for _, k := range route.Kinds() {
		if strings.HasPrefix(k.Name, last) && !slices.Contains(strings.Split(list, ","), k.Name) {
			names = append(names, cobra.CompletionWithDesc(list+k.Name, k.Summary))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeMissingFlags is completeFlags for a command that takes arguments too, or gets its flags
// in several steps: what has a completion already keeps it.
func completeMissingFlags(cmd *cobra.Command, values map[string]cobra.CompletionFunc) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
			return
		}
		complete, ok := values[f.Name]
		if !ok {
			complete = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it has none: see above
	})
}

// completeFiles lets the shell complete names of files.
func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeDirs lets the shell complete names of directories.
func completeDirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completionTimeout is how long a shell waits for names from the server: at the tab key
// no names are better than a wait.
const completionTimeout = time.Second

// parseRemote reads the flags of a command that talks to a server back from it.
func parseRemote(cmd *cobra.Command) (*remote, error) {
	r := &remote{timeout: completionTimeout}
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

// completeFromServer completes with what the server has. If it does not answer, with nothing.
func completeFromServer[T any](list func(context.Context, *api.Client) ([]T, error), name func(T) (word, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		r, err := parseRemote(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r.timeout = min(r.timeout, completionTimeout)
		c, err := r.newClient()
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

// completeFirstArg completes the first argument alone.
func completeFirstArg(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

var (
	completeShards = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Shard, error) { return c.Shards(ctx, api.ShardFilter{}) },
		func(s api.Shard) (string, string) {
			return fmt.Sprint(s.ID), output.Clip(s.Keyspace+" "+formatShardKeys(s), 60)
		})
	completeGroups = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Group, error) { return c.Groups(ctx) },
		func(g api.Group) (string, string) { return fmt.Sprint(g.ID), output.Plural(g.Shards, "shard") })
	completeKeyspaces = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Keyspace, error) { return c.Keyspaces(ctx) },
		func(k api.Keyspace) (string, string) { return k.Name, k.Kind })
	completeIndexes = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Index, error) { return c.Indexes(ctx, "") },
		func(i api.Index) (string, string) { return i.Name, "of " + i.Keyspace })
	completeJobs = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Job, error) { return c.Jobs(ctx) },
		func(j api.Job) (string, string) { return j.ID, j.Kind + " " + j.State })
	completeBackups = completeFromServer(func(ctx context.Context, c *api.Client) ([]api.Backup, error) {
		b, _, err := c.Backups(ctx)
		return b, err
	},
		func(b api.Backup) (string, string) { return b.Name, b.Created.Local().Format(timeLayout) })
)
