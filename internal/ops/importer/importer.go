// Package importer answers one question: how does what a Redis holds get into Cleave
// while both work?
//
// It walks the source with SCAN and copies strings and hashes with their remaining time
// to live, in pipelines. A key that the target has already is replaced, so whatever is
// copied twice is the same as copied once.
//
// The promise: a key that is in the source, unchanged, from beginning to end is in the
// target at the end. The place in the walk is written down only when the target has
// acknowledged all keys before it, and an import that was interrupted goes on from there:
// the cursors of SCAN hold over connections. They do not hold over a restart of the
// source, and over one of the target what was acknowledged may not: both are recognised
// by their run_id, and then the walk begins anew.
//
// The limits: what is written to the source meanwhile may be missed, also deletes: stop
// its writers, or import again. A hash of more than some dozen fields comes in pieces.
// Left out, counted and named are keys of types that are not served, HyperLogLogs among
// them, keys and values over the limits of Cleave, and what the target refuses for what it
// is. A refusal of any other kind, such as that of a full disk, is about all keys: then it
// stops, and goes on when that is put right.
package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options are what is copied from where to where.
type Options struct {
	Source, Target Endpoint
	// Match is a pattern of keys. Default all.
	Match string
	// State is the file with the place of the walk. Default none: then an import that is
	// interrupted begins anew.
	State string
	// DryRun counts and writes nothing.
	DryRun bool
	// Page is how many keys are asked for at a time. Default 512: their values fit into
	// memory, and a page is a few milliseconds of the source.
	Page int64
	// Progress is called after each page. Default none.
	Progress func(Report)
	// retryTimeout is how long a target is waited for that refuses what it will take later.
	// Default [defaultTimeout]; tests have less.
	retryTimeout time.Duration
}

// Report is what was copied. In JSON it is what scripts read.
type Report struct {
	// Keys is how many were met, of about Total in the source.
	Keys  int64 `json:"keys"`
	Total int64 `json:"total"`
	// Strings and Hashes were copied, or would be.
	Strings int64 `json:"strings"`
	Hashes  int64 `json:"hashes"`
	// Bytes of keys, values and fields were copied.
	Bytes int64 `json:"bytes"`
	// Skipped counts keys by type that is not served.
	Skipped map[string]int64 `json:"skipped"`
	// Gone keys expired, were deleted or replaced while they were read.
	Gone int64 `json:"gone"`
	// Failed keys are over a limit, or were refused by the target for what they are; Failures
	// says why, for the first ones.
	Failed   int64    `json:"failed"`
	Failures []string `json:"failures"`
	// LeftOut are all keys of the source that were not copied, by reason: those of Skipped
	// and of Failed.
	LeftOut []LeftOut `json:"left_out"`
	// Resumed reports whether it went on where another had stopped.
	Resumed bool `json:"resumed"`
	DryRun  bool `json:"dry_run"`
	// Complete reports whether the walk came to its end.
	Complete bool    `json:"complete"`
	Seconds  float64 `json:"seconds"`
	// resumedFrom is what earlier runs did, for rates.
	resumedFrom struct{ keys, bytes int64 }
}

// LeftOut are keys that were not copied for one reason.
type LeftOut struct {
	// Why continues "keys": of type list, which is not served.
	Why   string `json:"why"`
	Count int64  `json:"count"`
	// Keys are the first ones, in the form of api.Key; a long one is cut, and ends with an
	// ellipsis.
	Keys []string `json:"keys"`
}

// CountLeftOut is how many keys were not copied.
func (r *Report) CountLeftOut() (n int64) {
	for i := range r.LeftOut {
		n += r.LeftOut[i].Count
	}
	return n
}

// addLeftOut counts a key that is not copied.
func (r *Report) addLeftOut(why, name string) {
	at := slices.IndexFunc(r.LeftOut, func(l LeftOut) bool { return l.Why == why })
	if at < 0 {
		at = len(r.LeftOut)
		r.LeftOut = append(r.LeftOut, LeftOut{Why: why})
	}
	l := &r.LeftOut[at]
	if l.Count++; len(l.Keys) < maxNamedKeys {
		l.Keys = append(slices.Clip(l.Keys), name)
	}
}

// BytesPerSecond is the rate of this run.
func (r *Report) BytesPerSecond() float64 {
	return float64(r.Bytes-r.resumedFrom.bytes) / max(r.Seconds, 1e-3)
}

// ETASeconds is how long the rest takes at the rate of this run, below 0 if unknown.
func (r *Report) ETASeconds() float64 {
	done := r.Keys - r.resumedFrom.keys
	if done <= 0 || r.Total <= 0 {
		return -1
	}
	return float64(max(0, r.Total-r.Keys)) * r.Seconds / float64(done)
}

const (
	// maxListedFailures is how many failures are reported one by one.
	maxListedFailures = 10
	// maxNamedKeys is how many keys are named for each reason to leave one out.
	maxNamedKeys = 10
)

// importRun is an import under way.
type importRun struct {
	Options
	source, target *redis.Client
	state          walkState
	report         Report
	startedAt      time.Time
	refusedKey     string // the key that was refused last
}

// Run copies. When ctx ends it stops, and the same options go on from there.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Page == 0 {
		o.Page = 512
	}
	if o.Match == "" {
		o.Match = "*"
	}
	if o.retryTimeout == 0 {
		o.retryTimeout = defaultTimeout
	}
	r := &importRun{Options: o, source: o.Source.newClient(), target: o.Target.newClient(), startedAt: time.Now()}
	defer r.source.Close()
	defer r.target.Close()
	if err := r.prepareRun(ctx); err != nil {
		return r.report, err
	}
	err := r.copyAll(ctx)
	r.report.Seconds = time.Since(r.startedAt).Seconds()
	return r.report, err
}

