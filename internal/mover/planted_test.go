//go:build plant

package mover

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// A planted bug is chosen when the process starts, so the law is tried again in
// one that has it, and must fail there.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	const law = "TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens"
	for _, bug := range []string{
		"mover-activate-before-release",
		"mover-source-reads-on",
		"mover-deletes-skipped",
		"mover-old-attempt-ingested",
		"mover-decided-after-rollback",
		"mover-drop-before-activate",
		"mover-dedup-not-copied",
		"mover-drain-leaves-a-shard",
		"mover-late-clear",
		"mover-late-freeze",
		"mover-late-prepare",
		"mover-floors-forgotten",
		"mover-second-job",
	} {
		t.Run(bug, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^"+law+"$", "-test.short=false")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_TALLY=", "CLEAVE_SOAK=", "CLEAVE_SEED=")
			out, err := c.CombinedOutput()
			why := regexp.MustCompile(`(?m)^ .*\n.*replay with CLEAVE_SEED=\d+`).Find(out)
			if err == nil || why == nil {
				t.Fatalf("%s does not catch it: %v\n%.2000s", law, err, out)
			}
			t.Logf("%.400s", why)
		})
	}
}
