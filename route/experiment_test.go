package route

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func mustRun(t *testing.T, e Experiment) map[string]Comparison {
	t.Helper()
	list, err := e.Run()
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	byName := make(map[string]Comparison)
	for _, c := range list {
		byName[c.Kind.Name] = c
	}
	return byName
}

func TestExperimentsRunEveryKindAndSortByWhatMoves(t *testing.T) {
	list, err := Experiment{Nodes: 8, Add: 1, Keys: 20000}.Run()
	if err != nil || len(list) != len(Kinds()) {
		t.Fatalf("%d comparisons of %d kinds, error %v", len(list), len(Kinds()), err)
	}
	for i, c := range list[1:] {
		if list[i].Err != nil && c.Err == nil || c.Err == nil && list[i].Movement.Moved > c.Movement.Moved {
			t.Errorf("%s comes before %s", list[i].Kind.Name, c.Kind.Name)
		}
	}
	if last := list[len(list)-1]; last.Kind.Name != "mask" || !errors.Is(last.Err, ErrNodeCount) || !strings.HasPrefix(last.Err.Error(), "mask: ") {
		t.Errorf("the last is %s with error %v", last.Kind.Name, last.Err)
	}
}

func TestExperimentsRemoveFromTheMiddleOrTheEnd(t *testing.T) {
	middle := mustRun(t, Experiment{Nodes: 8, Remove: 3, Keys: 1000})
	for name, c := range middle {
		k, _ := KindNamed(name)
		if (c.Err == nil) != (k.Removal == RemovesAny) {
			t.Errorf("%s can lose %v, but the error is %v", name, k.Removal, c.Err)
		}
		for _, f := range c.Movement.Flows {
			if k.Minimal && !slices.Contains([]string{"node-2", "node-3", "node-4"}, f.From) {
				t.Errorf("%s moves keys from %s", name, f.From)
			}
		}
	}
	for name, c := range mustRun(t, Experiment{Nodes: 8, Remove: 4, RemoveLast: true, Keys: 1000}) {
		if c.Err != nil {
			t.Errorf("%s cannot lose the last four: %v", name, c.Err)
		}
	}
}

func TestExperimentsCompareAKindOnce(t *testing.T) {
	list, err := Experiment{Nodes: 3, Add: 1, Keys: 100, Kinds: []string{"ring", "jump", "ring", "ring"}}.Run()
	if err != nil || len(list) != 2 {
		t.Errorf("%d comparisons of 2 kinds, error %v", len(list), err)
	}
}

func TestNodesAfterCountsWhoLeavesAndWhoJoins(t *testing.T) {
	for _, e := range []Experiment{
		{Nodes: 8},
		{Nodes: 8, Add: 1},
		{Nodes: 8, Remove: 3, RemoveLast: true},
		{Nodes: 8, Remove: 1, Add: 2, Multiply: 3},
	} {
		nodes := make([]Node, e.Nodes)
		c := e.toChange(nodes)
		if want := e.Nodes - len(c.Remove) + len(c.Add); e.NodesAfter() != want {
			t.Errorf("%+v: %d nodes in the end, want %d", e, e.NodesAfter(), want)
		}
	}
	if got := (Experiment{Nodes: 8, Remove: 1, Add: 2, Multiply: 3}).NodesAfter(); got != 27 {
		t.Errorf("(8 - 1 + 2) x 3 nodes are %d", got)
	}
}

func TestExperimentsMultiply(t *testing.T) {
	for name, c := range mustRun(t, Experiment{Nodes: 4, Multiply: 4, Keys: 1000, Kinds: []string{"modulo", "mask", "ring"}}) {
		if c.Err != nil || math.Abs(c.Movement.Minimum-0.75) > 1e-12 {
			t.Errorf("%s: minimum %v, error %v", name, c.Movement.Minimum, c.Err)
		}
	}
	// Leave, join, then multiply: 4 - 1 + 1 = 4 nodes become 8, of which 3
	// were there: their shares fall from 3/4 to 3/8.
	c := mustRun(t, Experiment{Nodes: 4, Remove: 1, Add: 1, Multiply: 2, Keys: 1000})["ring"]
	if c.Err != nil || math.Abs(c.Movement.Minimum-0.625) > 1e-12 {
		t.Errorf("minimum %v, error %v", c.Movement.Minimum, c.Err)
	}
}

func TestBadExperimentsAreRefused(t *testing.T) {
	for _, e := range []Experiment{
		{},
		{Nodes: -1},
		{Nodes: maxExperimentNodes + 1},
		{Nodes: 8, Add: -1},
		{Nodes: 8, Remove: -1},
		{Nodes: 8, Remove: 8},
		{Nodes: 8, Multiply: -2},
		{Nodes: 8, Multiply: math.MaxInt},
		{Nodes: 15000, Add: 15000},
		{Nodes: 8, Keys: -1},
		{Nodes: 8, Keys: 1<<26 + 1},
		{Nodes: 1, Add: maxExperimentNodes - 1, Keys: DefaultSample + 1},
		{Nodes: maxExperimentNodes, Remove: 9, Keys: DefaultSample + 1},
		{Nodes: 2, Weights: []float64{1}},
		{Nodes: 2, Weights: []float64{1, -1}},
		{Nodes: 2, Weights: []float64{1, math.NaN()}},
	} {
		if _, err := e.Run(); !errors.Is(err, ErrExperiment) {
			t.Errorf("%+v: %v, want %v", e, err, ErrExperiment)
		}
	}
	_, err := Experiment{Nodes: 8, Kinds: []string{"ring", "wheel"}}.Run()
	if !errors.Is(err, ErrUnknownKind) || !strings.Contains(err.Error(), "rendezvous") {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestKindsFromElsewhereHaveNoEdits(t *testing.T) {
	r := must(NewJump(newNodes(2)))
	if _, err := (Kind{}).With(r, Node{Name: "new"}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("With: %v", err)
	}
	if _, err := (Kind{}).Without(r, "node-1"); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("Without: %v", err)
	}
}

func TestKindsFromElsewhereAreNotCompared(t *testing.T) {
	list := CompareKinds([]Kind{{Name: "own"}}, newNodes(2), Change{}, nil)
	if len(list) != 1 || !errors.Is(list[0].Err, ErrUnknownKind) {
		t.Errorf("got %+v", list)
	}
}

func TestKindsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if k.Name == "" || k.Summary == "" || strings.HasPrefix(k.Removal.String(), "Removal(") || seen[k.Name] {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
	}
}
