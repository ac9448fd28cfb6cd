//go:build plant

package store

import (
	"os"
	"os/exec"
	"testing"
)

// Each of these is a rule of the store broken on purpose, and the test that
// stands guard over the rule.
var planted = map[string]string{
	"store-publish-before-durable":      "TestNothingIsVisibleBeforeItIsDurable",
	"store-recycle-applied-not-durable": "TestTheLogIsKeptUntilPebbleHasItForSure",
	"store-fill-stale":                  "TestASlowReadDoesNotBringBackAnOldRow",
}

func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the planted run")
	}
	for bug, guard := range planted {
		t.Run(bug, func(t *testing.T) {
			run := func(plant string) ([]byte, error) {
				cmd := exec.Command(os.Args[0], "-test.run=^"+guard+"$", "-test.count=1", "-test.timeout=60s")
				cmd.Env = append(os.Environ(), "CLEAVE_PLANT="+plant)
				return cmd.CombinedOutput()
			}
			if out, err := run("none"); err != nil {
				t.Fatalf("%s fails without a planted bug: %v\n%s", guard, err, out)
			}
			out, err := run(bug)
			if err == nil {
				t.Fatalf("%s passes with the bug planted", guard)
			}
			t.Logf("caught by %s:\n%.600s", guard, out)
		})
	}
}
