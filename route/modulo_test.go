package route

import (
	"errors"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestMaskIsModuloOfAPowerOfTwo(t *testing.T) {
	for _, n := range []int{1, 2, 8, 1024} {
		if !slices.Equal(sampleOwners(must(NewMask(newNodes(n))), 1000), sampleOwners(must(NewModulo(newNodes(n))), 1000)) {
			t.Errorf("%d nodes: mask and modulo differ", n)
		}
	}
}

func TestMaskDoublesAndHalves(t *testing.T) {
	r := must(NewMask(newNodes(8)))
	double := must(r.With(newNodes(16)[8:]...))
	for h := range Sample(1000) {
		was, is := r.Route(h), double.Route(h)
		if is != was && is != was+8 {
			t.Fatalf("hash %#x moves from %d to %d", h.Uint64(), was, is)
		}
	}
	back := must(double.Without("node-9", "node-8", "node-10", "node-11", "node-15", "node-14", "node-13", "node-12"))
	if !slices.Equal(sampleOwners(back, 1000), sampleOwners(r, 1000)) {
		t.Error("halving does not undo doubling")
	}
}

func TestMaskRefusesOtherCounts(t *testing.T) {
	if _, err := NewMask(newNodes(6)); !errors.Is(err, ErrNodeCount) {
		t.Errorf("6 nodes: %v", err)
	}
	r := must(NewMask(newNodes(8)))
	if _, err := r.With(Node{Name: "new"}); !errors.Is(err, ErrNodeCount) {
		t.Errorf("9 nodes: %v", err)
	}
	if _, err := r.Without("node-7"); !errors.Is(err, ErrNodeCount) {
		t.Errorf("7 nodes: %v", err)
	}
	_, err := r.Without("node-0", "nobody", "node-7", "node-7")
	for _, want := range []error{ErrNotRemovable, ErrUnknownNode, ErrDuplicateName} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func TestModuloIsTheRemainder(t *testing.T) {
	r := must(NewModulo(newNodes(7)))
	for _, bits := range []uint64{0, 1, 6, 7, 1 << 40, 1<<64 - 1} {
		if got := r.Route(hash.Restore(bits)); got != int(bits%7) {
			t.Errorf("hash %d has owner %d, want %d", bits, got, bits%7)
		}
	}
}
