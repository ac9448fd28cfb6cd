package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheTourPrintsWhatTheReadmeShows(t *testing.T) {
	var out strings.Builder
	if err := tour(&out, time.Date(2026, 11, 27, 8, 15, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if readme := read(t, "../../README.md"); !strings.Contains(readme, out.String()) {
		t.Errorf("the README does not show this output:\n%s", out.String())
	}
}

// TestTheReadmeShowsTheTour keeps the code in the README compiling: it is a
// part of this program, leaving out what handles errors.
func TestTheReadmeShowsTheTour(t *testing.T) {
	_, block, found := strings.Cut(read(t, "../../README.md"), "```go\n")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("the README has no block of Go")
	}
	source := read(t, "main.go")
	for line := range strings.Lines(block) {
		if !strings.Contains(source, strings.TrimSpace(line)) {
			t.Errorf("not in main.go: %s", line)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
