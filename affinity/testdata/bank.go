// Package bank holds a bug that the compiler finds: the debit goes to the
// shard of the payee. With bare strings for keys it would run, open an account
// of alice on West, overdraw it, and leave her real one untouched.
package bank

import "github.com/cleavekv/cleave/affinity"

type (
	East struct{}
	West struct{}
)

type bank struct {
	east *affinity.Shard[East, string, int]
	west *affinity.Shard[West, string, int]
}

func add[S any](accounts *affinity.Shard[S, string, int], account affinity.Key[S, string], amount int) error {
	return accounts.Do(func(tx *affinity.Tx[S, string, int]) error {
		balance, err := tx.Load(account)
		if err != nil {
			return err
		}
		return tx.Store(account, balance+amount)
	})
}

func (b *bank) pay(alice affinity.Key[East, string], bob affinity.Key[West, string], amount int) error {
	if err := add(b.west, alice, -amount); err != nil { // want "type affinity.Key[East, string] of alice does not match inferred type affinity.Key[West, string] for affinity.Key[S, string]"
		return err
	}
	return add(b.west, bob, amount)
}

// unchecked is the same bug with maps: nothing stops it.
func unchecked(east, west map[string]int, alice, bob string, amount int) {
	west[alice] -= amount
	west[bob] += amount
}
