package key_test

import (
	"cmp"
	"fmt"
	"log"

	"github.com/cleavekv/cleave/key"
)

// A log whose writes go round over four salts and whose reads see one order.
func ExampleMergeSalts() {
	type event struct {
		at   int
		text string
	}
	salter, err := key.NewRoundRobin(4, 0)
	if err != nil {
		log.Fatal(err)
	}
	ranges := make([][]event, salter.Salts())
	for i, text := range []string{"boot", "login", "click", "click", "buy", "logout", "halt"} {
		salt := salter.Salt(nil)
		ranges[salt] = append(ranges[salt], event{i, text})
	}

	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	m, err := key.MergeSalts(salter.Salts(), byTime, func(salt int) (key.Cursor[event], error) {
		return key.SliceCursor(ranges[salt]), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range m.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.at, e.text)
		if e.text == "buy" {
			break // the ranges are closed here
		}
	}
	place, _ := m.Place()
	fmt.Printf("continue after %d, which salt %d held\n", place.Item.at, place.Source)
	// Output:
	// 0 boot
	// 1 login
	// 2 click
	// 3 click
	// 4 buy
	// continue after 4, which salt 0 held
}

func ExampleSaltCount() {
	a, err := key.SaltCount(12)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Salts, "salts:", a.Price)
	// Output:
	// 16 salts: an ordered read opens 16 ranges, waits for the slowest, and makes about 4 comparisons a record
}
