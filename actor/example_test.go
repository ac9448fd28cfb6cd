package actor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/hash"
)

// A bank account: the handler is the only code that touches the balance.
func Example() {
	ctx := context.Background()
	withdraw := func(balance *int, amount int) error {
		if amount > *balance {
			return fmt.Errorf("only %d left", *balance)
		}
		*balance -= amount
		return nil
	}
	account, err := actor.New(100, actor.Each(withdraw), actor.Options{})
	if err != nil {
		panic(err)
	}
	for range 3 {
		reply, err := account.Call(ctx, 40)
		fmt.Println(reply, err)
	}
	fmt.Println(account.Stop(ctx))
	_, err = account.Call(ctx, 40)
	fmt.Println(errors.Is(err, actor.ErrStopped))
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// only 20 left <nil>
	// <nil>
	// true
}

// A handler that sees whole batches pays for an expensive step, here a sync to
// a pretended disk, once for all messages that wait.
func ExampleBatch() {
	type disk struct {
		lines []string
		syncs int
	}
	log := actor.Batch(func(d *disk, lines []string, positions []int) {
		for i, line := range lines {
			positions[i] = len(d.lines)
			d.lines = append(d.lines, line)
		}
		d.syncs++ // no caller is answered before this
	})
	ctx := context.Background()
	a, err := actor.New(disk{}, log, actor.Options{Turns: -1})
	if err != nil {
		panic(err)
	}
	positions := make([]int, 3)
	err = a.CallBatch(ctx, []string{"a", "b", "c"}, positions)
	fmt.Println(positions, err)
	_ = a.Do(ctx, func(d *disk) { fmt.Println(len(d.lines), "lines,", d.syncs, "sync") })
	// Output:
	// [0 1 2] <nil>
	// 3 lines, 1 sync
}

// A transfer between two accounts sees both with nothing in flight.
func ExampleDoAll() {
	ctx := context.Background()
	deposit := actor.Each(func(balance *int, amount int) int { *balance += amount; return *balance })
	alice, _ := actor.New(100, deposit, actor.Options{})
	bob, _ := actor.New(0, deposit, actor.Options{})
	err := actor.DoAll(ctx, []*actor.Actor[int, int, int]{bob, alice}, func(balances []*int) {
		*balances[0] += 30
		*balances[1] -= 30
	})
	a, _ := alice.Call(ctx, 0)
	b, _ := bob.Call(ctx, 0)
	fmt.Println(a, b, err)
	// Output: 70 30 <nil>
}

// A fleet of counters, sharded by a stable hash of the word.
func ExampleFleet() {
	ctx := context.Background()
	count := actor.Each(func(counts *map[string]int, word string) int {
		(*counts)[word]++
		return (*counts)[word]
	})
	fleet, err := actor.NewFleet(4, func(int) map[string]int { return map[string]int{} }, count, actor.Options{})
	if err != nil {
		panic(err)
	}
	shard := func(word string) int { return int(hash.XXH3String(word).Uint64() % 4) }
	words := []string{"to", "be", "or", "not", "to", "be"}
	counts := make([]int, len(words))
	err = fleet.CallBatch(ctx, shard, words, counts)
	fmt.Println(counts, err)
	// Output: [1 1 1 1 2 2] <nil>
}
