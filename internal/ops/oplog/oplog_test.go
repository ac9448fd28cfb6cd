package oplog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// syncBuffer is one that timers may write to.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *syncBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// newTestLog makes a log in memory.
func newTestLog(t *testing.T, out *syncBuffer, o Options) *Log {
	t.Helper()
	o.Stderr = out
	if o.Level == nil {
		o.Level = new(slog.LevelVar)
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLimiter_AFloodOfOneKind_IsCountedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		limit := NewLimiter(newTestLog(t, &out, Options{}).Handler(), 2, 10*time.Second)
		l := slog.New(limit).With("part", "serve")
		for i := range 100 {
			l.Warn("client refused", "reason", "maxclients", "n", i)
		}
		l.Warn("client refused", "reason", "protected mode")
		if got := strings.Count(out.String(), "\n"); got != 3 {
			t.Errorf("there are %d lines:\n%s", got, &out)
		}
		out.Reset()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN msg=\"client refused\" part=serve reason=maxclients suppressed=98 within=10s") {
			t.Errorf("at the end of the window it says %q", got)
		}
		out.Reset()
		l.Warn("client refused", "reason", "maxclients")
		if got := strings.Count(out.String(), "\n"); got != 1 {
			t.Errorf("the next window begins with %d lines", got)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := strings.Count(out.String(), "\n"); got != 1 {
			t.Errorf("a window in which nothing was left out ends with a line:\n%s", &out)
		}
	})
}

func TestLimiter_Closed_ReportsWhatItHasLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		limit := NewLimiter(newTestLog(t, &out, Options{}).Handler(), 1, time.Hour)
		for range 5 {
			slog.New(limit).Info("event")
		}
		limit.Close()
		limit.Close()
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "suppressed=4") {
			t.Errorf("it says\n%s", got)
		}
	})
}

func TestLimiter_ReasonsWithoutEnd_AreBounded(t *testing.T) {
	limit := NewLimiter(slog.DiscardHandler, 1, time.Hour)
	defer limit.Close()
	limit.next = slog.NewTextHandler(new(bytes.Buffer), nil)
	l := slog.New(limit)
	for i := range 3 * maxEventKinds {
		l.Info("event", "reason", fmt.Sprint(i))
	}
	if n := len(limit.state.kinds); n > maxEventKinds+1 {
		t.Errorf("it knows %d kinds", n)
	}
}

func TestLog_Level_CanChange(t *testing.T) {
	var out syncBuffer
	var level slog.LevelVar
	l := newTestLog(t, &out, Options{Level: &level})
	for i, name := range LevelNames() {
		parsed, ok := ParseLevel(name)
		if !ok {
			t.Fatalf("%s is no level", name)
		}
		level.Set(parsed)
		out.Reset()
		for _, at := range levels {
			l.Log(t.Context(), at, "event")
		}
		if got := strings.Count(out.String(), "\n"); got != len(levels)-i {
			t.Errorf("at %s there are %d lines:\n%s", name, got, &out)
		}
	}
	if _, ok := ParseLevel("loud"); ok {
		t.Error("loud is a level")
	}
}

// One event is one line whatever is in it, and JSON is JSON.
func TestLog_HostileValues_AreEscaped(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out syncBuffer
		l := newTestLog(t, &out, Options{Format: format})
		l.Log(t.Context(), slog.LevelWarn, "event", "user", "a\nlevel=ERROR msg=\"forged\x1b[2J\xff", "took", 1500*time.Millisecond)
		if text := strings.TrimSuffix(out.String(), "\n"); strings.ContainsAny(text, "\n\x1b") || !strings.Contains(text, "1.5s") {
			t.Errorf("%s: %q", format, text)
		}
		if format == "json" {
			var m map[string]any
			if err := json.Unmarshal([]byte(out.String()), &m); err != nil || m["level"] != "WARN" {
				t.Errorf("%v, %v", m, err)
			}
		}
	}
}

func TestLog_Reopened_WritesToTheFileOfTheName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := New(Options{File: path, Level: new(slog.LevelVar)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Info("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Info("two")
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Info("three")
	for name, want := range map[string]int{path + ".1": 2, path: 1} {
		text, err := os.ReadFile(name)
		if err != nil || strings.Count(string(text), "\n") != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := New(Options{File: t.TempDir(), Level: new(slog.LevelVar)}); err == nil {
		t.Error("a directory is a log")
	}
}
