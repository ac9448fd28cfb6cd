package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/storage/store"
)

// lockedBuffer is a buffer that timers may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestCondition_OfAStore_IsLoggedWhenItChanges(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var c storeCondition
	now := time.Now()
	for i, lack := range []error{nil, store.ErrDiskFull, store.ErrDiskFull, nil, nil} {
		c.reportChange(log, lack, nil, now.Add(time.Duration(i)*time.Minute))
	}
	dead := errors.New("the disk is gone")
	for range 3 {
		c.reportChange(log, nil, dead, now)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	want := []string{`level=ERROR msg="store lacks room`, `level=INFO msg="store has room again" lasted=2m0s`, `level=ERROR msg="store has failed`}
	if len(lines) != len(want) {
		t.Fatalf("it says\n%s", &out)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("%s, want %s", lines[i], want[i])
		}
	}
	if !strings.Contains(lines[2], "the disk is gone") {
		t.Errorf("it does not say why: %s", lines[2])
	}
}

func TestSlowDisk_ThatStaysSlow_IsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		e := newEventLog(slog.New(slog.NewTextHandler(&out, nil)))
		for range 50 {
			storeEvents{e, 3}.SlowDisk("sync", time.Second, 0)
		}
		time.Sleep(2 * eventWindow)
		synctest.Wait()
		if text := out.String(); strings.Count(text, "\n") != eventBurst+1 || !strings.Contains(text, `msg="slow disk" reason=sync store=3 took=1s`) || !strings.Contains(text, "suppressed=45") {
			t.Errorf("it says\n%s", text)
		}
		e.close()
	})
}
