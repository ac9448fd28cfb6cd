package partition_test

import (
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
