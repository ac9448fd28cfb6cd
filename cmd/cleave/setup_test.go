package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain keeps the tests apart from the user: servers that keep nothing leave their
// tokens in a directory of the user, and variables change what commands do.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "CLEAVE_") && name != "CLEAVE_SOAK" && name != "CLEAVE_TALLY" {
			os.Unsetenv(name)
		}
	}
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		panic(err)
	}
	if cache, err := osexec.Command("go", "env", "GOCACHE").Output(); err == nil {
		os.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // it would move with the next line but one
	}
	os.Setenv("TMPDIR", dir) // the binary that is built goes with the rest
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
