package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
)

func Example() {
	main()
	// Output:
	// ann: not enough money
	// all accounts together: 300
	// the ledger has an end: true
}

// Every total that is taken while money moves is the same.
func TestMoneyIsNeitherMadeNorLost(t *testing.T) {
	ctx := context.Background()
	b, err := openBank(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.db.Close()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		if err := b.accounts.Set(ctx, []byte(name), []byte("50")); err != nil {
			t.Fatal(err)
		}
	}
	var movers, auditors sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		movers.Go(func() {
			for i := range 50 {
				err := b.transfer(ctx, names[(w+i)%4], names[(w+i*3+1)%4], int64(i%7))
				if err != nil && !errors.Is(err, errFunds) {
					t.Error(err)
				}
			}
		})
	}
	auditors.Go(func() {
		for {
			sum, err := b.total(ctx, names)
			if err != nil || sum != 200 {
				t.Errorf("total %d, %v; want 200", sum, err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	movers.Wait()
	close(done)
	auditors.Wait()
	if entries, err := b.last(ctx, 1); err != nil || len(entries) != 1 {
		t.Errorf("no money moved: ledger %v, %v", entries, err)
	}
}

// TestTheReadmeShowsTheBank keeps the code in the README compiling.
func TestTheReadmeShowsTheBank(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```go\ndb, err := cleave.Open")
	block, _, ended := strings.Cut(block, "```")
	if !found || !ended {
		t.Fatal("the README does not open a store")
	}
	for line := range strings.Lines("db, err := cleave.Open" + block) {
		if !strings.Contains(string(source), strings.TrimSpace(line)) {
			t.Errorf("not in main.go: %s", line)
		}
	}
}
