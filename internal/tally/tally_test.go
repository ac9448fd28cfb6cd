package tally

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCountsAreAddedToTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tally")
	t.Setenv(File, name)
	Add(t, "crashes", 3)
	Add(t, "crashes", 4)
	got, err := os.ReadFile(name)
	const want = "TestCountsAreAddedToTheFile\tcrashes\t3\nTestCountsAreAddedToTheFile\tcrashes\t4\n"
	if err != nil || string(got) != want {
		t.Errorf("file has %q, %v; want %q", got, err, want)
	}
}
