package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"

	"github.com/cleavekv/cleave"
)

func TestEveryMailIsSentThoughAWorkerDies(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{Groups: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 { // the second time on what the first has left
		var out bytes.Buffer
		if err := run(context.Background(), &out, db); err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`^a worker dies with (\d) mails\nanother sends 40, of which (\d) for the second time\n$`)
		if m := want.FindStringSubmatch(out.String()); m == nil || m[1] != m[2] {
			t.Errorf("%q", out.String())
		}
	}
}
