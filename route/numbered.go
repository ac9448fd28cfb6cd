package route

import (
	"fmt"
	"strconv"
)

// maxNumbered bounds what one wrong argument of Numbered can allocate.
const maxNumbered = 1 << 20

// Numbered returns n nodes named 0 to n-1, for shards that are known by their
// number: Route of a router made from them is the number of the shard. That
// holds while only the last shards come and go; after other changes an index
// is no longer the number, but the name still is.
//
// It fails with [ErrNodeCount] unless n is from 1 to 2^20.
func Numbered(n int) ([]Node, error) {
	if n < 1 || n > maxNumbered {
		return nil, fmt.Errorf("%w: %d, want 1 to %d", ErrNodeCount, n, maxNumbered)
	}
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Name = strconv.Itoa(i)
	}
	return nodes, nil
}
