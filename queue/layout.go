package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
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

func encodeTuple(t key.Tuple) []byte {
	b, err := key.Append(nil, t)
	if err != nil {
		panic(err) // strings and numbers always fit
	}
	return b
}

func manifestKey(name string) []byte { return encodeTuple(key.Tuple{"", name}) }

func readerKey(name, reader string) []byte { return encodeTuple(key.Tuple{"", name, reader}) }

func deadKey(name string, b delivery.Bucket, r delivery.MessageRef) []byte {
	return append(deadPrefix(name), encodeTuple(key.Tuple{b.Epoch, b.Index, r.Seq, r.Key})...)
}

func deadPrefix(name string) []byte { return encodeTuple(key.Tuple{"", name, 0}) }

// deadElements is how many elements the key of a message that was set aside has.
const deadElements = 7

// bucketKeys makes the keys of a bucket.
type bucketKeys struct {
	delivery.Bucket
	prefix []byte
}

func newBucketKeys(name string, b delivery.Bucket) bucketKeys {
	k := append(encodeTuple(key.Tuple{name}), byte(b.FirstPoint()))
	return bucketKeys{b, append(k, encodeTuple(key.Tuple{b.Epoch})...)}
}

func (p bucketKeys) kindPrefix(kind byte) []byte {
	return append(p.prefix[:len(p.prefix):len(p.prefix)], kind)
}

func (p bucketKeys) tailKey() []byte { return p.kindPrefix(kindTail) }

func (p bucketKeys) headKey() []byte { return p.kindPrefix(kindHead) }

func (p bucketKeys) seqKey(kind byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(p.kindPrefix(kind), seq)
}

func (p bucketKeys) messageKey(r delivery.MessageRef) []byte {
	return append(p.seqKey(kindMessage, r.Seq), r.Key...)
}

func (p bucketKeys) leaseKey(seq uint64) []byte { return p.seqKey(kindLease, seq) }

func (p bucketKeys) requestKey(id [16]byte) []byte {
	return append(p.kindPrefix(kindRequest), id[:]...)
}

// parseRowKey reads the number and the key of a message or lease.
func (p bucketKeys) parseRowKey(k []byte) (delivery.MessageRef, error) {
	if n := len(p.prefix) + 1; len(k) >= n+8 {
		return delivery.MessageRef{Seq: binary.BigEndian.Uint64(k[n:]), Key: string(k[n+8:])}, nil
	}
	return delivery.MessageRef{}, fmt.Errorf("%w: key %q", ErrDamaged, k)
}

// SplitKeys returns the keys at which to cut the keyspace of a queue, so that its shards
// fall evenly into n pieces, at most MaxShards:
//
//	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, queue.SplitKeys("jobs", 4)...))
//
// Then give some of them to other groups, with a cleave.Move for each. Cuts stay good
// when the queue is resized. [Queue.Spread] does both, for all groups.
func SplitKeys(name string, n int) [][]byte {
	m := delivery.NewManifest(max(1, min(n, MaxShards)))
	var keys [][]byte
	for _, b := range m.OpenBuckets() {
		keys = append(keys, append(encodeTuple(key.Tuple{name}), byte(b.FirstPoint())))
	}
	return keys
}

// This file reads rows. A row in any other form was not written by this
// package: ErrDamaged.

func asDamaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func parseManifest(value []byte) (delivery.Manifest, error) {
	m, err := delivery.ParseManifest(value)
	return m, asDamaged(err)
}

// parseTail reads the tail of a bucket. One that is gone is closed.
func parseTail(value []byte, err error) (delivery.Tail, error) {
	if errors.Is(err, cleave.ErrNotFound) {
		return delivery.Tail{Closed: true}, nil
	}
	if err != nil {
		return delivery.Tail{}, err
	}
	t, err := delivery.ParseTail(value)
	return t, asDamaged(err)
}

// parseHead returns the number below which a bucket is empty: 0 if there is no record of it.
func parseHead(value []byte, err error) (uint64, error) {
	switch {
	case errors.Is(err, cleave.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("%w: the head %.40q", ErrDamaged, value)
	}
	return binary.BigEndian.Uint64(value), nil
}

func encodeHead(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func parseLease(value []byte) (delivery.Lease, error) {
	l, err := delivery.ParseLease(value)
	return l, asDamaged(err)
}

func parseMessage(value []byte) (delivery.Header, []byte, error) {
	h, body, err := delivery.ParseHeader(value)
	return h, body, asDamaged(err)
}

// keyBytes is the key of a message, nil if it has none.
func keyBytes(key string) []byte {
	if key == "" {
		return nil
	}
	return []byte(key)
}
