package spread

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
)

// MaxParts is the most parts that a name can have.
const MaxParts = 256

// PartKeys makes the keys of what is kept in several parts under one name, such as a split counter.
// They are the same for ever, whatever the options: part 0 where the name says, the others evenly around it,
// so that 2, 4, 8 … parts fall into halves, quarters, eighths … of the keyspace. In one of kind Range a
// byte stands in front of the key for that.
type PartKeys struct {
	kind  string
	slots int // 0 for a range keyspace
}

// NewPartKeys returns the keys of parts in a keyspace. Those of another kind are others.
func NewPartKeys(ks *cleave.Keyspace, kind string) PartKeys {
	l := PartKeys{kind: kind}
	if o := ks.Options(); o.Kind == cleave.Hash {
		if l.slots = o.Slots; l.slots == 0 {
			l.slots = hash.Slots
		}
	}
	return l
}

// Manifest is the key of the manifest: next to part 0.
func (l PartKeys) Manifest(name string) []byte {
	if l.slots == 0 {
		return saltedKey(name, 0, key.Tuple{name, l.kind + "manifest"})
	}
	return hashTaggedKey(0, name, l.kind+"m")
}

// Part is the key of a part.
func (l PartKeys) Part(name string, i int) []byte {
	switch {
	case l.slots > 0:
		return hashTaggedKey(l.findHashTag(name, i), name, l.kind+strconv.Itoa(i))
	case l.kind == "":
		return saltedKey(name, i, key.Tuple{name, int64(i)})
	}
	return saltedKey(name, i, key.Tuple{name, l.kind, int64(i)})
}

// Parts are the keys of the first n parts.
func (l PartKeys) Parts(name string, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = l.Part(name, i)
	}
	return keys
}

// hashTaggedKey is a key of a hash keyspace. The hash tag begins with the number, and ends with
// the name or with a brace in it, so that it is different for each number, and the same
// for all keys with that number and name.
func hashTaggedKey(number int, name, what string) []byte {
	k := append(strconv.AppendInt([]byte{'{'}, int64(number), 10), ':')
	return append(append(append(k, name...), '}'), what...)
}

// coarseStretches and finest are into how many stretches the slots are cut to place parts: the
// first 64 parts are looked for in one of 64, which takes 64 tries on average.
const (
	coarseStretches = 64
	maxStretches    = MaxParts
	// maxTagTries bounds the search, which has no end if no number leads to a stretch.
	// With at most 256 stretches, that many have never been needed.
	maxTagTries = 1 << 13
)

// findHashTag is the number that brings a part into its stretch of slots.
func (l PartKeys) findHashTag(name string, i int) int {
	if i == 0 {
		return 0
	}
	stretches := coarseStretches
	if i >= coarseStretches {
		stretches = maxStretches
	}
	stretches = min(stretches, l.slots)
	k := hashTaggedKey(0, name, "")
	stretch := func() int { return int(hash.SlotOf(k)) & (l.slots - 1) * stretches / l.slots }
	turn := int(bits.Reverse8(uint8(i))) * stretches / 256
	want := (stretch() + turn) % stretches
	for n := 1; n < maxTagTries; n++ {
		k = append(append(strconv.AppendInt(k[:1], int64(n), 10), ':'), name...)
		if k = append(k, '}'); stretch() == want {
			return n
		}
	}
	return i
}

// saltedKey is a key of a range keyspace: a byte that spreads, and a tuple.
func saltedKey(name string, i int, t key.Tuple) []byte {
	salt := uint8(hash.XXH3String(name).Uint64()) + bits.Reverse8(uint8(i))
	k, err := key.Append([]byte{salt}, t)
	if err != nil {
		panic(err) // strings and numbers always fit
	}
	return k
}

// PartSplitKeys returns the keys at which to cut a keyspace of kind Range, so that parts fall evenly into n
// pieces, at most MaxParts.
func PartSplitKeys(n int) [][]byte {
	var keys [][]byte
	for i := 1; i < min(n, MaxParts); i++ {
		keys = append(keys, []byte{byte(i * 256 / min(n, MaxParts))})
	}
	return keys
}

// Parts cuts a keyspace of kind Range into as many pieces as there are groups, and gives each group one, store by
// store, because the first two parts of a name lie half of the keyspace apart. One of kind Hash is left as it is.
func Parts(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace) error {
	if ks.Options().Kind == cleave.Hash {
		return nil
	}
	groups, err := GroupsByStore(db)
	if err != nil {
		return fmt.Errorf("spread keyspace %s: %w", ks.Name(), err)
	}
	groups = groups[:min(len(groups), MaxParts)]
	cuts := PartSplitKeys(len(groups))
	places := []Place{{Group: groups[0].ID}}
	for i, cut := range cuts {
		places = append(places, Place{Key: cut, Group: groups[i+1].ID})
	}
	if err := Apply(ctx, db, ks, cuts, places); err != nil {
		return fmt.Errorf("spread keyspace %s: %w", ks.Name(), err)
	}
	return nil
}
