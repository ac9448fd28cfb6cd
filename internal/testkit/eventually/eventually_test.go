package eventually

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// recorder notes what a test would fail with.
type recorder struct{ failure string }

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

func TestHolds_WaitsForTheCondition_UpToTheLimit(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "", time.Second: "", Limit(): "", 2 * Limit(): "never: the door is open",
	} {
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			opened := time.Now().Add(after)
			Holds(&r, "the door is open", func() bool { return !time.Now().Before(opened) })
			if r.failure != want {
				t.Errorf("open after %v: failed with %q, want %q", after, r.failure, want)
			}
			if took := time.Since(opened); want == "" && took > pause {
				t.Errorf("open after %v: %v went by until it was seen", after, took)
			}
		})
	}
}
