package route

import "github.com/cleavekv/cleave/hash"

// Owner returns the node that owns h, and false if the router is empty. It is
// Route for those who want the node and not its index.
func Owner(r Router, h hash.Stable) (Node, bool) {
	i := r.Route(h)
	if i == None {
		return Node{}, false
	}
	return r.Nodes()[i], true
}
