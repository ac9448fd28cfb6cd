package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/serve"
)

// Example is what the program prints, and a server that it can talk to.
func Example() {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := serve.New(db, serve.Options{})
	defer s.Close()
	go s.Serve(l)
	if err := transfer(l.Addr().String()); err != nil {
		panic(err)
	}
	// Output: 70 30
}

// TestTheReadmeShowsTheTransfer keeps the code in the README compiling: it is lines of
// the program.
func TestTheReadmeShowsTheTransfer(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```go\nc := redis.NewClient(")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("the README has no client of Redis")
	}
	for line := range strings.Lines("c := redis.NewClient(" + block) {
		if line = strings.TrimSpace(line); !strings.Contains(string(program), line) {
			t.Errorf("the README has a line that the program has not: %s", line)
		}
	}
}
