package counter

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
)

// maxName leaves room for what is added to a name within the limit of a key.
const maxName = 8 << 10

// layout makes the keys of the parts of counters. They are the same for ever, whatever
// the options: part 0 where the name says, the others evenly around it, so that
// 2, 4, 8 … parts fall into halves, quarters, eighths … of the keyspace.
type layout struct {
	space *cleave.Keyspace
	slots int // 0 for a range keyspace
}

func newLayout(ks *cleave.Keyspace) layout {
	l := layout{space: ks}
	if o := ks.Options(); o.Kind == cleave.Hash {
		if l.slots = o.Slots; l.slots == 0 {
			l.slots = hash.Slots
		}
	}
	return l
}

// check refuses names whose keys would be too long.
func check(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%w: it has %d bytes: use at most %d", ErrName, len(name), maxName)
	}
	return nil
}

// manifest is the key of the manifest: next to part 0.
func (l layout) manifest(name string) []byte {
	if l.slots == 0 {
		return l.salted(name, 0, "manifest")
	}
	return tagged(0, name, "m")
}

// part is the key of a part.
func (l layout) part(name string, i int) []byte {
	if l.slots == 0 {
		return l.salted(name, i, int64(i))
	}
	return tagged(l.tag(name, i), name, strconv.Itoa(i))
}

// parts are the keys of the first n parts.
func (l layout) parts(name string, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = l.part(name, i)
	}
	return keys
}

// tagged is a key of a hash keyspace. The hash tag begins with the number, and ends with
// the name or with a brace in it, so that it is different for each number, and the same
// for all keys with that number and name.
func tagged(number int, name, what string) []byte {
	k := append(strconv.AppendInt([]byte{'{'}, int64(number), 10), ':')
	return append(append(append(k, name...), '}'), what...)
}

// fine and finest are into how many stretches the slots are cut to place parts: the
// first 64 parts are looked for in one of 64, which takes 64 tries on average.
const (
	fine   = 64
	finest = MaxParts
	// tries bounds the search, which has no end if no number leads to a stretch.
	// With at most 256 stretches, that many have never been needed.
	tries = 1 << 13
)

// tag is the number that brings a part into its stretch of slots.
func (l layout) tag(name string, i int) int {
	if i == 0 {
		return 0
	}
	stretches := fine
	if i >= fine {
		stretches = finest
	}
	stretches = min(stretches, l.slots)
	k := tagged(0, name, "")
	stretch := func() int { return int(hash.SlotOf(k)) & (l.slots - 1) * stretches / l.slots }
	turn := int(bits.Reverse8(uint8(i))) * stretches / 256
	want := (stretch() + turn) % stretches
	for n := 1; n < tries; n++ {
		k = append(append(strconv.AppendInt(k[:1], int64(n), 10), ':'), name...)
		if k = append(k, '}'); stretch() == want {
			return n
		}
	}
	return i
}

// salted is a key of a range keyspace: a byte that spreads, and a tuple.
func (l layout) salted(name string, i int, what any) []byte {
	salt := uint8(hash.XXH3String(name).Uint64()) + bits.Reverse8(uint8(i))
	k, err := key.Append([]byte{salt}, key.Tuple{name, what})
	if err != nil {
		panic(err) // a string and a number always fit
	}
	return k
}

// SplitKeys returns the keys at which to cut a keyspace of kind Range, so that the parts
// of counters fall evenly into n pieces, at most MaxParts:
//
//	job, err := db.Start(ctx, cleave.Split{Keyspace: ks, At: counter.SplitKeys(8)})
//
// Then give some of the shards to other groups, with a [cleave.Move] for each. One of
// kind Hash needs nothing: its slots are spread from the start.
func SplitKeys(n int) [][]byte {
	var keys [][]byte
	for i := 1; i < min(n, MaxParts); i++ {
		keys = append(keys, []byte{byte(i * 256 / min(n, MaxParts))})
	}
	return keys
}
