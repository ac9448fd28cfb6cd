package route

import (
	"errors"
	"strings"
	"testing"
)

func TestUnknownNodesAreToldWhichThereAre(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		for n, want := range map[int]string{
			2:  `route: unknown node: "zz", want one of "node-0", "node-1"`,
			64: `route: unknown node: "zz" is none of the 64 names in Nodes`,
		} {
			if _, err := k.Without(must(k.New(numbered(n))), "zz"); err == nil || err.Error() != want {
				t.Errorf("%d nodes: %v, want %s", n, err, want)
			}
		}
	})
	if _, err := new(Ring).Without("zz"); !errors.Is(err, ErrUnknownNode) || !strings.Contains(err.Error(), "no node is left") {
		t.Errorf("an empty ring: %v", err)
	}
}

func TestNamesToRemoveAreReportedTogether(t *testing.T) {
	k := kind(t, "ring")
	_, err := k.Without(must(k.New(numbered(4))), "x", "node-1", "y", "node-1")
	if !errors.Is(err, ErrUnknownNode) || !errors.Is(err, ErrDuplicateName) {
		t.Fatalf("got %v, want %v and %v", err, ErrUnknownNode, ErrDuplicateName)
	}
	for _, name := range []string{`"x"`, `"y"`, `"node-1" is to be removed twice`} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not mention %s", err, name)
		}
	}
}
