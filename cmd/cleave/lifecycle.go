package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/ops/tracing"
)

// openLog opens the log of a server. Its level can change.
func openLog(c *config.Config, errOut io.Writer) (*oplog.Log, *slog.LevelVar, error) {
	var level slog.LevelVar
	least, ok := oplog.ParseLevel(c.Text("loglevel"))
	if !ok {
		return nil, nil, fmt.Errorf("--loglevel: %q is none", c.Text("loglevel")) // the table has others
	}
	level.Set(least)
	log, err := oplog.New(oplog.Options{File: c.Text("logfile"), Stderr: errOut, Format: c.Text("log-format"), Level: &level})
	if err != nil {
		return nil, nil, fmt.Errorf("--logfile: %w: name a file that can be written", err)
	}
	return log, &level, nil
}

// logStart logs what a server is started with, as far as it matters to a reader of the log.
func logStart(log *slog.Logger, c *config.Config, file string) {
	args := []any{"version", readModuleVersion(), "pid", os.Getpid(), "go", runtime.Version(), "processors", runtime.GOMAXPROCS(0)}
	if file != "" {
		args = append(args, "config", file)
	}
	names := []string{"storage", "data", "appendfsync", "stores", "groups", "cache-mib", "block-cache-mib", "maxclients", "io-threads", "loglevel"}
	if c.Text("storage") == "memory" {
		names = []string{"storage", "maxmemory", "stores", "groups", "cache-mib", "maxclients", "io-threads", "loglevel"}
	}
	for _, name := range names {
		args = append(args, name, c.Text(name))
	}
	log.Info("starting", args...)
	if c.Source("requirepass") == config.FromFlag && c.Text("requirepass") != "" {
		log.Warn("requirepass is a flag, which lists of processes show: use the file or CLEAVE_REQUIREPASS")
	}
}

// logReady logs where clients and operators connect.
func logReady(log *slog.Logger, l listeners, o *operatorServer, took time.Duration) {
	args := []any{"took", took}
	for _, x := range []struct {
		name string
		l    net.Listener
	}{{"resp", l.plain}, {"tls", l.encrypted}} {
		if x.l != nil {
			args = append(args, x.name, x.l.Addr().String())
		}
	}
	if o != nil {
		args = append(args, "http", o.baseURL())
	}
	log.Info("ready", args...)
}

// shutdownSignal is what the command SHUTDOWN of a client is among signals.
type shutdownSignal struct{}

// Signal makes it one.
func (shutdownSignal) Signal() {}

// String names it. Its sender is in the log before.
func (shutdownSignal) String() string { return "the command SHUTDOWN" }

// formatSignal is the name that people know a signal by.
func formatSignal(s os.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return s.String()
}

// shutdownLog is the end of a server, the zero value one that was not ready yet.
type shutdownLog struct{ began time.Time }

// beginShutdown logs why a server ends.
func beginShutdown(log *slog.Logger, reason string) shutdownLog {
	log.Info("shutting down", "reason", reason)
	return shutdownLog{time.Now()}
}

// logStopped logs that the server has ended.
func (s shutdownLog) logStopped(log *slog.Logger, err error) {
	switch {
	case s.began.IsZero():
	case err != nil:
		log.Error("stopped", "took", time.Since(s.began), "error", err)
	default:
		log.Info("stopped", "took", time.Since(s.began))
	}
}

// reloadConfig opens the log anew, reads the configuration again and makes the server take what can
// change. What clients have set with CONFIG SET stays, unless the configuration says something
// else than it did before. Certificates need nothing: they are read when they change.
func (r *runningServer) reloadConfig() {
	if err := r.log.Reopen(); err != nil {
		r.log.Error("the log cannot be opened anew: it goes on in the old file", "error", err)
	}
	log := r.log.With("signal", "SIGHUP")
	started, old := r.currentConfig()
	c, err := config.Load(r.from)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			log.Error("reload refused, nothing is changed", "error", strings.TrimSuffix(line, "\n"))
		}
		return
	}
	live, _ := old.Diff(c)
	_, restart := started.Diff(c) // also what waits since an earlier reload
	if len(live) > 0 {
		deriveClientSettings(live, c, r.memory)
		if err := r.s.Configure(live); err != nil {
			log.Error("reload refused, nothing is changed", "error", err)
			return
		}
	}
	r.mu.Lock()
	r.latest = c
	r.mu.Unlock()
	var changed []any
	if len(live) > 0 {
		changed = append(changed, "in_effect", strings.Join(slices.Sorted(maps.Keys(live)), ","))
	}
	if len(restart) > 0 {
		changed = append(changed, "waits_for_restart", strings.Join(restart, ","))
	}
	log.Info("reloaded", changed...)
}

// notifyServiceManager reports the state of the server to the service manager, as sd_notify does: a
// datagram to the socket that the environment names. Without one it does nothing.
func notifyServiceManager(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// A name that begins with @ is of the abstract kind, which package net writes so too.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell %s of NOTIFY_SOCKET: %w", state, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell %s of NOTIFY_SOCKET: %w", state, err)
	}
	return nil
}

// newTracer returns the sender of spans to a collector. It is nil if there is none.
func newTracer(ctx context.Context, c *config.Config, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.New(ctx, tracing.Options{Endpoint: c.Text("otlp-endpoint"), Version: readModuleVersion(), OnError: newTraceErrorLogger(log, traceErrorInterval)})
}

// traceErrorInterval is how often it is logged that a collector cannot be reached: it may be
// away for days.
const traceErrorInterval = time.Minute

// newTraceErrorLogger returns a function that logs errors of the collector, but not all the time.
func newTraceErrorLogger(log *slog.Logger, every time.Duration) func(error) {
	limited := slog.New(oplog.NewLimiter(log.Handler(), 1, every))
	return func(err error) { limited.Warn("spans are lost", "error", err) }
}

// closeTracer sends what is left, but does not wait long for a collector that is away.
func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = t.Close(ctx) // an error has no reader at this point
}
