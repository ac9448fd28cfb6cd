// Package oplog makes the log of a server with log/slog: levels under the names of Redis, a file
// that can be reopened, and a handler that bounds how often one kind of event is written.
//
// Whatever has something to report takes a *slog.Logger. Events that a client can cause as often
// as it likes go through a [Limiter]. The message of an event is a constant, and so is its
// attribute "reason": both together are the kind that is bounded. Values and secrets are never
// attributes; the handlers of slog escape what is.
package oplog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// Options are how a log is written.
type Options struct {
	// File is where it is written to, made if need be. Empty for Stderr.
	File string
	// Stderr is written to if there is no File.
	Stderr io.Writer
	// Format is "text" or "json".
	Format string
	// Level is the least level that is written. It may change.
	Level *slog.LevelVar
}

// Log is the log of a server.
type Log struct {
	*slog.Logger
	out *logFile
}

// New opens a log.
func New(o Options) (*Log, error) {
	var out io.Writer = o.Stderr
	l := &Log{}
	if o.File != "" {
		l.out = &logFile{path: o.File}
		if err := l.out.reopen(); err != nil {
			return nil, err
		}
		out = l.out
	}
	ho := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: replaceAttr}
	switch o.Format {
	case "text", "":
		l.Logger = slog.New(slog.NewTextHandler(out, ho))
	case "json":
		l.Logger = slog.New(slog.NewJSONHandler(out, ho))
	default:
		return nil, fmt.Errorf("oplog: format %q: want text or json", o.Format)
	}
	return l, nil
}

// replaceAttr names the level that slog has no name for, and writes durations as people do in
// JSON too.
func replaceAttr(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey && level == LevelVerbose {
		a.Value = slog.StringValue("VERBOSE")
	}
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// Reopen opens the file by its name again: what rotates logs has given the old one another.
// If that fails the old one is written to as before.
func (l *Log) Reopen() error {
	if l.out == nil {
		return nil
	}
	return l.out.reopen()
}

// Close closes the file.
func (l *Log) Close() error {
	if l.out == nil {
		return nil
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	return l.out.f.Close()
}

// logFile is a file that can be reopened while it is written to.
type logFile struct {
	path string
	mu   sync.Mutex
	f    *os.File
}

// Write appends to the file.
func (w *logFile) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Write(b)
}

func (w *logFile) reopen() error {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w.mu.Lock()
	old := w.f
	w.f = f
	w.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.Close()
}

// LevelVerbose is for what is worth a line only during an investigation: each connection, say.
const LevelVerbose = slog.LevelDebug + 2

// levelNames are the levels of the setting loglevel of Redis, from the most talkative on.
var levelNames = []string{"debug", "verbose", "notice", "warning"}

var levels = []slog.Level{slog.LevelDebug, LevelVerbose, slog.LevelInfo, slog.LevelWarn}

// LevelNames returns the names that [ParseLevel] takes.
func LevelNames() []string { return slices.Clone(levelNames) }

// ParseLevel returns the level of a name, and whether there is one.
func ParseLevel(name string) (slog.Level, bool) {
	i := slices.Index(levelNames, name)
	if i < 0 {
		return 0, false
	}
	return levels[i], true
}

// ReasonKey is the attribute that distinguishes kinds of events which have the same message.
const ReasonKey = "reason"

// maxEventKinds bounds how many kinds of events are counted apart. Messages and reasons are constants, so
// there are few; a mistake there must not take up memory without end.
const maxEventKinds = 1000

// Limiter is a handler that passes on some events of each kind in a window of time and counts the
// rest. The window begins with an event; when it ends a line says how many were left out.
type Limiter struct {
	next  slog.Handler
	state *limiterState
}

// limiterState is shared by the handlers that With makes of one.
type limiterState struct {
	burst  int
	window time.Duration

	mu     sync.Mutex
	kinds  map[eventKind]*kindCounter
	closed bool
}

type eventKind struct{ message, reason string }

// kindCounter counts the events of a kind in its window.
type kindCounter struct {
	passed, suppressed int
	// level and next are those of the last event that was left out.
	level slog.Level
	next  slog.Handler
	timer *time.Timer
}

// NewLimiter returns a handler that passes on to next at most burst events of a kind in a window.
func NewLimiter(next slog.Handler, burst int, window time.Duration) *Limiter {
	return &Limiter{next: next, state: &limiterState{burst: burst, window: window, kinds: map[eventKind]*kindCounter{}}}
}

// Enabled implements [slog.Handler].
func (l *Limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (l *Limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Limiter{next: l.next.WithAttrs(attrs), state: l.state}
}

// WithGroup implements [slog.Handler].
func (l *Limiter) WithGroup(name string) slog.Handler {
	return &Limiter{next: l.next.WithGroup(name), state: l.state}
}

// Handle implements [slog.Handler].
func (l *Limiter) Handle(ctx context.Context, r slog.Record) error {
	k := eventKind{message: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == ReasonKey {
			k.reason = a.Value.String()
		}
		return a.Key != ReasonKey
	})
	if !l.state.admitEvent(k, r.Level, l.next) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// admitEvent counts an event, and reports whether it is passed on.
func (s *limiterState) admitEvent(k eventKind, level slog.Level, next slog.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.kinds[k]
	switch {
	case s.closed:
		return true // few come when the server ends
	case t == nil && len(s.kinds) >= maxEventKinds:
		k = eventKind{message: "other events"}
		t = s.kinds[k]
	}
	if t == nil {
		t = &kindCounter{}
		s.kinds[k] = t
		t.timer = time.AfterFunc(s.window, func() { s.endWindow(k, t) })
	}
	if t.passed < s.burst {
		t.passed++
		return true
	}
	t.suppressed++
	t.level, t.next = level, next
	return false
}

// endWindow ends the window of a kind.
func (s *limiterState) endWindow(k eventKind, t *kindCounter) {
	s.mu.Lock()
	if s.kinds[k] != t {
		s.mu.Unlock()
		return
	}
	delete(s.kinds, k)
	s.mu.Unlock()
	t.reportSuppressed(k, s.window)
}

// reportSuppressed writes how many events were left out, if some were. The window has ended.
func (t *kindCounter) reportSuppressed(k eventKind, window time.Duration) {
	if t.suppressed == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), t.level, k.message, 0)
	if k.reason != "" {
		r.AddAttrs(slog.String(ReasonKey, k.reason))
	}
	r.AddAttrs(slog.Int("suppressed", t.suppressed), slog.Duration("within", window))
	_ = t.next.Handle(context.Background(), r)
}

// Close ends all windows: what was left out is reported. Later events are passed on.
func (l *Limiter) Close() {
	s := l.state
	s.mu.Lock()
	kinds := s.kinds
	s.kinds, s.closed = nil, true
	s.mu.Unlock()
	for k, t := range kinds {
		t.timer.Stop()
		t.reportSuppressed(k, s.window)
	}
}
