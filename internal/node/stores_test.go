package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleavekv/cleave/internal/store"
)

// The number of stores decides where a key is: with another one most keys would
// seem to be gone, and new ones would be written beside them.
func TestADamagedNumberOfStoresIsReported(t *testing.T) {
	o := small(3)
	o.Dir = t.TempDir()
	if err := open(t, o).Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"cleave stores 1\n", "cleave stores 2\n", "cleave stores 7\n", "cleave stores 0\n", "cleave stores \n", ""} {
		if err := os.WriteFile(filepath.Join(o.Dir, storesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		found := small(0)
		found.Dir = o.Dir
		n, err := Open(found)
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("STORES says %q: Open: %v, want ErrCorrupt", text, err)
		}
		if err == nil {
			_ = n.Close(ctx)
		}
	}
}
