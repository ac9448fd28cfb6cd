package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// TestAnchorReturnsOldKeysInReverseOrder checks the stack of free buckets.
func TestAnchorReturnsOldKeysInReverseOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "nodes")
		r := must(NewAnchor(newNodes(n), AnchorOptions{}))
		leaving := rapid.Permutation(newNodes(n)).Draw(t, "leaving")[:rapid.IntRange(1, n-1).Draw(t, "count")]
		changed := r
		for _, node := range leaving {
			changed = must(changed.Without(node.Name))
		}
		for _, node := range slices.Backward(leaving) {
			changed = must(changed.With(node))
		}
		if m := Compare(r, changed, Sample(500)); m.Moved != 0 {
			t.Fatalf("%v keys are not back where they were", m.Moved)
		}
	})
}

// TestAnchorLoadsStayEvenWhateverLeaves is what the chain of replaced buckets
// is for: the keys of every removed node spread over all that remain.
func TestAnchorLoadsStayEvenWhateverLeaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ nodes, leave, capacity int }{{10, 5, 0}, {40, 37, 0}, {64, 10, 64}, {100, 50, 1000}} {
		r := must(NewAnchor(newNodes(c.nodes), AnchorOptions{Capacity: c.capacity}))
		for range c.leave {
			r = must(r.Without(r.nodes[rng.IntN(len(r.nodes))].Name))
		}
		if chi, bound, ok := checkEven(countLoads(r, sampleKeys)); !ok {
			t.Errorf("%+v: loads have chi-squared %.1f, want at most %.1f", c, chi, bound)
		}
	}
}

func TestAnchorIsRestoredFromItsState(t *testing.T) {
	r := must(NewAnchor(newNodes(9), AnchorOptions{Capacity: 20}))
	r = must(r.Without("node-4"))
	r = must(r.Without("node-0"))
	r = must(r.With(Node{Name: "new", Zone: "z"}))
	text := must(json.Marshal(r.State()))
	var s AnchorState
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	again := must(RestoreAnchor(s))
	if !slices.Equal(again.Nodes(), r.Nodes()) || !slices.Equal(sampleOwners(again, 5000), sampleOwners(r, 5000)) {
		t.Errorf("%s is restored as another router", text)
	}
	s.Places[0], s.Free[len(s.Free)-1] = s.Places[1], s.Places[2]
	r.State().Free[0]++
	// The next edits agree too, whatever becomes of the states.
	a, b := must(again.With(Node{Name: "next"})), must(r.With(Node{Name: "next"}))
	if !slices.Equal(sampleOwners(a, 5000), sampleOwners(b, 5000)) {
		t.Error("the routers part ways with the next node")
	}
	if !reflect.DeepEqual(again.State(), r.State()) {
		t.Error("a change of the state changed the router made from it")
	}
}

func TestAnchorRefusesImpossibleStates(t *testing.T) {
	two := newNodes(2)
	for _, c := range []struct {
		what string
		s    AnchorState
		want error
	}{
		{"nothing", AnchorState{}, ErrNoNodes},
		{"a node without a place", AnchorState{Nodes: two, Places: []int{0}}, ErrOptions},
		{"two nodes in a bucket", AnchorState{Nodes: two, Places: []int{1, 1}}, ErrOptions},
		{"a bucket both free and used", AnchorState{Nodes: two, Places: []int{0, 1}, Free: []int{1}}, ErrOptions},
		{"a bucket past the last", AnchorState{Nodes: two, Places: []int{0, 2}}, ErrOptions},
		{"a negative bucket", AnchorState{Nodes: two, Places: []int{0, -1}}, ErrOptions},
		{"a weight", AnchorState{Nodes: []Node{{Name: "a", Weight: 2}}, Places: []int{0}}, ErrWeight},
	} {
		if r, err := RestoreAnchor(c.s); !errors.Is(err, c.want) || r != nil {
			t.Errorf("%s: got error %v, want %v", c.what, err, c.want)
		}
	}
}

func TestAnchorKeepsToItsCapacity(t *testing.T) {
	for _, capacity := range []int{-1, 2, maxCapacity + 1} {
		if _, err := NewAnchor(newNodes(3), AnchorOptions{Capacity: capacity}); !errors.Is(err, ErrOptions) {
			t.Errorf("capacity %d for 3 nodes: %v, want %v", capacity, err, ErrOptions)
		}
	}
	if size := int64(unsafe.Sizeof(bucket{})+unsafe.Sizeof(int(0))) * maxCapacity; size > 1<<30 {
		t.Errorf("the largest anchor has %d bytes", size)
	}
	r := must(NewAnchor(newNodes(3), AnchorOptions{Capacity: 3}))
	if _, err := r.With(Node{Name: "new"}); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth node in 3 buckets: %v, want %v", err, ErrFull)
	}
	if _, err := (&Anchor{}).With(Node{Name: "new"}); !errors.Is(err, ErrFull) {
		t.Errorf("a node in no buckets: %v, want %v", err, ErrFull)
	}
	for n, want := range map[int]int{1: 16, 8: 16, 9: 32, 1000: 2048} {
		if got := len(must(NewAnchor(newNodes(n), AnchorOptions{})).buckets); got != want {
			t.Errorf("%d nodes get %d buckets, want %d", n, got, want)
		}
	}
}

// TestAnchorIsWhatThePaperSays checks lookups against AnchorHash without its
// tables: it replays the history of the list of buckets with nodes for every
// key, too slowly for production.
func TestAnchorIsWhatThePaperSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := must(NewAnchor(newNodes(rapid.IntRange(1, 12).Draw(t, "nodes")), AnchorOptions{Capacity: 12}))
		for edit := range rapid.IntRange(0, 12).Draw(t, "edits") {
			switch grow := rapid.Bool().Draw(t, "grow"); {
			case grow && len(r.freeBuckets) > 0:
				r = must(r.With(Node{Name: fmt.Sprint("new-", edit)}))
			case !grow && len(r.nodes) > 1:
				r = must(r.Without(rapid.SampledFrom(r.nodes).Draw(t, "leaving").Name))
			}
		}
		for h := range Sample(200) {
			if got, want := r.nodeBuckets[r.Route(h)], replayAnchor(r.State(), h); got != want {
				t.Fatalf("hash %#x is in bucket %d, want %d", h.Uint64(), got, want)
			}
		}
	})
}

// replayAnchor returns the bucket of a key: the list that a bucket's keys are hashed
// among again is the one just after it lost its node, in which the last bucket
// of the list has taken its place.
func replayAnchor(s AnchorState, h hash.Stable) int {
	capacity := len(s.Places) + len(s.Free)
	at := mulHigh(h.Uint64(), capacity)
	for slices.Contains(s.Free, at) {
		list := make([]int, capacity)
		for i := range list {
			list[i] = i
		}
		for _, gone := range s.Free {
			i, last := slices.Index(list, gone), len(list)-1
			list[i] = list[last]
			list = list[:last]
			if gone == at {
				break
			}
		}
		at = list[mulHigh(hashSalt(h.Uint64(), uint64(at)), len(list))]
	}
	return at
}

// mulHigh maps a hash to a number below n.
func mulHigh(x uint64, n int) int {
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}
