package main

import (
	"os"
	"strings"
	"testing"
)

// TestHello_IsInTheDocumentation keeps the first program that a reader meets compiling: docs/embedding.md
// has all of it, and the README lines of it.
func TestHello_IsInTheDocumentation(t *testing.T) {
	program := read(t, "main.go")
	_, code, _ := strings.Cut(program, "package main\n")
	if !strings.Contains(read(t, "../../docs/embedding.md"), "```go\npackage main\n"+code+"```") {
		t.Error("docs/embedding.md does not have examples/hello/main.go")
	}
	const first = "db, err := cleave.Open("
	_, block, found := strings.Cut(read(t, "../../README.md"), "```go\n"+first)
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("the README does not open a store")
	}
	for line := range strings.Lines(first + block) {
		if !strings.Contains(program, strings.TrimSpace(line)) {
			t.Errorf("not in main.go: %s", line)
		}
	}
}

func TestHello_RunsOnWhatItLeft(t *testing.T) {
	t.Chdir(t.TempDir())
	for range 2 {
		main()
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
