// Package browser answers one question: which browser do tests of pages run, and what if there is none?
//
// `make test` installs Chromium where apt-get does that. A test that finds no browser is skipped and
// says so; where CLEAVE_REQUIRE names a browser, as .ci/run does, it fails instead: a skipped test
// proves nothing.
package browser

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// EnvRequire is the variable that names what must be there, separated by commas.
const EnvRequire = "CLEAVE_REQUIRE"

// Flags are those of a browser without a screen, which asks for nothing that a test has not asked for.
var Flags = []string{
	"headless", "no-sandbox", "disable-gpu", "disable-quic", "disable-dev-shm-usage", "no-first-run", "hide-scrollbars",
	"disable-background-networking", "disable-component-update", "disable-sync", "disable-default-apps", "disable-extensions",
}

// Test is the part of testing.TB that is needed.
type Test interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Find returns the path of a browser. Without one it skips the test, or fails it.
func Find(t Test) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv(EnvRequire), ","), "browser") {
		t.Fatal("there is no browser, and " + EnvRequire + " wants one: scripts/deps installs chromium")
	}
	t.Skip("there is no browser: install chromium")
	return ""
}
