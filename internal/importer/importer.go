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
// Types that are not served are counted and left out, and so is a key that the target
// refuses for what it is. A refusal of any other kind, such as that of a full disk, is
// about all keys: then it stops, and goes on when that is put right.
package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options are what is copied from where to where.
type Options struct {
	Source, Target Place
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
	// Progress is told how far it is after each page. Default nobody.
	Progress func(Report)
	// patience is how long a target is waited for that refuses what it will take later.
	// Default [patience]; tests have less.
	patience time.Duration
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
	// Failed keys were refused by the target for what they are; Failures says why, for the first ones.
	Failed   int64    `json:"failed"`
	Failures []string `json:"failures"`
	// Resumed tells that it went on where another had stopped.
	Resumed bool `json:"resumed"`
	DryRun  bool `json:"dry_run"`
	// Complete tells that the walk came to its end.
	Complete bool    `json:"complete"`
	Seconds  float64 `json:"seconds"`
	// before is what earlier runs did, for rates.
	before struct{ keys, bytes int64 }
}

// BytesPerSecond is the rate of this run.
func (r *Report) BytesPerSecond() float64 {
	return float64(r.Bytes-r.before.bytes) / max(r.Seconds, 1e-3)
}

// ETASeconds is how long the rest takes at the rate of this run, below 0 if nobody knows.
func (r *Report) ETASeconds() float64 {
	done := r.Keys - r.before.keys
	if done <= 0 || r.Total <= 0 {
		return -1
	}
	return float64(max(0, r.Total-r.Keys)) * r.Seconds / float64(done)
}

// maxFailures is how many failures are told one by one.
const maxFailures = 10

// run is an import under way.
type run struct {
	Options
	source, target *redis.Client
	state          state
	report         Report
	began          time.Time
	failing        string // the key that was refused last
}

// Run copies. When ctx ends it stops, and the same options go on from there.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Page == 0 {
		o.Page = 512
	}
	if o.Match == "" {
		o.Match = "*"
	}
	if o.patience == 0 {
		o.patience = patience
	}
	r := &run{Options: o, source: o.Source.connect(), target: o.Target.connect(), began: time.Now()}
	defer r.source.Close()
	defer r.target.Close()
	if err := r.begin(ctx); err != nil {
		return r.report, err
	}
	err := r.walk(ctx)
	r.report.Seconds = time.Since(r.began).Seconds()
	return r.report, err
}

// begin greets both sides and finds the place to begin at.
func (r *run) begin(ctx context.Context) error {
	total, err := r.source.DBSize(ctx).Result()
	if err != nil {
		return r.Source.failed("source", err)
	}
	if !r.DryRun {
		if err := r.target.Ping(ctx).Err(); err != nil {
			return r.Target.failed("target", err)
		}
	}
	r.state = r.fresh(ctx)
	if found := r.found(); found != nil {
		r.state, r.report = *found, found.Report
		r.report.Resumed = true
		r.report.before.keys, r.report.before.bytes = r.report.Keys, r.report.Bytes
	}
	r.report.Total, r.report.DryRun = total, r.DryRun
	if r.report.Skipped == nil {
		r.report.Skipped = map[string]int64{}
	}
	if r.report.Failures == nil {
		r.report.Failures = []string{}
	}
	return nil
}

// walk reads and writes side by side until the end.
func (r *run) walk(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Few parts wait: each has up to partBytes, or one value.
	parts := make(chan part, 2)
	go func() {
		defer close(parts)
		if err := r.read(ctx, parts); err != nil {
			stop(r.Source.failed("source", err))
		}
	}()
	for p := range parts {
		if err := r.write(ctx, &p); err != nil {
			stop(r.Target.failed("target", err))
			continue // the reader sees that it is over
		}
		if ctx.Err() == nil && p.ends {
			if err := r.turnPage(ctx, p.next); err != nil {
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

// sameRuns refuses the end of a walk in which one of both was started anew: the source has
// given cursors of another walk then, and the target may have lost what it had taken. Clients
// connect again by themselves, so nobody else notices.
func (r *run) sameRuns(ctx context.Context) error {
	if runID(ctx, r.source) != r.state.Run {
		return fmt.Errorf("source %s: %w", r.Source, ErrRestarted)
	}
	if runID(ctx, r.target) != r.state.TargetRun {
		return fmt.Errorf("target %s: %w", r.Target, ErrRestarted)
	}
	return nil
}

// turnPage notes that all before a cursor is done.
func (r *run) turnPage(ctx context.Context, next uint64) error {
	if next == 0 && !r.DryRun {
		if err := r.sameRuns(ctx); err != nil {
			return err
		}
	}
	r.state.Cursor, r.report.Complete = next, next == 0
	r.report.Seconds = time.Since(r.began).Seconds()
	if err := r.remember(); err != nil {
		return err
	}
	if r.Progress != nil {
		r.Progress(r.report)
	}
	return nil
}
