package oplog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

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
