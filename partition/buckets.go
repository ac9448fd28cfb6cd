package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/bits"

	"github.com/cleavekv/cleave/hash"
)

// Buckets records which shard has each of many logical buckets, for programs that need no more
// than that: no order of keys, no labels, one hash for a key. A key's bucket never changes, and a
// bucket moves from shard to shard without a key being hashed again.
//
// Like a [Map] it never changes: [Buckets.Move] makes the next version, so a reader needs no
// lock. Shards are numbers that the program gives a meaning. Buckets come from [NewBuckets],
// [Buckets.Move] and [DecodeBuckets]; the zero value has none.
type Buckets struct {
	version Version
	shards  []uint16 // by bucket
}

// MaxBuckets bounds the number of buckets, and the numbers of shards lie below it.
const MaxBuckets = 1 << 16

// ErrBuckets means that there can be no such buckets, or that a bucket or shard is not one of
// them: the text says what may be.
var ErrBuckets = errors.New("partition: bad buckets")

// NewBuckets returns version 1 of buckets over the shards 0 to shards-1. Neighbours go to the
// same shard, and each shard gets as many buckets, give or take one. The number of buckets
// stays for ever: take many more than there will be shards.
func NewBuckets(buckets, shards int) (*Buckets, error) {
	if buckets < 1 || buckets > MaxBuckets {
		return nil, fmt.Errorf("%w: %d of them, use 1 to %d", ErrBuckets, buckets, MaxBuckets)
	}
	if shards < 1 || shards > buckets {
		return nil, fmt.Errorf("%w: %d shards, use 1 to the number of buckets, %d", ErrBuckets, shards, buckets)
	}
	b := &Buckets{version: 1, shards: make([]uint16, buckets)}
	for i := range b.shards {
		b.shards[i] = uint16(i * shards / buckets)
	}
	return b, nil
}

// Version returns the number of this state: each move adds one.
func (b *Buckets) Version() Version { return b.version }

// Len returns how many buckets there are.
func (b *Buckets) Len() int { return len(b.shards) }

// BucketOf returns the bucket of a key by its hash. It depends on the number of buckets alone.
func (b *Buckets) BucketOf(h hash.Stable) int {
	bucket, _ := bits.Mul64(h.Uint64(), uint64(len(b.shards)))
	return int(bucket)
}

// Shard returns the shard that has a bucket, which must be one of 0 to Len()-1.
func (b *Buckets) Shard(bucket int) int { return int(b.shards[bucket]) }

// ShardOf returns the shard of a key by its hash.
func (b *Buckets) ShardOf(h hash.Stable) int { return b.Shard(b.BucketOf(h)) }

// Owned returns the buckets of a shard, in order.
func (b *Buckets) Owned(shard int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for bucket, s := range b.shards {
			if int(s) == shard && !yield(bucket) {
				return
			}
		}
	}
}

// Move returns the next version, in which a bucket is with another shard. One that has no
// bucket yet joins so. A bucket that is there already is refused with [ErrNoChange].
func (b *Buckets) Move(bucket, to int) (*Buckets, error) {
	switch {
	case bucket < 0 || bucket >= len(b.shards):
		return nil, fmt.Errorf("%w: bucket %d, there are %d from 0 on", ErrBuckets, bucket, len(b.shards))
	case to < 0 || to >= MaxBuckets:
		return nil, fmt.Errorf("%w: shard %d, use 0 to %d", ErrBuckets, to, MaxBuckets-1)
	case b.Shard(bucket) == to:
		return nil, fmt.Errorf("%w: bucket %d is with shard %d", ErrNoChange, bucket, to)
	case b.version >= maxNumber:
		return nil, fmt.Errorf("%w: version %d is the last", ErrLimit, b.version)
	}
	next := &Buckets{version: b.version + 1, shards: append([]uint16(nil), b.shards...)}
	next.shards[bucket] = uint16(to)
	return next, nil
}

// Buckets are written as
//
//	format     1 byte
//	version
//	runs       count, then for each: shard, number of neighbouring buckets
//	checksum   CRC-32C of all before, 4 bytes, big endian
//
// Numbers are varints. Equal buckets have equal bytes, and no other bytes decode.
const bucketsFormat = 1

// Append appends the buckets to dst as bytes that [DecodeBuckets] reads.
func (b *Buckets) Append(dst []byte) []byte {
	from := len(dst)
	var runs []byte
	count := 0
	for i := 0; i < len(b.shards); count++ {
		end := i + 1
		for end < len(b.shards) && b.shards[end] == b.shards[i] {
			end++
		}
		runs = appendNumber(appendNumber(runs, int(b.shards[i])), end-i)
		i = end
	}
	dst = append(dst, bucketsFormat)
	dst = append(appendNumber(appendNumber(dst, b.version), count), runs...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// DecodeBuckets reads what [Buckets.Append] wrote, and checks all of it. It keeps none of data.
// Its errors match [ErrDamaged] or [ErrNewerFormat].
func DecodeBuckets(data []byte) (*Buckets, error) {
	damaged := func(why string) (*Buckets, error) {
		return nil, fmt.Errorf("%w of buckets: %s", ErrDamaged, why)
	}
	switch {
	case len(data) < 1+checksumBytes || data[0] == 0:
		return damaged("too short, or no format")
	case data[0] > bucketsFormat:
		return nil, fmt.Errorf("%w: buckets of format %d, this program reads %d", ErrNewerFormat, data[0], bucketsFormat)
	}
	body := data[:len(data)-checksumBytes]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[len(body):]) {
		return damaged("checksum differs")
	}
	r := reader{b: body[1:]}
	b := &Buckets{version: Version(r.readNumber())}
	for range r.readCount(2) {
		shard, n := r.readNumber(), r.readNumber()
		if shard >= MaxBuckets || n == 0 || n > uint64(MaxBuckets-len(b.shards)) {
			return damaged("a run out of bounds")
		}
		for range n {
			b.shards = append(b.shards, uint16(shard))
		}
	}
	if r.err != nil {
		return damaged(r.err.Error())
	}
	// Varints can be padded and runs cut in two: one state, one encoding.
	if b.version == 0 || len(b.shards) == 0 || !bytes.Equal(b.Append(make([]byte, 0, len(data))), data) {
		return damaged("not the bytes that they would be written as")
	}
	return b, nil
}
