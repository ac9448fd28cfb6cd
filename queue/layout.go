package queue

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/key"
)

// The rows of a queue are
//
//	name | first point of the bucket | epoch | kind | number …
//
// where name and epoch are tuples, so that a bucket is one stretch of keys, and the buckets
// of all epochs lie in the order of their points. The manifest is at ("", name), the place of
// a reader of a log at ("", name, reader), and a message that was set aside at ("", name, 0,
// epoch, shard, number, key): there are few, and they outlive their buckets.
const (
	kindHead    = 'h' // a number, 8 bytes: below it there is nothing
	kindRequest = 'i' // id: the number of the message that was published with it
	kindLease   = 'l' // number: lanes.Lease
	kindMessage = 'm' // number, key: lanes.Head and the body
	kindTail    = 't' // lanes.Tail
)

func tuple(t key.Tuple) []byte {
	b, err := key.Append(nil, t)
	if err != nil {
		panic(err) // strings and numbers always fit
	}
	return b
}

func manifestKey(name string) []byte { return tuple(key.Tuple{"", name}) }

func readerKey(name, reader string) []byte { return tuple(key.Tuple{"", name, reader}) }

func deadKey(name string, b lanes.Bucket, r lanes.Row) []byte {
	return append(deadKeys(name), tuple(key.Tuple{b.Epoch, b.Index, r.Seq, r.Key})...)
}

func deadKeys(name string) []byte { return tuple(key.Tuple{"", name, 0}) }

// deadElements is how many elements the key of a message that was set aside has.
const deadElements = 7

// place makes the keys of a bucket.
type place struct {
	lanes.Bucket
	prefix []byte
}

func placeOf(name string, b lanes.Bucket) place {
	k := append(tuple(key.Tuple{name}), byte(b.First()))
	return place{b, append(k, tuple(key.Tuple{b.Epoch})...)}
}

func (p place) kind(kind byte) []byte { return append(p.prefix[:len(p.prefix):len(p.prefix)], kind) }

func (p place) tail() []byte { return p.kind(kindTail) }

func (p place) head() []byte { return p.kind(kindHead) }

func (p place) numbered(kind byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(p.kind(kind), seq)
}

func (p place) message(r lanes.Row) []byte {
	return append(p.numbered(kindMessage, r.Seq), r.Key...)
}

func (p place) lease(seq uint64) []byte { return p.numbered(kindLease, seq) }

func (p place) request(id [16]byte) []byte { return append(p.kind(kindRequest), id[:]...) }

// row reads the number and the key of a message or lease.
func (p place) row(k []byte) (lanes.Row, error) {
	if n := len(p.prefix) + 1; len(k) >= n+8 {
		return lanes.Row{Seq: binary.BigEndian.Uint64(k[n:]), Key: string(k[n+8:])}, nil
	}
	return lanes.Row{}, fmt.Errorf("%w: key %q", ErrDamaged, k)
}

// SplitKeys returns the keys at which to cut the keyspace of a queue, so that its shards
// fall evenly into n pieces, at most MaxShards:
//
//	job, err := db.Start(ctx, cleave.Split{Keyspace: ks, At: queue.SplitKeys("jobs", 4)})
//
// Then give some of them to other groups, with a cleave.Move for each. Cuts stay good
// when the queue is resized.
func SplitKeys(name string, n int) [][]byte {
	m := lanes.NewManifest(max(1, min(n, MaxShards)))
	var keys [][]byte
	for _, b := range m.Buckets() {
		keys = append(keys, append(tuple(key.Tuple{name}), byte(b.First())))
	}
	return keys
}
