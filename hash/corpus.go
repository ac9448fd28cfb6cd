package hash

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Corpus is a kind of keys.
type Corpus struct {
	Name string
	// KeyBytes is the length of every key. 0 means that lengths vary.
	KeyBytes int
	// Enumerable keys follow from their number. A function may then spread
	// them more evenly than chance, which is noted and no fault. With keys
	// that are random themselves it is a fault.
	Enumerable bool
	// Append appends the i-th key to dst. Keys must be distinct.
	Append func(dst []byte, i uint64) []byte
}

// Corpora returns the kinds of keys that real tables have: sequential
// integers, strings with a common prefix, random UUIDs (from seed), and
// timestamps a millisecond apart. Integers are 8 bytes, big-endian, as in
// ordered keys.
func Corpora(seed uint64) []Corpus {
	random := Uint64(seed)
	return []Corpus{
		{Name: "sequential", KeyBytes: 8, Enumerable: true, Append: binary.BigEndian.AppendUint64},
		{Name: "prefix", Enumerable: true, Append: func(dst []byte, i uint64) []byte {
			return strconv.AppendUint(append(dst, "tenant:eu-west:user:"...), i, 10)
		}},
		{Name: "uuid", KeyBytes: 36, Append: func(dst []byte, i uint64) []byte {
			return appendUUID(dst, random.Derive(2*i).bits, random.Derive(2*i+1).bits)
		}},
		{Name: "timestamp", KeyBytes: 8, Enumerable: true, Append: func(dst []byte, i uint64) []byte {
			const start, step = 1_700_000_000_000_000_000, 1_000_000 // nanoseconds
			return binary.BigEndian.AppendUint64(dst, start+i*step)
		}},
	}
}

// corporaFor leaves out the corpora whose keys f does not take.
func (o MeasureOptions) corporaFor(f Function) []Corpus {
	var fit []Corpus
	for _, c := range o.Corpora {
		if f.KeyBytes == 0 || f.KeyBytes == c.KeyBytes {
			fit = append(fit, c)
		}
	}
	return fit
}

// appendUUID appends the text form of a version 4 UUID with those random bits.
func appendUUID(dst []byte, hi, lo uint64) []byte {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	for i, group := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, group)
	}
	return dst
}
