package check_test

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/testkit/check"
)

// Two clients read the same list and append to it: one of them overlooked the
// other.
func ExampleLists() {
	history := []check.Txn{
		{
			Call: check.Call{Client: 1, Invoke: 10, Return: 25, Status: check.OK},
			Ops:  []check.Op{check.Read("x"), check.Append("x", 1)},
		},
		{
			Call: check.Call{Client: 2, Invoke: 12, Return: 27, Status: check.OK},
			Ops:  []check.Op{check.Read("x"), check.Append("x", 2)},
		},
		{
			Call: check.Call{Client: 1, Invoke: 30, Return: 31, Status: check.OK},
			Ops:  []check.Op{check.Read("x", 1, 2)},
		},
	}
	fmt.Println(check.Lists(history))
	// Output:
	// 3 calls, 3 judged, 3 reads: 1 G-single
	// G-single (lost update): each of these must come before the next, and the last before the first
	//   T1 before T0 (rw): T1 read x as empty, without 1, which T0 appended
	//   T0 before T1 (ww): in x, T0's 1 is in front of T1's 2
	//   T0 is client 1 [10,25] ok: read x [], append x 1
	//   T1 is client 2 [12,27] ok: read x [], append x 2
}
