package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_MeasuresEachProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cleave")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out, progress strings.Builder
	if err := run(options{rows: 100, rounds: 1, binary: binary}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a CSV of 100 rows", "| wc -l |", "| cleave advise, one candidate |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %q in it", out.String(), want)
		}
	}
}
