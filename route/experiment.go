package route

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// ErrExperiment means an [Experiment] cannot be made: its text says why.
var ErrExperiment = errors.New("route: bad experiment")

// maxExperimentNodes keeps an experiment within seconds: a rendezvous looks at
// every node for every key.
const maxExperimentNodes = 20_000

// maxExperimentKeys is beyond what the result can show: the standard error is
// below 0.0001.
const maxExperimentKeys = 1 << 26

// maxKeysFor returns how many keys an experiment with so many nodes may have: as
// much work as the default sample is with the most nodes.
func maxKeysFor(nodes int64) int {
	return int(min(maxExperimentKeys, maxExperimentNodes*DefaultSample/nodes))
}

// An Experiment asks what a change of topology moves under each kind of router,
// for nodes that need no names: node-0, node-1 and so on. First nodes leave,
// then nodes join.
type Experiment struct {
	// Nodes is how many there are at first, from 1 to 20,000.
	Nodes int
	// Weights are theirs: one for each, or none. Nodes that join weigh 1.
	Weights []float64
	// Remove is how many leave: from the middle of the list on, since in
	// life any node may fail, or from its end with RemoveLast.
	Remove     int
	RemoveLast bool
	// Add is how many join.
	Add int
	// Multiply is by how much their number then grows. 0 means 1.
	Multiply int
	// Keys is how many are routed. 0 means the default of [Compare]. At most
	// 2^26, and fewer for more than 312 nodes, down to 2^20 for 20,000.
	Keys int
	// Kinds names the kinds to compare. None means all, and one that is named
	// twice is compared once.
	Kinds []string
}

// Run returns what moves, as [CompareKinds] does.
func (e Experiment) Run() ([]Comparison, error) {
	kinds, err := e.selectedKinds()
	if err = errors.Join(e.checkRanges(), err); err != nil {
		return nil, err
	}
	nodes := make([]Node, e.Nodes)
	for i := range nodes {
		nodes[i] = experimentNode(i)
		if len(e.Weights) > 0 {
			nodes[i].Weight = e.Weights[i]
		}
	}
	if err := checkNodes(nodes, true); err != nil {
		return nil, errors.Join(ErrExperiment, err)
	}
	var keys iter.Seq[hash.Stable]
	if e.Keys > 0 {
		keys = Sample(e.Keys)
	}
	return CompareKinds(kinds, nodes, e.toChange(nodes), keys), nil
}

// checkRanges reports everything that is wrong at once.
func (e Experiment) checkRanges() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrExperiment}, args...)...))
	}
	if e.Nodes < 1 || e.Nodes > maxExperimentNodes {
		wrong("%d nodes, want 1 to %d", e.Nodes, maxExperimentNodes)
	}
	if n := len(e.Weights); n > 0 && n != e.Nodes {
		wrong("%d weights for %d nodes, want one for each", n, e.Nodes)
	}
	if e.Remove < 0 || e.Remove >= max(e.Nodes, 1) {
		wrong("%d nodes leave, want 0 to %d, so that one remains", e.Remove, max(e.Nodes-1, 0))
	}
	if e.Add < 0 || e.Add > maxExperimentNodes {
		wrong("%d nodes join, want 0 to %d", e.Add, maxExperimentNodes)
	}
	if e.Multiply < 0 || e.Multiply > maxExperimentNodes {
		wrong("nodes multiplied by %d, want at least 1", e.Multiply)
	}
	if e.Keys < 0 {
		wrong("%d keys, want at least 1 (0 means the default)", e.Keys)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	// Each figure is bounded by now, so this fits even an int of 32 bits.
	end := e.NodesAfter()
	if end > maxExperimentNodes {
		wrong("%d nodes in the end, want at most %d", end, maxExperimentNodes)
	} else if nodes := int64(max(end, e.Nodes)); e.Keys > maxKeysFor(nodes) {
		wrong("%d keys for %d nodes, want at most %d", e.Keys, nodes, maxKeysFor(nodes))
	}
	return errors.Join(errs...)
}

// NodesAfter returns how many nodes there are in the end of an experiment that
// [Experiment.Run] can make.
func (e Experiment) NodesAfter() int {
	return (e.Nodes - e.Remove + e.Add) * max(e.Multiply, 1)
}

func (e Experiment) selectedKinds() ([]Kind, error) {
	if len(e.Kinds) == 0 {
		return Kinds(), nil
	}
	var kinds []Kind
	var errs []error
	for i, name := range e.Kinds {
		if slices.Contains(e.Kinds[:i], name) {
			continue
		}
		k, err := KindNamed(name)
		kinds, errs = append(kinds, k), append(errs, err)
	}
	return kinds, errors.Join(errs...)
}

// toChange returns which nodes leave and which join.
func (e Experiment) toChange(nodes []Node) Change {
	first := (e.Nodes - e.Remove) / 2
	if e.RemoveLast {
		first = e.Nodes - e.Remove
	}
	var c Change
	for _, n := range slices.Backward(nodes[first : first+e.Remove]) {
		c.Remove = append(c.Remove, n.Name)
	}
	for i := range e.NodesAfter() - (e.Nodes - e.Remove) {
		c.Add = append(c.Add, experimentNode(e.Nodes+i))
	}
	return c
}

func experimentNode(i int) Node { return Node{Name: fmt.Sprintf("node-%d", i)} }
