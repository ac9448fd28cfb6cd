package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/storage/store"
)

// The number of stores decides where a key is: with another one most keys would
// seem to be gone, and new ones would be written beside them.
func TestADamagedNumberOfStoresIsReported(t *testing.T) {
	o := smallOptions(3)
	o.Dir = t.TempDir()
	if err := mustOpen(t, o).Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"cleave stores 1\n", "cleave stores 2\n", "cleave stores 7\n", "cleave stores 0\n", "cleave stores \n", "cleave stores 3", ""} {
		if err := os.WriteFile(filepath.Join(o.Dir, storesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		found := smallOptions(0)
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

// Of several processes that open a new directory at the same time one decides how many stores it
// has, for all of them.
func TestANewDirectoryIsDecidedOnce(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "new")
		const openers = 6
		var got [openers]int
		var wg sync.WaitGroup
		for i := range openers {
			wg.Go(func() {
				n, err := decideStoreList(dir, i+1)
				if err != nil {
					t.Error(err)
				}
				got[i] = n.count
			})
		}
		wg.Wait()
		have, err := readStoreList(dir)
		for _, n := range got {
			if n != have.count || err != nil {
				t.Fatalf("they heard %v, the directory says %d, %v", got, have.count, err)
			}
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Fatalf("%v is left, %v", files, err)
		}
	}
}

func TestTwoFirstOpensWithDifferentNumbersDoNotMix(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		nodes, errs := make([]*Node, 2), make([]error, 2)
		var wg sync.WaitGroup
		for i := range nodes {
			wg.Go(func() {
				o := smallOptions(i + 1)
				o.Dir = dir
				nodes[i], errs[i] = Open(o)
			})
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || !errors.Is(errs[1-winner], ErrOptions) {
			t.Fatalf("one hears %v, the other %v: want nil and ErrOptions", errs[0], errs[1])
		}
		if got := len(nodes[winner].GroupHosts()); got != winner+1 {
			t.Errorf("%d stores, want %d", got, winner+1)
		}
		if err := nodes[winner].Close(ctx); err != nil {
			t.Fatal(err)
		}
		o := smallOptions(winner + 1)
		o.Dir = dir
		if err := mustOpen(t, o).Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// Where there are no links a name that is taken is seen all the same.
func TestAFileDoesNotTakeANameThatIsTaken(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "name")
	if err := linkFile(filepath.Join(dir, "none"), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for i, want := range []error{nil, fs.ErrExist} {
		temp := filepath.Join(dir, fmt.Sprint("temp", i))
		if err := os.WriteFile(temp, []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := linkFile(temp, name); !errors.Is(err, want) {
			t.Errorf("file %d: %v, want %v", i, err, want)
		}
	}
	if b, err := os.ReadFile(name); err != nil || len(b) != 1 || b[0] != 0 {
		t.Errorf("the name has %v, %v: want the first", b, err)
	}
}

func TestALinkThatLeadsNowhereIsAnError(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nowhere"), link); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{link, filepath.Join(link, "below")} {
		o := smallOptions(1)
		o.Dir = dir
		if n, err := Open(o); err == nil {
			t.Errorf("%s was opened", dir)
			_ = n.Close(ctx)
		}
	}
}
