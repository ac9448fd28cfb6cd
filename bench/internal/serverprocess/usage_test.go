package serverprocess

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitQuiet_WaitsForAProcessThatIsBusyAndGivesUpAtLast(t *testing.T) {
	for _, c := range []struct {
		busy, windows, want int
	}{{0, 5, 1}, {3, 5, 4}, {100, 5, 5}} {
		looks := 0
		synctest.Test(t, func(*testing.T) {
			WaitQuiet(func() time.Duration {
				looks++
				return time.Duration(min(looks, 2*c.busy)) * quietWindow
			}, c.windows)
		})
		if got := looks / 2; got != c.want {
			t.Errorf("busy for %d of %d windows: watched for %d, want %d", c.busy, c.windows, got, c.want)
		}
	}
}
