//go:build plant

package rowcache

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Each planted bug must make the model test fail. Plants are chosen when the
// process starts, so the test runs itself again.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	for bug, symptom := range map[string]string{
		"rows-stale-fill":           "stale",
		"rows-whole-after-eviction": "stale",
		"rows-gathered-in-part":     "stale",
		"rows-pinned-evicted":       "pinned", // unknown though pinned, or counted though gone
	} {
		t.Run(bug, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestPinnedRowsAreNeverLostAndNoRowIsEverStale$",
				"-rapid.checks=500", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
			cmd.Env = append(os.Environ(), "CLEAVE_PLANT="+bug)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), symptom) {
				t.Fatalf("no %q seen (%v):\n%s", symptom, err, out)
			}
		})
	}
}
