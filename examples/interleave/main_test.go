package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
)

// Of the two ways one leaves the room empty though a guest with money asked for it, and the other never does.
func TestRun_SagasLeaveTheRoomEmptyAndTransactionsDoNot(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out, 5); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`two sagas +5 +5 +0 +5 `, `two transactions +5 +0 +5 +0 `} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}
