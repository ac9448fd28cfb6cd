package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/store"
)

// eventLog writes to the log what an operator should know. What can come often is bounded.
type eventLog struct {
	logger  *slog.Logger
	limited *slog.Logger
	limiter *oplog.Limiter
}

const (
	// eventBurst lines of one kind are logged in eventWindow. The rest is counted.
	eventBurst  = 5
	eventWindow = 10 * time.Second
	// watchInterval is how often stores are asked how they are. A full disk that has room again
	// within that time is not worth a line.
	watchInterval = 250 * time.Millisecond
)

func newEventLog(log *slog.Logger) eventLog {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := eventLog{logger: log, limiter: oplog.NewLimiter(log.Handler(), eventBurst, eventWindow)}
	e.limited = slog.New(e.limiter)
	return e
}

// close reports what was left out.
func (e *eventLog) close() { e.limiter.Close() }

// storeEvents are those of one store.
type storeEvents struct {
	eventLog
	store int
}

// Recovered implements [store.Events].
func (e storeEvents) Recovered(r store.Recovery) {
	e.logger.Info("store opened", "store", e.store, "dir", r.Dir, "took", r.Took, "replayed_entries", r.Entries, "replayed_bytes", r.Bytes)
}

// SlowDisk implements [store.Events].
func (e storeEvents) SlowDisk(op string, took time.Duration, bytes int) {
	e.limited.Warn("slow disk", "reason", op, "store", e.store, "took", took, "bytes", bytes)
}

// watchStores logs that stores lack space or have stopped, and the end of the lack,
// until the node is closed.
func (n *Node) watchStores() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	watched := make([]storeCondition, len(n.storeHosts))
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
		for i, h := range n.storeHosts {
			lack, failed := h.Store.CheckHealth()
			watched[i].reportChange(n.events.logger.With("store", i), lack, failed, time.Now())
		}
	}
}

// storeCondition is how a store was when it was last asked.
type storeCondition struct {
	lack   error
	since  time.Time // of the lack
	failed bool
}

// reportChange logs what has changed.
func (c *storeCondition) reportChange(log *slog.Logger, lack, failed error, now time.Time) {
	if failed != nil {
		if !c.failed {
			log.Error("store has failed: it takes no more requests until the cause is repaired and it is opened again", "error", failed)
		}
		c.failed = true
		return
	}
	switch {
	case lack != nil && c.lack == nil:
		c.since = now
		log.Error("store lacks room: writes are refused until there is some", "error", lack)
	case lack == nil && c.lack != nil:
		log.Info("store has room again", "lasted", now.Sub(c.since))
	}
	c.lack = lack
}

// jobLogger is the log of a job. What is done for another job is logged at a finer level.
type jobLogger struct {
	logger  *slog.Logger
	isChild bool
}

func (e *eventLog) newJobLogger(j *mover.Job) jobLogger {
	l := jobLogger{e.logger.With("job", uint64(j.ID), "kind", j.Kind.String()), j.Parent != 0}
	if l.isChild {
		l.logger = l.logger.With("parent", uint64(j.Parent))
	}
	return l
}

// Info logs an event, of a child at level debug.
func (l jobLogger) Info(message string, args ...any) {
	level := slog.LevelInfo
	if l.isChild {
		level = slog.LevelDebug
	}
	l.logger.Log(context.Background(), level, message, args...)
}

// reportJobStarted logs a job that was admitted.
func (e *eventLog) reportJobStarted(j *mover.Job) {
	args := []any{}
	for _, f := range []struct {
		name  string
		value uint64
	}{{"shard", uint64(j.Shard)}, {"from", uint64(j.From)}, {"to", uint64(j.To)}, {"cuts", uint64(len(j.At))}, {"groups", uint64(j.TargetGroups)}} {
		if f.value != 0 {
			args = append(args, f.name, f.value)
		}
	}
	e.newJobLogger(j).Info("job begun", args...)
}

// reportJobControl logs what a caller has changed about a job.
func (e *eventLog) reportJobControl(before, after *mover.Job) {
	l := e.newJobLogger(after)
	switch {
	case after.Undo && !before.Undo:
		l.Info("job cancelled", "phase", before.Phase.String())
	case after.Paused && !before.Paused:
		l.Info("job paused")
	case !after.Paused && before.Paused:
		l.Info("job goes on")
	case after.Throttle != before.Throttle:
		l.Info("job throttled", "bytes_per_second", after.Throttle)
	}
}

// reportStepFailed logs an error of a job. The step is tried again, or the job taken back.
func (e *eventLog) reportStepFailed(j *mover.Job, err error) {
	e.limited.Warn("job step failed", "reason", j.Kind.String()+" "+j.Phase.String(), "job", uint64(j.ID), "error", err)
}

// reportJobEnded logs the end of a job, and what it has cost.
func (e *eventLog) reportJobEnded(j *mover.Job) {
	cost := []any{
		"took", time.Duration(j.DurationMS()) * time.Millisecond, "rows", j.Cost.Rows, "bytes", j.Cost.Bytes,
		"writes_paused", time.Duration(j.Cost.PauseMS) * time.Millisecond,
	}
	if _, undone := j.HasEnded(); undone {
		e.newJobLogger(j).logger.Warn("job taken back", append(cost, "reason", j.Reason)...)
		return
	}
	e.newJobLogger(j).Info("job done", cost...)
}
