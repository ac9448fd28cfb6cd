package serve

import (
	"math/rand/v2"
	"strconv"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	handleSlow(map[string]func(*turn){"keys": keys, "randomkey": randomKey, "dbsize": dbSize,
		"cluster|countkeysinslot": countInSlot, "cluster|getkeysinslot": keysInSlot})
}

// maxKeysBytes is how long the keys of one answer are together.
const maxKeysBytes = 256 << 20

func keys(t *turn) {
	pattern := t.Args[1]
	if name, ok := glob.Literal(pattern); ok && command.CheckKey(name) == nil {
		t.writeNames(t.keyNamed(name))
	} else {
		t.writeNames(t.keysLike(pattern))
	}
}

// keyNamed is the key of a name, if there is one.
func (t *turn) keyNamed(name []byte) (found [][]byte, err error) {
	p := t.c.space.AppendPosition(nil, name)
	err = t.s.routed(t.ctx, p, func(part *node.Part) error {
		_, ok, err := part.Group.Read(t.ctx, p, nil)
		if found = nil; ok {
			found = [][]byte{name}
		}
		return err
	})
	return found, err
}

// keysLike are the keys that fit a pattern.
func (t *turn) keysLike(pattern []byte) (found [][]byte, err error) {
	all, size := string(pattern) == "*", 0
	err = t.s.walk(t.ctx, t.c.space, t.c.space.Span(), 0, func(k key) bool {
		if all || glob.Match(pattern, k.name) {
			size += len(k.name)
			found = append(found, k.name)
		}
		return size <= maxKeysBytes
	})
	if size > maxKeysBytes {
		return nil, redis.Error("ERR too many keys for one answer: use SCAN")
	}
	return found, err
}

// writeNames answers with names of keys.
func (t *turn) writeNames(names [][]byte, err error) {
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Array(len(names))
	for _, n := range names {
		t.out.Bulk(n)
	}
}

// randomKey returns the first key behind a position by chance: those behind a gap come
// more often than others.
func randomKey(t *turn) {
	space := t.c.space
	from := space.Span().Start
	if space.Kind == partition.Hash {
		from = space.SlotSpan(uint16(rand.IntN(space.SlotCount()))).Start
	}
	var some []key
	look := func(from partition.Position) error {
		return t.s.walk(t.ctx, space, partition.Span{Start: from, End: space.Span().End}, 16, func(k key) bool {
			some = append(some, k)
			return true
		})
	}
	err := look(from)
	if err == nil && len(some) == 0 {
		err = look(space.Span().Start)
	}
	switch {
	case err != nil:
		t.out.Fail(err)
	case len(some) == 0:
		t.out.Null()
	default:
		t.out.Bulk(some[rand.IntN(len(some))].name)
	}
}

func dbSize(t *turn) {
	n := int64(0)
	err := t.s.walk(t.ctx, t.c.space, t.c.space.Span(), 0, func(key) bool { n++; return true })
	if err != nil {
		t.out.Fail(err)
		return
	}
	t.out.Int(n)
}

// slotArg reads a slot.
func slotArg(t *turn) (slot uint16, ok bool) {
	n, err := strconv.Atoi(string(t.Args[2]))
	if err != nil || n < 0 || n >= t.c.space.SlotCount() {
		t.out.Fail(redis.Error("ERR Invalid slot"))
		return 0, false
	}
	return uint16(n), true
}

func countInSlot(t *turn) {
	if slot, ok := slotArg(t); ok {
		n := int64(0)
		err := t.s.walk(t.ctx, t.c.space, t.c.space.SlotSpan(slot), 0, func(key) bool { n++; return true })
		if err != nil {
			t.out.Fail(err)
			return
		}
		t.out.Int(n)
	}
}

func keysInSlot(t *turn) {
	slot, ok := slotArg(t)
	if !ok {
		return
	}
	most, err := strconv.Atoi(string(t.Args[3]))
	if err != nil || most < 0 {
		t.out.Fail(redis.Error("ERR Invalid number of keys"))
		return
	}
	var found [][]byte
	if most > 0 {
		err = t.s.walk(t.ctx, t.c.space, t.c.space.SlotSpan(slot), min(most, maxCount), func(k key) bool {
			found = append(found, k.name)
			return true
		})
	}
	t.writeNames(found, err)
}
