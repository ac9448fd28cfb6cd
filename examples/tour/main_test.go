package main

import (
	"os"
	"strings"
	"testing"
)

// Example fails if the tour prints anything else; docs/embedding.md shows the same.
func Example() {
	main()
	// Output:
	// user:42 lives on sin
	// gru would take 20.0 % of all keys
	// 0265750017079c88152a is region="eu" hour(ts)=2026-11-27T08 | id=42
	// orders in eu: 1
}

// TestTour_IsInTheDocumentation keeps the code in docs/embedding.md compiling: it is a
// part of this program, leaving out the handling of errors.
func TestTour_IsInTheDocumentation(t *testing.T) {
	_, block, found := strings.Cut(read(t, "../../docs/embedding.md"), "```go\n// Which node owns a key?")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("docs/embedding.md has no block of the tour")
	}
	source := read(t, "main.go")
	for line := range strings.Lines("// Which node owns a key?" + block) {
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
