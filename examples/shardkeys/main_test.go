package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleavekv/cleave/examples/shardkeys/dataset"
)

func TestWriteAll_SameRows_SameBytes(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if err := writeAll(dir, 100); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range dataset.All() {
		a, err := os.ReadFile(filepath.Join(first, s.Name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, s.Name+".csv"))
		if err != nil || !bytes.Equal(a, b) || bytes.Count(a, []byte("\n")) != 101 {
			t.Errorf("%s: %v, %d bytes and %d", s.Name, err, len(a), len(b))
		}
	}
}
