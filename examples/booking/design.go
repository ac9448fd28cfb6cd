package main

import "github.com/cleavekv/cleave/key"

// cabin is what is sold: a cabin of one sailing.
type cabin struct{ sailing, number string }

// layout is the shape of all keys. What stands before the bar is their home:
// rows with the same home are in the same shard. It is written in braces, the
// hash tag, which makes a keyspace of kind Hash look at nothing else.
const layout = "home:string | row:string, sailing:string, cabin:string"

// The rows about a cabin.
const (
	cabinRow    = "cabin"    // its customer; none if it is free
	holdRow     = "hold"     // at what price it is held
	contractRow = "contract" // at what price it was sold
)

// design is a choice of homes.
type design struct {
	name string
	// home of the cabin, and of what a customer has to do with it.
	cabin func(c cabin) string
	deal  func(c cabin, customer string) string
}

func atCabin(c cabin) string   { return "{" + c.sailing + "/" + c.number + "}" }
func atSailing(c cabin) string { return "{" + c.sailing + "}" }

var designs = []design{
	{"by cabin", atCabin, func(c cabin, _ string) string { return atCabin(c) }},
	{"by sailing", atSailing, func(c cabin, _ string) string { return atSailing(c) }},
	{"by customer", atCabin, func(_ cabin, customer string) string { return "{" + customer + "}" }},
}

// keys are those of the rows about a cabin and a customer.
type keys struct{ cabin, hold, contract []byte }

func (d design) keys(l *key.Layout, c cabin, customer string) (k keys, err error) {
	if k.cabin, err = l.AppendValues(nil, d.cabin(c), cabinRow, c.sailing, c.number); err != nil {
		return k, err
	}
	if k.hold, err = l.AppendValues(nil, d.deal(c, customer), holdRow, c.sailing, c.number); err != nil {
		return k, err
	}
	k.contract, err = l.AppendValues(nil, d.deal(c, customer), contractRow, c.sailing, c.number)
	return k, err
}
