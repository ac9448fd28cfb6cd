package routecells

import (
	"math/big"

	"github.com/cespare/xxhash/v2"
	"github.com/cleavekv/cleave/bench/internal/workload"
	dgryskijump "github.com/dgryski/go-jump"
	dgryskimaglev "github.com/dgryski/go-maglev"
	rendezvous "github.com/dgryski/go-rendezvous"
	kkdaimaglev "github.com/kkdai/maglev"
	lithammer "github.com/lithammer/go-jump-consistent-hash"
	"github.com/zeebo/xxh3"
)

func otherPeers() []kind {
	return []kind{
		{name: "go-rendezvous", family: familyRendezvous, linear: true, build: goRendezvous},
		{name: "dgryski/go-jump", family: familyJump, build: goJump},
		{name: "lithammer/jump", family: familyJump, build: lithammerJump},
		{name: "dgryski/go-maglev", family: familyMaglev, build: func(names []string) router { return goMaglev(names, maglevEntries(len(names))) }},
		// It keeps a permutation of the whole table for every node.
		{name: "kkdai/maglev", family: familyMaglev, most: 64, build: func(names []string) router { return kkdaiMaglev(names, maglevEntries(len(names))) }},
	}
}

func goRendezvous(names []string) router {
	r := rendezvous.New(names, xxhash.Sum64String)
	return byNames(names, r.Lookup, goRendezvous)
}

// byNumber makes a router of a function from a hash to a node's number. It is
// called through a variable, as ours are through an interface.
func byNumber(names []string, number func(h uint64) int, build func([]string) router) router {
	r := byNames(names, func(key string) string { return names[number(xxh3.HashString(key))] }, build)
	r.lookups = func(ops int) {
		sum := 0
		for i := range ops {
			sum += number(xxh3.Hash(byteKeys[i%keyCount]))
		}
		workload.Sink = uint64(sum)
	}
	return r
}

func goJump(names []string) router {
	n := len(names)
	return byNumber(names, func(h uint64) int { return int(dgryskijump.Hash(h, n)) }, goJump)
}

func lithammerJump(names []string) router {
	n := int32(len(names))
	return byNumber(names, func(h uint64) int { return int(lithammer.Hash(h, n)) }, lithammerJump)
}

// maglevEntries is a prime that gives every node 100 entries at least.
func maglevEntries(nodes int) uint64 {
	m := uint64(100*nodes + 1)
	for !new(big.Int).SetUint64(m).ProbablyPrime(10) {
		m += 2
	}
	return m
}

func goMaglev(names []string, entries uint64) router {
	t := dgryskimaglev.New(names, entries)
	return byNumber(names, t.Lookup, func(names []string) router { return goMaglev(names, entries) })
}

func kkdaiMaglev(names []string, entries uint64) router {
	t, err := kkdaimaglev.NewMaglev(names, entries)
	if err != nil {
		panic(err)
	}
	return byNames(names, func(key string) string {
		name, _ := t.Get(key) // fails on an empty table only
		return name
	}, func(names []string) router { return kkdaiMaglev(names, entries) })
}
