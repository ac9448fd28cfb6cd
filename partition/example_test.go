package partition_test

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

// A key's row and the elements of its collection are neighbours, so a shard
// that holds one holds the others.
func ExampleKeyspace_AppendPosition() {
	users := partition.Keyspace{ID: 7, Name: "users", Kind: partition.Range}
	row := users.AppendPosition(nil, []byte("ada"))
	field := append(row, "email"...)
	key, element, _ := users.Split(nil, field)
	fmt.Printf("%q holds %q\n", key, element)
	fmt.Println(users.KeySpan([]byte("ada")).Contains(field))
	// Output:
	// "ada" holds "email"
	// true
}

// A map is split and a part of it moved, while readers of the old one go on.
func ExampleMap_Apply() {
	users := &partition.Keyspace{ID: 7, Name: "users", Kind: partition.Range}
	at := func(key string) partition.Position { return users.AppendPosition(nil, []byte(key)) }

	m, err := partition.NewMap(make([]partition.Group, 2), nil) // groups 1 and 2
	if err != nil {
		panic(err)
	}
	var published partition.Published
	published.Offer(m)

	next, err := m.Apply(
		partition.Split{Shard: 1, In: users, At: []partition.Position{at("m")}},
		partition.Assign{Shard: m.NextShard(), To: 2},
	)
	if err != nil {
		panic(err)
	}
	published.Offer(next)
	fmt.Println("ada is with", published.Load().Owner(at("ada")).Group)
	fmt.Println("zoe is with", published.Load().Owner(at("zoe")).Group)
	fmt.Println("zoe was with", m.Owner(at("zoe")).Group)

	// A plan that was made for what a shard used to be is refused.
	_, err = next.Apply(partition.Assign{Shard: 1, To: 2, Expect: m.Version()})
	fmt.Println(errors.Is(err, partition.ErrStale))
	// Output:
	// ada is with group 1
	// zoe is with group 2
	// zoe was with group 1
	// true
}
