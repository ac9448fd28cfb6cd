package routecells

import (
	"math"
	"testing"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// firstByte routes by the first byte of the key modulo the nodes.
func firstByte(names []string) router {
	return router{
		owner: func(key string) string { return names[int(key[0])%len(names)] },
		grown: func(node string) router { return firstByte(append(names[:len(names):len(names)], node)) },
	}
}

func value(t *testing.T, facts []duel.Fact, name string) float64 {
	for _, f := range facts {
		if f.Name == name {
			return f.Value
		}
	}
	t.Fatalf("no fact %q in %v", name, facts)
	return 0
}

func TestFactsOfARouterWithKnownOnes(t *testing.T) {
	const keys = 100_000
	names := nodeNames(4)
	got := facts(firstByte(names), names, keys, 2)
	// Modulo 4 is even over bytes; from 4 to 5 nodes it moves 4 of 5 keys.
	if v := value(t, got, "peak/mean"); v < 1 || v > 1.05 {
		t.Errorf("peak/mean %v, want just above 1", v)
	}
	if v := value(t, got, "moved by +1"); math.Abs(v-0.8) > 0.02 {
		t.Errorf("moved %v, want 0.8", v)
	}
}

func TestAllOnOneNodeHasThePeakOfTheNodeCount(t *testing.T) {
	names := nodeNames(7)
	one := router{owner: func(string) string { return names[0] }}
	one.grown = func(string) router { return one }
	got := facts(one, names, 1000, 3)
	if v := value(t, got, "peak/mean"); math.Abs(v-7) > 1e-9 {
		t.Errorf("peak/mean %v, want 7", v)
	}
	if v := value(t, got, "moved by +1"); v != 0 {
		t.Errorf("moved %v, want 0", v)
	}
}

func TestPeakIsRelativeToWeights(t *testing.T) {
	names := nodeNames(2)
	weights := map[string]float64{names[0]: 3, names[1]: 1}
	r := router{weight: func(node string) float64 { return weights[node] }}
	if got := peak(r, names, map[string]float64{names[0]: 75, names[1]: 25}) / 100; got != 1 {
		t.Errorf("loads in proportion to weights have peak/mean %v, want 1", got)
	}
}

// Consistent routers, ours and the peers', move keys to the joining node only.
// It reports whether each adapter grows the router that it says.
func TestAdaptersOfConsistentRoutersMoveKeysToTheJoiningNodeOnly(t *testing.T) {
	names := nodeNames(8)
	joining := nodeName(8)
	for _, k := range kinds() {
		switch {
		case k.name == "modulo", k.family == familyMaglev, k.name == "bounded ring", k.name == "buraksezer (20)":
			continue // these move other keys by design
		}
		before := k.build(names)
		after := before.grown(joining)
		moved := 0
		for i := range 2000 {
			was, is := before.owner(keyAt(i)), after.owner(keyAt(i))
			if was != is {
				moved++
				if is != joining {
					t.Errorf("%s moved key %d from %s to %s", k.name, i, was, is)
					break
				}
			}
		}
		if moved == 0 {
			t.Errorf("%s gave the joining node no key", k.name)
		}
	}
}
