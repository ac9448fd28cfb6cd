package oplog

import (
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
