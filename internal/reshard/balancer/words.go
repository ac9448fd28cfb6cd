package balancer

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/partition"
)

// keyText returns the key at a position, as clients write it; a position that is in no key, such as that of a slot, in
// the words of its keyspace.
func keyText(k *node.Keyspace, at []byte) string {
	if k == nil {
		return partition.Span{Start: at}.String()
	}
	key, _, err := k.Split(nil, at)
	if err != nil {
		if k.Kind == partition.Hash {
			return "slot " + strconv.Itoa(k.SlotAt(at))
		}
		return partition.Span{Start: at}.String()
	}
	return string(key)
}

// RemedyOf is what helps against a class beside what the balancer does, for whoever wrote the application.
func RemedyOf(c classify.Class) string {
	switch c {
	case classify.HotKey:
		return "unsplittable: one key. Read: let clients cache it (CLIENT TRACKING), or keep copies of it in several keys. Written: spread it over several keys (package counter, or a salt) and add them up when it is read"
	case classify.MovingEdge:
		return "each new key lies behind all others, so one shard gets all writes: begin the key with what spreads it, such as hash(id), or with a bucket of the time and a salt: cleave advise tells them apart on your data"
	case classify.HotPrefix:
		return "many keys that begin alike are read: let clients cache them (CLIENT TRACKING), or store what is read together under a key that is not shared by all"
	case classify.CrossShard:
		return "keep what one transaction writes together under one key prefix or hash tag, so that it is in one shard"
	case classify.Saturated:
		return "the machine has no time left: no change of shards helps. Use fewer requests (pipelines, caches), or a larger machine"
	}
	return ""
}

// KeyText returns a key of a finding about a shard, as clients write it.
func (b *Balancer) KeyText(id partition.ShardID, at []byte) string {
	s, ok := b.node.Map().Shard(id)
	if !ok {
		return keyText(nil, at)
	}
	return keyText(findKeyspace(b.node.Keyspaces(), s.Span), at)
}
