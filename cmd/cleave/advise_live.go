package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/trafficlog"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/key"
)

// liveFlags are those of advise about the traffic of a server.
type liveFlags struct {
	on               bool
	remote           remote
	keyspace, prefix string
	kind             string // of operations
	duration         time.Duration
}

func (l *liveFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&l.on, "live", false, "judge by what a server is asked for, in place of a file")
	flags.DurationVar(&l.duration, "for", time.Minute, "how long to look at --live traffic")
	flags.StringVar(&l.keyspace, "keyspace", "default", "`name` of the keyspace of --live")
	flags.StringVar(&l.prefix, "prefix", "", "only keys that begin with this `text`, of --live or MONITOR")
	flags.StringVar(&l.kind, "ops", "all", "`which` operations of --live or MONITOR: all, reads or\nwrites")
	l.remote.addServerFlags(cmd)
	completeFlags(cmd, map[string]cobra.CompletionFunc{
		"keyspace": completeKeyspaces,
		"ops":      cobra.FixedCompletions([]cobra.Completion{"all", "reads", "writes"}, cobra.ShellCompDirectiveNoFileComp),
	})
}

// liveOnly are the flags that mean nothing without --live.
var liveOnly = []string{"for", "keyspace", "addr", "cacert", "token-file", "data", "timeout"}

// checkFlags refuses flags that would be ignored.
func (l *liveFlags) checkFlags(cmd *cobra.Command) error {
	if l.kind != "all" && l.kind != "reads" && l.kind != "writes" {
		return usageError{fmt.Errorf("--ops %s: want all, reads or writes", l.kind)}
	}
	if !l.on {
		for _, name := range liveOnly {
			if cmd.Flags().Changed(name) {
				return usageError{fmt.Errorf("--%s is for --live", name)}
			}
		}
		return nil
	}
	for _, name := range []string{"format", "no-header", "strict", "table", "sample", "queries"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s is not for --live: a server is asked by keys alone", name)}
		}
	}
	if l.duration <= 0 {
		return usageError{fmt.Errorf("--for %v: want more than nothing, such as 1m", l.duration)}
	}
	return nil
}

// options are which operations count.
func (l *liveFlags) options() trafficlog.Options {
	return trafficlog.Options{Prefix: []byte(l.prefix), OnlyWrites: l.kind == "writes", OnlyReads: l.kind == "reads"}
}

// pollTime is how often a server is asked: one that does four million operations a second keeps those of so long.
const pollTime = 250 * time.Millisecond

// openLive begins to look at what a server is asked for.
func (l *liveFlags) openLive(ctx context.Context) (*adviseInput, error) {
	client, err := l.remote.newClient()
	if err != nil {
		return nil, err
	}
	spaces, err := client.Keyspaces(ctx)
	if err != nil {
		return nil, l.remote.withExitCode(err)
	}
	n := slices.IndexFunc(spaces, func(k api.Keyspace) bool { return k.Name == l.keyspace })
	if n < 0 {
		return nil, usageError{fmt.Errorf("--keyspace %s: the server has no such keyspace", l.keyspace)}
	}
	o := l.options()
	if text := spaces[n].Layout; text != "" {
		if o.Layout, err = key.ParseLayout(text); err != nil {
			return nil, fmt.Errorf("the layout of keyspace %s: %w", l.keyspace, err)
		}
	}
	first, err := client.Traffic(ctx, l.keyspace, "")
	if err != nil {
		return nil, l.remote.withExitCode(err)
	}
	p := &trafficPoll{ctx: ctx, client: client, flags: l, began: time.Now(), last: first}
	in := &adviseInput{name: "the traffic of the server", src: trafficlog.NewReader(p.next, o), close: func() {}}
	in.fraction = func(_ advisor.Progress) float64 { return min(1, float64(time.Since(p.began))/float64(l.duration)) }
	in.addNotes = p.addNotes
	return in, nil
}

// trafficPoll asks a server for operations, again and again.
type trafficPoll struct {
	ctx    context.Context
	client *api.Client
	flags  *liveFlags
	began  time.Time
	asked  bool

	mu   sync.Mutex // the source may outlast an analysis that was interrupted
	took time.Duration
	last api.Traffic
	seen int
	lost uint64
}

// next appends the operations that have come since the last call. The source calls it one at a time.
func (p *trafficPoll) next(ops []trafficlog.Operation) ([]trafficlog.Operation, error) {
	took := time.Since(p.began)
	if took >= p.flags.duration && p.asked {
		return ops, io.EOF
	}
	select {
	case <-p.ctx.Done():
		return ops, p.ctx.Err()
	case <-time.After(min(pollTime, p.flags.duration-took)):
	}
	p.asked = true
	page, err := p.client.Traffic(p.ctx, p.flags.keyspace, p.last.Next)
	if err != nil {
		if p.ctx.Err() != nil {
			return ops, p.ctx.Err()
		}
		return ops, p.flags.remote.withExitCode(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took, p.last = time.Since(p.began), page
	p.lost += page.Lost
	p.seen += len(page.Operations)
	for _, o := range page.Operations {
		ops = append(ops, trafficlog.Operation{Key: o.Key, Write: o.Write, Bytes: o.Bytes})
	}
	return ops, nil
}

// addNotes says what the operations are of.
func (p *trafficPoll) addNotes(notes []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes = append(notes, fmt.Sprintf("One operation in %d of keyspace %s over %s: about %s operations a second.",
		p.last.Every, p.flags.keyspace, output.Seconds(p.took.Round(time.Second).Seconds()), output.Count(int64(float64(p.seen*p.last.Every)/max(p.took.Seconds(), 1)))))
	if p.lost > 0 {
		notes = append(notes, fmt.Sprintf("%s of the sample came too fast to be read.", output.Plural(p.lost, "operation")))
	}
	if p.last.TooLong > 0 {
		notes = append(notes, fmt.Sprintf("%s on keys of more than about 500 bytes are left out.", output.Plural(p.last.TooLong, "operation")))
	}
	return notes
}

// errNoTraffic is why there is no report.
var errNoTraffic = errors.New("no operation came that is in the sample, one of 128: look longer with --for, or see whether --keyspace, --prefix and --ops are right")
