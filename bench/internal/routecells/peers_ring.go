package routecells

import (
	"math/big"

	burak "github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/golang/groupcache/consistenthash"
	"github.com/serialx/hashring"
	stathat "stathat.com/c/consistent"
)

// virtualNodes is what our ring has by default and what groupcache's users
// commonly ask for. The other peers have the 20 that are the default of two
// of them, since they build too slowly for more. Fewer make lookups faster
// and loads less even: see the imbalance beside their speed.
const (
	virtualNodes    = 150
	fewVirtualNodes = 20
)

func ringPeers() []kind {
	return []kind{
		{name: "groupcache (150)", family: familyRing, build: groupcache},
		{name: "buraksezer (20)", family: familyRing, most: 1024, build: buraksezer},
		// Its Add sorts all virtual nodes anew: thousands of nodes take minutes.
		{name: "stathat (20)", family: familyRing, most: 1024, build: stathatRing},
		{name: "serialx (20)", family: familyRing, build: serialx},
	}
}

// byNames makes a router of a library that maps strings to names and whose
// ring depends on the names alone, so that growing is building anew.
func byNames(names []string, get func(key string) string, build func([]string) router) router {
	return router{
		lookups: func(ops int) {
			sum := 0
			for i := range ops {
				sum += len(get(stringKeys[i%keyCount]))
			}
			workload.Sink = uint64(sum)
		},
		owner: get,
		grown: func(node string) router { return build(append(names[:len(names):len(names)], node)) },
	}
}

func groupcache(names []string) router {
	m := consistenthash.New(virtualNodes, nil)
	m.Add(names...)
	return byNames(names, m.Get, groupcache)
}

func stathatRing(names []string) router {
	c := stathat.New()
	c.NumberOfReplicas = fewVirtualNodes
	c.Set(names)
	return byNames(names, func(key string) string {
		name, _ := c.Get(key) // fails on an empty ring only
		return name
	}, stathatRing)
}

func serialx(names []string) router {
	// Its own default is one virtual node, which is no ring to compare with.
	weights := make(map[string]int, len(names))
	for _, name := range names {
		weights[name] = fewVirtualNodes
	}
	r := hashring.NewWithWeights(weights)
	return byNames(names, func(key string) string {
		name, _ := r.GetNode(key) // not found in an empty ring only
		return name
	}, serialx)
}

type burakMember string

func (m burakMember) String() string { return string(m) }

type burakHasher struct{}

func (burakHasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

func buraksezer(names []string) router { return burakWith(names, burakPartitions(len(names))) }

// burakPartitions is the number of partitions, which must not change when a
// node joins: a prime, as its documentation asks, with some 20 for each node.
func burakPartitions(nodes int) int {
	p := 20*nodes + 1
	for !big.NewInt(int64(p)).ProbablyPrime(10) {
		p += 2
	}
	return p
}

func burakWith(names []string, partitions int) router {
	members := make([]burak.Member, len(names))
	for i, name := range names {
		members[i] = burakMember(name)
	}
	c := burak.New(members, burak.Config{
		Hasher: burakHasher{}, PartitionCount: partitions, ReplicationFactor: fewVirtualNodes, Load: 1.25,
	})
	r := byNames(names, func(key string) string { return c.LocateKey([]byte(key)).String() },
		func(names []string) router { return burakWith(names, partitions) })
	// It takes bytes: spare it the conversion of a string in the window.
	r.lookups = func(ops int) {
		sum := 0
		for i := range ops {
			if c.LocateKey(byteKeys[i%keyCount]) != nil {
				sum++
			}
		}
		workload.Sink = uint64(sum)
	}
	return r
}
