package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server"
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
	s := server.New(db, server.Options{})
	defer s.Close()
	go s.Serve(l)
	if err := transfer(l.Addr().String()); err != nil {
		panic(err)
	}
	// Output: 70 30
}

// TestTransfer_IsInTheDocumentation keeps the code in docs/redis.md compiling: its lines are
// lines of the program.
func TestTransfer_IsInTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(doc), "```go\nc := redis.NewClient(")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("docs/redis.md has no client of Redis")
	}
	for line := range strings.Lines("c := redis.NewClient(" + block) {
		if line = strings.TrimSpace(line); !strings.Contains(string(program), line) {
			t.Errorf("docs/redis.md has a line that the program does not have: %s", line)
		}
	}
}
