package route

import "github.com/cleavekv/cleave/hash"

// Owner returns the node that owns h, and false if the router is empty. It is
// Route for those who want the node and not its index. A nil router is an empty
// one.
func Owner(r Router, h hash.Stable) (Node, bool) {
	if r == nil {
		return Node{}, false
	}
	i := r.Route(h)
	if i == None {
		return Node{}, false
	}
	return r.Nodes()[i], true
}

// Owners returns min(n, len(r.Nodes())) distinct nodes for h in order of
// preference, the owner first and then nodes in zones not used yet. It is
// RouteN for those who want the nodes and not their indexes, and allocates
// where RouteN need not. A nil router is an empty one.
func Owners(r Router, h hash.Stable, n int) []Node {
	if r == nil {
		return nil
	}
	indexes := r.RouteN(nil, h, n)
	nodes, owners := r.Nodes(), make([]Node, len(indexes))
	for i, index := range indexes {
		owners[i] = nodes[index]
	}
	return owners
}
