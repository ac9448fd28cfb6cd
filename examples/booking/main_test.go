package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheProgramTellsItsStory(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a store on disk")
	}
	var out strings.Builder
	if err := run(t.Context(), &out, 10); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	for _, want := range []string{"by customer: 10 cabins, two customers for each at once: each was sold to one, 10 refused", "shard key", "by cabin", "1.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// All bookings are for one sailing: under its key one store has all the work. And
// only what is kept by customer takes transactions of several groups.
func TestEachKeyHasItsPrice(t *testing.T) {
	db, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]*line, len(designs))
	for i, d := range designs {
		if lines[i], err = openLine(t.Context(), db, d); err != nil {
			t.Fatal(err)
		}
	}
	costs, err := measure(t.Context(), db, lines, deck(newSailing(), 40))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range costs {
		if len(c.times) != 40 || c.time() <= 0 {
			t.Errorf("%s: %d bookings, %v each", lines[i].name, len(c.times), c.time())
		}
		if hot := c.busiest() > 0.6; hot != (lines[i].name == "by sailing") {
			t.Errorf("%s: the busiest store has %.2f of the work", lines[i].name, c.busiest())
		}
		if wide := c.acrossStores > 0; c.transactions != 80 || c.acrossGroups < c.acrossStores || wide != (lines[i].name == "by customer") || wide != (c.acrossGroups > 0) {
			t.Errorf("%s: %d transactions, %d of several groups, %d of several stores", lines[i].name, c.transactions, c.acrossGroups, c.acrossStores)
		}
		if narrow := c.page == 1; narrow != (lines[i].name == "by sailing") {
			t.Errorf("%s: a page asks %d groups", lines[i].name, c.page)
		}
	}
}

func TestTheMedianAndTheShareAreThoseOfWhatWasMeasured(t *testing.T) {
	c := cost{times: []time.Duration{9, 1, 5}, commands: []uint64{10, 30, 20}}
	if c.time() != 5 || c.busiest() != 0.5 {
		t.Errorf("%v, %v", c.time(), c.busiest())
	}
	if c := (cost{commands: []uint64{0, 0}}); c.busiest() != 0 {
		t.Errorf("%v", c.busiest())
	}
}
