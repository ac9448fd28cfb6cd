// Package shards shows what the compiler lets pass between shards and what it
// refuses.
package shards

import "github.com/cleavekv/cleave/affinity"

type (
	East struct{}
	West struct{}
)

type (
	eastKey = affinity.Key[East, string]
	westKey = affinity.Key[West, string]
)

func keys(
	east affinity.Home[East, string], west affinity.Home[West, string],
	eastRows *affinity.Shard[East, string, int], westRows *affinity.Shard[West, string, int],
) {
	alice, _ := east.Locate("alice")
	bob, _ := west.Locate("bob")

	_ = eastRows.Store(alice, 1)
	_ = westRows.Store(bob, 1)
	_ = westRows.Store(alice, 1)   // want "cannot use alice (variable of struct type affinity.Key[East, string]) as affinity.Key[West, string] value"
	_, _ = eastRows.Load(bob)      // want "cannot use bob (variable of struct type affinity.Key[West, string]) as affinity.Key[East, string] value"
	_ = eastRows.Delete(bob)       // want "cannot use bob"
	_ = eastRows.Store("alice", 1) // want "cannot use \"alice\" (untyped string constant) as affinity.Key[East, string] value"
	_ = alice == alice
	_ = alice == bob // want "mismatched types"

	_ = eastRows.Do(func(tx *affinity.Tx[East, string, int]) error {
		_ = tx.Store(alice, 2)
		_, _ = tx.Load(bob)     // want "cannot use bob"
		return tx.Store(bob, 2) // want "cannot use bob"
	})

	// Rows of another kind on the same shard take the same keys.
	orders, _ := affinity.NewShard[[]string](east)
	_ = orders.Store(alice, nil)
	_ = orders.Store(bob, nil) // want "cannot use bob"
}

// Structs of the same shape convert into one another in Go. These must not.
func conversions(
	alice eastKey, east affinity.Home[East, string], rows *affinity.Shard[East, string, int],
	tx *affinity.Tx[East, string, int], bridge *affinity.Bridge[East, West, string],
) {
	_ = westKey(alice)                                        // want "cannot convert alice (variable of struct type eastKey) to type westKey"
	_ = affinity.Home[West, string](east)                     // want "cannot convert east"
	_ = (*westKey)(&alice)                                    // want "cannot convert &alice"
	_ = (*affinity.Shard[West, string, int])(rows)            // want "cannot convert rows"
	_ = (*affinity.Tx[West, string, int])(tx)                 // want "cannot convert tx"
	_ = (*affinity.Bridge[West, East, string])(bridge)        // want "cannot convert bridge"
	_ = affinity.Key[West, string]{value: "alice"}            // want "cannot refer to unexported field value"
	_ = affinity.Home[West, string]{}.Locate                  // the zero Home compiles and locates nothing
	_ = any(alice).(westKey)                                  // compiles, and panics: a key has one dynamic type
	_ = affinity.Key[West, int](affinity.Key[West, string]{}) // want "cannot convert"
}

// transfer demands that both accounts live on one shard, whichever that is.
func transfer[S any](rows *affinity.Shard[S, string, int], from, to affinity.Key[S, string]) {}

func transfers(rows *affinity.Shard[East, string, int], alice, carol eastKey, bob westKey) {
	transfer(rows, alice, carol)
	transfer(rows, alice, bob)     // want "does not match inferred type affinity.Key[East, string]"
	transfer(rows, bob, alice)     // want "does not match inferred type affinity.Key[East, string]"
	transfer[West](rows, bob, bob) // want "cannot use rows"
}

// A bridge goes one way and gives a key of the other side only.
func crossings(bridge *affinity.Bridge[East, West, string], alice eastKey, bob westKey, rows *affinity.Shard[West, string, int]) {
	guest, _ := bridge.Cross(alice)
	_ = rows.Store(guest, 1)
	_, _ = bridge.Cross(bob)   // want "cannot use bob"
	_, _ = bridge.Cross(guest) // want "cannot use guest"
}

func cases(east affinity.Home[East, string], west affinity.Home[West, string]) {
	onEast := func(eastKey, int) (string, error) { return "", nil }
	_ = affinity.On(east, onEast)
	_ = affinity.On(west, onEast) // want "type func(eastKey, int) (string, error) of onEast does not match inferred type"
}
