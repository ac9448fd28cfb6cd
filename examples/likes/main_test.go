package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/cleavekv/cleave"
)

func TestEachUserCountsOnce(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{Groups: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const want = "48 users like the post; a page may show 48\n"
	for range 2 { // the second time on what the first has left
		var out bytes.Buffer
		if err := run(context.Background(), &out, db); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}
