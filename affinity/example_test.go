package affinity_test

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/affinity"
	"github.com/cleavekv/cleave/hash"
)

// Each shard is named by a type.
type (
	East struct{}
	West struct{}
)

var errPoor = errors.New("balance too low")

// must is for set-up that cannot fail unless it is written wrongly.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// transfer moves money between two accounts of one shard, in one transaction.
// Its signature is the check: accounts of different shards do not compile.
func transfer[S any](accounts *affinity.Shard[S, string, int], from, to affinity.Key[S, string], amount int) error {
	return accounts.Do(func(tx *affinity.Tx[S, string, int]) error {
		have, err := tx.Load(from)
		if err != nil {
			return err
		}
		if have < amount {
			return errPoor
		}
		if err := tx.Store(from, have-amount); err != nil {
			return err
		}
		got, err := tx.Load(to)
		if err != nil {
			return err
		}
		return tx.Store(to, got+amount)
	})
}

// Alice and Carol live on East, Bob on West. A payment to Carol is one local
// transaction. The same call with Bob is the bug that sharded ledgers have: it
// would debit and credit in the wrong shard. Here it does not compile, so the
// author has to write a payment that knows about two shards.
func Example() {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1)},
		Hash:   hash.XXH3String,
		Audit: func(c affinity.Crossing, account string) {
			fmt.Printf("audit: %s took %s from %s to %s: %s\n", c.Who, account, c.From, c.To, c.Reason)
		},
	}))
	east, west := must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space))
	accounts := must(affinity.NewShard[int](east))
	alice, carol, bob := must(east.Locate("alice")), must(east.Locate("carol")), must(west.Locate("bob"))
	_ = accounts.Store(alice, 100)
	_ = accounts.Store(carol, 0)

	fmt.Println("to carol:", transfer(accounts, alice, carol, 30))
	// transfer(accounts, alice, bob, 30) is refused: "type Key[West, string] of
	// bob does not match inferred type Key[East, string] for Key[S, string]".

	// What West may know of Alice is decided in one place and on record.
	debts := must(affinity.NewShard[map[string]int](west))
	settle := must(affinity.NewBridge(east, west, "ledger", "a debt is kept beside the payee"))
	debtor := must(settle.Cross(alice))
	_ = debts.Store(debtor, map[string]int{bob.Value(): 30})
	fmt.Println("crossings:", space.Crossings()[0].Count)
	// Output:
	// to carol: <nil>
	// audit: ledger took alice from affinity_test.East to affinity_test.West: a debt is kept beside the payee
	// crossings: 1
}

// deposit is written once and serves every shard.
func deposit[S any](accounts *affinity.Shard[S, string, int]) func(affinity.Key[S, string], int) (int, error) {
	return func(k affinity.Key[S, string], amount int) (balance int, err error) {
		err = accounts.Do(func(tx *affinity.Tx[S, string, int]) error {
			had, err := tx.Load(k)
			if err != nil && !errors.Is(err, affinity.ErrAbsent) {
				return err
			}
			balance = had + amount
			return tx.Store(k, balance)
		})
		return balance, err
	}
}

// Names that arrive at run time enter typed code through a switch.
func ExampleSwitch() {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1)},
		Hash:   hash.XXH3String,
	}))
	east, west := must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space))
	eastern, western := must(affinity.NewShard[int](east)), must(affinity.NewShard[int](west))
	deposits := must(affinity.NewSwitch(space, affinity.On(east, deposit(eastern)), affinity.On(west, deposit(western))))

	for _, name := range []string{"alice", "bob", "carol", "bob"} {
		balance, err := deposits.Do(name, 10)
		fmt.Println(name, balance, err)
	}
	fmt.Println(eastern.Len(), "on East,", western.Len(), "on West")

	_, err := affinity.NewSwitch(space, affinity.On(east, deposit(eastern)))
	fmt.Println(err)
	// Output:
	// alice 10 <nil>
	// bob 10 <nil>
	// carol 10 <nil>
	// bob 20 <nil>
	// 2 on East, 1 on West
	// affinity: bad switch: no case for affinity_test.West
}

// Locate returns where a key lives if it is not here.
func ExampleHome_Locate() {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1)},
		Hash:   hash.XXH3String,
	}))
	east := must(affinity.HomeOf[East](space))
	_, err := east.Locate("bob")
	fmt.Println(err)
	// Output: affinity: key lives elsewhere: asked affinity_test.East, lives on affinity_test.West
}
