// Package tally answers one question: how much did the tests try?
//
// A test that searches at random says how many crashes, histories or operations
// it went through, and make test prints the sums: a harness that tries nothing
// would pass too.
package tally

import (
	"fmt"
	"os"
	"testing"
)

// File is the environment variable that names the file to which counts are
// added.
const File = "CLEAVE_TALLY"

// Add notes that the test went through n of what: "crashes", say.
func Add(t testing.TB, what string, n int) {
	t.Helper()
	t.Logf("%8d %s", n, what)
	name := os.Getenv(File)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Errorf("note how much was tried: %v", err)
		return
	}
	defer f.Close()
	// One write, so that lines of several processes do not mix.
	if _, err := f.WriteString(fmt.Sprintf("%s\t%s\t%d\n", t.Name(), what, n)); err != nil {
		t.Errorf("note how much was tried: %v", err)
	}
}
