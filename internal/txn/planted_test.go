//go:build plant

package txn

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
	const world = "TestWhatIsDecidedHappensEverywhereAndNothingElseDoes"
	for bug, law := range map[string]string{
		// Rare in the world, so a test of its own comes upon each for certain.
		"txn-prepare-past-deadline": "TestAFinishedPartStaysFinished",
		"txn-collect-unconfirmed":   "TestADecisionIsKeptUntilNobodyAsks",
		"txn-mark-at-start-only":    "TestAPieceThatIsResolvedStaysSo",
		"txn-old-owner-confirms":    "TestOnlyTheOwnerConfirms",
		"txn-range-lock-not-cut":    "TestARangeLockIsCutWithItsRange",
		"txn-locked-rows-expire":    "TestARowDoesNotExpireUnderALock",
		"txn-holds-overtaken":       "TestHoldsAreGrantedInTheOrderOfAsking",

		"txn-read-locks-not-taken":       world,
		"txn-write-ignores-read-locks":   world,
		"txn-validation-ignores-intents": world,
		"txn-digest-by-newest-version":   world,
		"txn-mark-forgotten":             world,
		"txn-decide-past-deadline":       world,
		"txn-inquiry-overrules":          world,
		"txn-abort-not-recorded":         world,
		"txn-decision-not-kept":          world,
		"txn-locks-not-taken-back":       world,
	} {
		t.Run(bug, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^"+law+"$", "-test.short=false", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_TALLY=", "CLEAVE_SOAK=", "CLEAVE_SEED=")
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+law) || strings.Contains(string(out), "panic:") {
				t.Fatalf("%s does not catch it: %v\n%s", law, err, out)
			}
			t.Logf("%.300s", out)
		})
	}
}
