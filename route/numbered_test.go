package route

import (
	"errors"
	"strconv"
	"testing"
)

func TestNumberedNodesAreNamedByTheirIndex(t *testing.T) {
	for _, n := range []int{1, 2, 1000} {
		nodes, err := Numbered(n)
		if err != nil || len(nodes) != n {
			t.Fatalf("%d: %d nodes, %v", n, len(nodes), err)
		}
		for i, node := range nodes {
			if (node != Node{Name: strconv.Itoa(i)}) {
				t.Fatalf("node %d of %d is %+v", i, n, node)
			}
		}
	}
	for _, n := range []int{-1, 0, maxNumbered + 1} {
		if _, err := Numbered(n); !errors.Is(err, ErrNodeCount) {
			t.Errorf("%d: %v, want %v", n, err, ErrNodeCount)
		}
	}
}
