// Package mapcells sets the sharded map against the concurrent maps of Go.
//
// Every map is called through one interface. The indirect call is the same
// for all, so it makes ratios a little smaller than they are.
package mapcells

import "github.com/cleavekv/cleave/bench/internal/duel"

// table is what every concurrent map can do.
type table[K comparable, V any] interface {
	Load(K) (V, bool)
	Store(K, V)
	Delete(K)
	Range(func(K, V) bool)
}

// maker makes empty tables of one kind.
type maker[K comparable, V any] struct {
	name string
	ours bool
	make func() table[K, V]
}

// contestant starts a contestant of that kind.
func (m maker[K, V]) contestant() duel.Contestant {
	return duel.Contestant{Name: m.name, Ours: m.ours}
}
