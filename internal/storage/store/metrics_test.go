package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// eventRecorder are events of a store.
type eventRecorder struct {
	mu        sync.Mutex
	recovered []Recovery
	slow      []string
}

func (h *eventRecorder) Recovered(r Recovery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recovered = append(h.recovered, r)
}

func (h *eventRecorder) SlowDisk(op string, _ time.Duration, _ int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = append(h.slow, op)
}

// slowFile is a file of a disk that takes its time.
type slowFile struct {
	wal.File
	delay time.Duration
}

func (f slowFile) WriteDurable([]byte, int64) error       { time.Sleep(f.delay); return nil }
func (f slowFile) WriteAt(p []byte, _ int64) (int, error) { time.Sleep(f.delay); return len(p), nil }
func (f slowFile) Sync() error                            { time.Sleep(f.delay); return nil }

func TestTimedFile_OnASlowDisk_SaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, want := range map[time.Duration]int{slowDisk - 1: 0, slowDisk: 3} {
			h := &eventRecorder{}
			f := &timedFile{slowFile{delay: takes}, h}
			_ = f.WriteDurable(nil, 0)
			_, _ = f.WriteAt(nil, 0)
			_ = f.Sync()
			if len(h.slow) != want {
				t.Errorf("at %v it says %v", takes, h.slow)
			}
		}
	})
}
