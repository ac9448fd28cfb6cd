package key

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"strings"
)

// Compare returns -1, 0 or +1 as a sorts before, with or after b: the order
// of their encodings, without encoding them. A tuple sorts before those that
// it is a prefix of.
//
// An element that has no encoding sorts after all that have one, and equal to
// its like; [Append] is what reports it.
func Compare(a, b Tuple) int { return compareTuples(a, b, 0) }

func compareTuples(a, b Tuple, depth int) int {
	for i := range min(len(a), len(b)) {
		if c := compareElements(a[i], b[i], depth); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareElements(a, b any, depth int) int {
	kind := kindOf(a, depth)
	if c := cmp.Compare(kind, kindOf(b, depth)); c != 0 {
		return c
	}
	switch kind {
	case KindBytes:
		return bytes.Compare(a.([]byte), b.([]byte))
	case KindString:
		return strings.Compare(a.(string), b.(string))
	case KindTuple:
		return compareTuples(a.(Tuple), b.(Tuple), depth+1)
	case KindInt:
		return numberOf(a).compare(numberOf(b))
	case KindFloat32:
		return cmp.Compare(totalOrder32(a.(float32)), totalOrder32(b.(float32)))
	case KindFloat64:
		return cmp.Compare(totalOrder64(a.(float64)), totalOrder64(b.(float64)))
	case KindBool:
		return compareBools(a.(bool), b.(bool))
	case KindUUID:
		x, y := a.(UUID), b.(UUID)
		return bytes.Compare(x[:], y[:])
	case KindVersionstamp80:
		x, y := a.(Versionstamp80), b.(Versionstamp80)
		return bytes.Compare(x[:], y[:])
	case KindVersionstamp:
		x, y := a.(Versionstamp), b.(Versionstamp)
		return cmp.Or(bytes.Compare(x.Transaction[:], y.Transaction[:]), cmp.Compare(x.User, y.User))
	default:
		return 0 // nil, or both without an encoding
	}
}

// kindUnencodable sorts after every kind.
const kindUnencodable Kind = math.MaxUint8

// kindOf returns the kind that v, an element depth levels down, encodes to.
func kindOf(v any, depth int) Kind {
	switch v := v.(type) {
	case nil:
		return KindNil
	case []byte:
		return KindBytes
	case string:
		return KindString
	case Tuple:
		if depth < MaxDepth {
			return KindTuple
		}
	case *big.Int:
		if v != nil && v.BitLen() <= 8*maxIntBytes {
			return KindInt
		}
	case float32:
		return KindFloat32
	case float64:
		return KindFloat64
	case bool:
		return KindBool
	case UUID:
		return KindUUID
	case Versionstamp80:
		return KindVersionstamp80
	case Versionstamp:
		return KindVersionstamp
	default:
		if _, _, ok := toInteger(v); ok {
			return KindInt
		}
	}
	return kindUnencodable
}

// number is an integer of any type. Invariant: big is set only if the
// magnitude needs more than 64 bits, so it then exceeds every small one.
type number struct {
	negative  bool
	magnitude uint64
	big       *big.Int
}

// numberOf returns v, which is an integer.
func numberOf(v any) number {
	if b, ok := v.(*big.Int); ok {
		n := number{negative: b.Sign() < 0}
		if b.BitLen() > 64 {
			n.big = b
		} else {
			n.magnitude = lowBits(b)
		}
		return n
	}
	i, u, _ := toInteger(v)
	if i < 0 {
		return number{negative: true, magnitude: -uint64(i)}
	}
	return number{magnitude: u}
}

// lowBits returns the magnitude of b, which has at most 64 bits.
func lowBits(b *big.Int) uint64 {
	if b.Sign() < 0 {
		return new(big.Int).Neg(b).Uint64()
	}
	return b.Uint64()
}

func (n number) compare(m number) int {
	if n.negative != m.negative {
		return compareBools(m.negative, n.negative)
	}
	c := 0
	switch {
	case n.big != nil && m.big != nil:
		return n.big.Cmp(m.big)
	case n.big != nil:
		c = 1
	case m.big != nil:
		c = -1
	default:
		c = cmp.Compare(n.magnitude, m.magnitude)
	}
	if n.negative {
		return -c
	}
	return c
}

// compareBools puts false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// totalOrder32 maps floats to integers in the total order of IEEE 754: the
// magnitude bits of negative numbers count downwards.
func totalOrder32(f float32) int32 {
	i := int32(math.Float32bits(f))
	return i ^ int32(uint32(i>>31)>>1)
}

func totalOrder64(f float64) int64 {
	i := int64(math.Float64bits(f))
	return i ^ int64(uint64(i>>63)>>1)
}
