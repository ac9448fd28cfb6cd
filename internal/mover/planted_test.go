//go:build plant

package mover

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A planted bug is chosen when the process starts, so the law is tried again in
// one that has it, and must fail there.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	const world = "TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens"
	for bug, law := range map[string]string{
		"mover-activate-before-release": world,
		"mover-source-reads-on":         world,
		"mover-deletes-skipped":         world,
		"mover-old-attempt-ingested":    world,
		"mover-drop-before-activate":    world,
		"mover-dedup-not-copied":        world,
		"mover-drain-leaves-a-shard":    world,
		"mover-late-clear":              world,
		"mover-late-prepare":            world,
		"mover-floors-forgotten":        world,
		"mover-second-job":              world,
		// Worlds catch these too, but only now and then.
		"mover-decided-after-rollback": "TestADecisionIsMadeOnceAndOnlyInItsPlace",
		"mover-late-freeze":            "TestAFreezeThatComesAfterItsThawChangesNothing",
	} {
		t.Run(bug, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^"+law+"$", "-test.short=false")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_TALLY=", "CLEAVE_SOAK=", "CLEAVE_SEED=")
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+law) {
				t.Fatalf("%s does not catch it: %v\n%.2000s", law, err, out)
			}
			t.Logf("%.400s", out)
		})
	}
}
