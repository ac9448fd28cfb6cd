//go:build plant

package sim

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A planted bug is chosen when the process starts, so the promises are tried again
// in one that has it, and must not be kept there.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	const law = "TestPromisesAreKeptWhateverHappens"
	for _, bug := range []string{
		"mover-activate-before-release", "mover-deletes-skipped", "mover-drop-before-activate",
		"mover-second-job", "mover-source-reads-on", "txn-abort-not-recorded", "txn-mark-forgotten", "txn-validation-ignores-intents",
		"dedup-lost", "wal-ack-before-durable",
	} {
		t.Run(bug, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^"+law+"$", "-test.short=false")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_TALLY=", "CLEAVE_SOAK=", "CLEAVE_SEED=")
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+law) {
				t.Fatalf("%s does not catch it: %v\n%s", law, err, out)
			}
			t.Logf("%.300s", out)
		})
	}
}
