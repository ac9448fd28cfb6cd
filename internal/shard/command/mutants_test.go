//go:build plant

package command

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A planted bug is chosen when the process starts, so the tests run again in
// one that has it, and must fail there.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv("CLEAVE_PLANT") != "" {
		t.Skip("this is the process with the bug")
	}
	for _, bug := range []string{"command-expired-visible", "command-overlay-skipped"} {
		for _, law := range []string{"TestCommandsMeanWhatTheModelSays", "TestEdgesAnswerLikeRedis"} {
			c := exec.Command(os.Args[0], "-test.run=^"+law+"$", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			c.Env = append(os.Environ(), "CLEAVE_PLANT="+bug)
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+law) {
				t.Errorf("%s is not caught by %s: %v\n%s", bug, law, err, out)
			}
		}
	}
}
