package route

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestUnknownNodesAreToldWhichThereAre(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		for n, want := range map[int]string{
			2:  `route: unknown node: "zz", want one of "node-0", "node-1"`,
			64: `route: unknown node: "zz" is none of the 64 names in Nodes`,
		} {
			if _, err := k.Without(must(k.New(newNodes(n))), "zz"); err == nil || err.Error() != want {
				t.Errorf("%d nodes: %v, want %s", n, err, want)
			}
		}
	})
	if _, err := new(Ring).Without("zz"); !errors.Is(err, ErrUnknownNode) || !strings.Contains(err.Error(), "no node is left") {
		t.Errorf("an empty ring: %v", err)
	}
}

func TestNamesToRemoveAreReportedTogether(t *testing.T) {
	k := mustKind(t, "ring")
	_, err := k.Without(must(k.New(newNodes(4))), "x", "node-1", "y", "node-1")
	if !errors.Is(err, ErrUnknownNode) || !errors.Is(err, ErrDuplicateName) {
		t.Fatalf("got %v, want %v and %v", err, ErrUnknownNode, ErrDuplicateName)
	}
	for _, name := range []string{`"x"`, `"y"`, `"node-1" is to be removed twice`} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not mention %s", err, name)
		}
	}
}

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
