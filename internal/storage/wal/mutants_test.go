//go:build plant

package wal

import (
	"os"
	"os/exec"
	"testing"
)

// TestPlantedBugsAreCaught runs the crash test with one bug at a time, in a process
// of its own, and expects it to fail. The seed is not fixed: a harness that needs a
// lucky one is not worth its time.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	for _, bug := range []string{
		"wal-torn-frame-accepted", "wal-stale-bytes-replayed", "wal-recycle-early", "wal-ack-before-durable", "wal-sync-without-fence",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			c := exec.Command(os.Args[0], "-test.run=^TestAcknowledgedEntriesSurviveCrashes$", "-test.timeout=60s")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug)
			out, err := c.CombinedOutput()
			if err == nil {
				t.Fatalf("nobody noticed:\n%s", out)
			}
			t.Logf("%.600s", out)
		})
	}
}
