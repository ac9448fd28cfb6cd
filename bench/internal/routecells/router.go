// Package routecells sets the routing functions against the consistent-hashing
// libraries of Go.
//
// The operation is what a program does: take a 16-byte key, hash it, find its
// node. Each library hashes as it is meant to, or with the hash that its own
// documentation uses; where it takes a number it gets XXH3, as ours do.
package routecells

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/bench/internal/workload"
)

// kind is a way of routing.
type kind struct {
	name, family string
	ours         bool
	// most is the largest number of nodes that it can be built for in
	// reasonable time or memory. 0 means any.
	most int
	// linear says that a lookup looks at every node.
	linear bool
	build  func(nodes []string) router
}

// router is a built one.
type router struct {
	// lookups routes that many keys, one after the other.
	lookups func(ops int)
	// owner returns the node of one key.
	owner func(key string) string
	// grown returns the router with one node more.
	grown func(node string) router
	// weight returns a node's weight. nil means all are 1.
	weight func(node string) float64
}

// keyCount is how many keys lookups go round: their bytes and headers fit the
// second-level cache, so the window measures the router.
const keyCount = 1 << 14

var byteKeys, stringKeys = sampleKeys()

func sampleKeys() (b [keyCount][]byte, s [keyCount]string) {
	for i := range keyCount {
		s[i] = keyAt(i)
		b[i] = []byte(s[i])
	}
	return b, s
}

// keyAt returns the i-th 16-byte key of an endless supply.
func keyAt(i int) string {
	var k [16]byte
	binary.LittleEndian.PutUint64(k[:], workload.Scramble(uint64(i)))
	binary.LittleEndian.PutUint64(k[8:], workload.Scramble(^uint64(i)))
	return string(k[:])
}

// nodeNames returns the names of n nodes.
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = nodeName(i)
	}
	return names
}

func nodeName(i int) string { return fmt.Sprintf("10.%d.%d.%d:6379", i>>16, i>>8&255, i&255) }
