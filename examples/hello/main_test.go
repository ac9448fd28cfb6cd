package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheReadmeShowsHello keeps the first program of the README whole: what it shows
// is what is run here.
func TestTheReadmeShowsHello(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "package main\n")
	if !strings.Contains(string(readme), "```go\npackage main\n"+code+"```") {
		t.Error("the README does not show examples/hello/main.go")
	}
	t.Chdir(t.TempDir())
	for range 2 { // the second time on what the first has left
		main()
	}
}
