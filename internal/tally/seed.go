package tally

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable is the environment variable with the seed of a random test, for who runs it
// again.
const SeedVariable = "CLEAVE_SEED"

// Seed returns the seed of a random test of a folder. If the test fails, it says how to use
// it again.
func Seed(t testing.TB, folder string) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv(SeedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s is %q: use a number", SeedVariable, s)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with: %s=%d go test -race -run '^%s$' %s", SeedVariable, seed, t.Name(), folder)
		}
	})
	return seed
}