// prepareRun greets both sides and finds the place to begin at.
func (r *importRun) prepareRun(ctx context.Context) error {
	total, err := r.source.DBSize(ctx).Result()
	if err != nil {
		return r.Source.wrapError("source", err)
	}
	if !r.DryRun {
		if err := r.target.Ping(ctx).Err(); err != nil {
			return r.Target.wrapError("target", err)
		}
	}
	r.state = r.newState(ctx)
	if found := r.findState(); found != nil {
		r.state, r.report = *found, found.Report
		r.report.Resumed = true
		r.report.resumedFrom.keys, r.report.resumedFrom.bytes = r.report.Keys, r.report.Bytes
	}
	r.report.Total, r.report.DryRun = total, r.DryRun
	if r.report.Skipped == nil {
		r.report.Skipped = map[string]int64{}
	}
	if r.report.Failures == nil {
		r.report.Failures = []string{}
	}
	if r.report.LeftOut == nil {
		r.report.LeftOut = []LeftOut{}
	}
	return nil
}

// copyAll reads and writes side by side until the end.
func (r *importRun) copyAll(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Few parts wait: each has up to maxChunkBytes, or one value.
	parts := make(chan chunk, 2)
	go func() {
		defer close(parts)
		if err := r.readSource(ctx, parts); err != nil {
			stop(r.Source.wrapError("source", err))
		}
	}()
	for p := range parts {
		if err := r.writeChunk(ctx, &p); err != nil {
			stop(r.Target.wrapError("target", err))
			continue // the reader sees that it is over
		}
		if ctx.Err() == nil && p.endsPage {
			if err := r.finishPage(ctx, p.nextCursor); err != nil {
				stop(err)
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if !r.report.Complete {
		return errors.New("the walk did not come to its end")
	}
	return nil
}

// ErrRestarted means that one of both was started anew meanwhile.
var ErrRestarted = errors.New("it was started anew meanwhile: give the same command again, which begins anew")

// checkNotRestarted refuses the end of a walk in which either server restarted: the source has
// given cursors of another walk then, and the target may have lost what it had taken. Clients
// reconnect by themselves, so nothing else notices.
func (r *importRun) checkNotRestarted(ctx context.Context) error {
	if fetchRunID(ctx, r.source) != r.state.Run {
		return fmt.Errorf("source %s: %w", r.Source, ErrRestarted)
	}
	if fetchRunID(ctx, r.target) != r.state.TargetRun {
		return fmt.Errorf("target %s: %w", r.Target, ErrRestarted)
	}
	return nil
}

// finishPage notes that all before a cursor is done.
func (r *importRun) finishPage(ctx context.Context, next uint64) error {
	if next == 0 && !r.DryRun {
		if err := r.checkNotRestarted(ctx); err != nil {
			return err
		}
	}
	r.state.Cursor, r.report.Complete = next, next == 0
	r.report.Seconds = time.Since(r.startedAt).Seconds()
	if err := r.saveState(); err != nil {
		return err
	}
	if r.Progress != nil {
		r.Progress(r.report)
	}
	return nil
}

// walkState is the place of a walk, as it is written down.
type walkState struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Match  string `json:"match"`
	// Run is the run_id of the source: its cursors hold as long as that is the same.
	Run string `json:"run_id"`
	// TargetRun is that of the target, which may have lost what it had acknowledged when it
	// is another.
	TargetRun string `json:"target_run_id"`
	Cursor    uint64 `json:"cursor,string"`
	Report    Report `json:"report"`
}

// newState is the state at the beginning of a walk.
func (r *importRun) newState(ctx context.Context) walkState {
	s := walkState{Source: r.Source.String(), Target: r.Target.String(), Match: r.Match, Run: fetchRunID(ctx, r.source)}
	if !r.DryRun { // then there may be no target
		s.TargetRun = fetchRunID(ctx, r.target)
	}
	return s
}

// fetchRunID returns the run_id of a server, "" if it reports none.
func fetchRunID(ctx context.Context, c *redis.Client) string {
	info, _ := c.Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// findState returns what an earlier run has written down, if it is of the same walk.
func (r *importRun) findState() *walkState {
	was, err := loadState(r.State)
	if err != nil || was == nil || r.DryRun {
		return nil
	}
	same := was.Source == r.state.Source && was.Target == r.state.Target && was.Match == r.state.Match
	alive := was.Run == r.state.Run && was.TargetRun == r.state.TargetRun
	told := was.Run != "" && was.TargetRun != ""
	if !same || !alive || !told || was.Cursor == 0 {
		return nil
	}
	return was
}

// loadState reads a file, nil if there is none. One that is damaged is an error.
func loadState(file string) (*walkState, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s walkState
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s is not the state of an import: %w", file, err)
	}
	return &s, nil
}

// CheckState refuses a file that is there and is not the state of the same import, before
// it is written over.
func CheckState(o Options) (resumes bool, err error) {
	was, err := loadState(o.State)
	if err != nil || was == nil {
		return false, err
	}
	match := o.Match
	if match == "" {
		match = "*"
	}
	if was.Source != o.Source.String() || was.Target != o.Target.String() || was.Match != match {
		return false, fmt.Errorf("%s is of another import, of %s from %s to %s: finish that one, or name another file with --state",
			o.State, was.Match, was.Source, was.Target)
	}
	return true, nil
}

// saveState writes the state down, as a whole or not at all, and removes it at the end.
func (r *importRun) saveState() error {
	if r.State == "" || r.DryRun {
		return nil
	}
	if r.report.Complete {
		if err := os.Remove(r.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	r.state.Report = r.report
	data, err := json.MarshalIndent(r.state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.State+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(r.State+".new", r.State)
}
