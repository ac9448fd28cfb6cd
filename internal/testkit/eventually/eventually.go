// Package eventually answers one question: how does a test wait for what other goroutines or
// processes do?
//
// It polls a condition instead of sleeping: a fixed pause is too short on a busy machine and too
// long on an idle one. The limit decides only how late a test that hangs fails, and is far above
// what a slow machine takes. Code that needs nothing but goroutines, channels and time is better
// tested with testing/synctest, which does not wait at all.
package eventually

import (
	"os"
	"time"
)

// Test is the part of testing.TB that waiting needs. The tests of package rapid have it too.
type Test interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Limit returns how long something may take before it counts as hanging.
func Limit() time.Duration {
	switch {
	case os.Getenv("CLEAVE_PLANT") != "":
		return 3 * time.Second // a planted bug is expected to hang
	case os.Getenv("CLEAVE_SOAK") != "":
		return 10 * time.Minute
	}
	return time.Minute
}

// pause is the time between two looks: short beside what a test does, and long beside a look.
const pause = time.Millisecond

// Holds waits until a condition holds, and fails the test if it hangs. It is for the goroutine of the
// test.
func Holds(t Test, what string, condition func() bool) {
	t.Helper()
	if !Within(Limit(), condition) {
		t.Fatalf("never: %s", what)
	}
}

// Within waits until a condition holds, and reports whether it did before the limit.
func Within(limit time.Duration, condition func() bool) bool {
	for end := time.Now().Add(limit); !condition(); time.Sleep(pause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
