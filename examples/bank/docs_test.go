package main

import (
	"os"
	"strings"
	"testing"
)

// TestBank_IsInTheDocumentation keeps the code in docs/embedding.md compiling: its lines are
// lines of the bank.
func TestBank_IsInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("bank.go")
	if err != nil {
		t.Fatal(err)
	}
	const first = "var options = cleave.Options"
	_, block, found := strings.Cut(string(text), "```go\n"+first)
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("docs/embedding.md does not open the bank")
	}
	for line := range strings.Lines(first + block) {
		if !strings.Contains(string(source), strings.TrimSpace(line)) {
			t.Errorf("not in bank.go: %s", line)
		}
	}
}
