package key

import (
	"math"
	"math/big"

	"pgregory.net/rapid"
)

// interestingInts crowd around the ends of every encoded width, where an
// off-by-one would hide from uniform numbers.
func interestingInts() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		width := rapid.IntRange(0, 255).Draw(t, "bytes")
		i := new(big.Int).Lsh(big.NewInt(1), uint(8*width))
		i.Add(i, big.NewInt(rapid.Int64Range(-2, 2).Draw(t, "delta")))
		if i.BitLen() > 8*maxIntBytes {
			i.Rsh(i, 8)
		}
		if rapid.Bool().Draw(t, "negative") {
			i.Neg(i)
		}
		return narrow(i)
	})
}

// narrow returns i in the type that decoding would give it.
func narrow(i *big.Int) any {
	switch {
	case i.IsInt64():
		return i.Int64()
	case i.IsUint64():
		return i.Uint64()
	default:
		return i
	}
}

// rough draws bytes that are mostly the ones escaping and terminating turn on.
func rough() *rapid.Generator[[]byte] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0xff, 0xff, 1, 2, 5, 0x14, 'a'}), 0, 6),
		func(b []byte) []byte { return append([]byte{}, b...) })
}

func toAny[T any](v T) any { return v }

// scalars draws any element but a tuple, in the types that decoding gives.
func scalars() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rough(), toAny[[]byte]),
		rapid.Map(rough(), func(b []byte) any { return string(b) }),
		rapid.Map(rapid.String(), toAny[string]),
		interestingInts(),
		rapid.Map(rapid.Int64(), toAny[int64]),
		rapid.Map(rapid.Uint32(), func(u uint32) any { return math.Float32frombits(u) }),
		rapid.Map(rapid.Uint64(), func(u uint64) any { return math.Float64frombits(u) }),
		rapid.SampledFrom([]any{0.0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), float32(0)}),
		rapid.Map(rapid.Bool(), toAny[bool]),
		rapid.Map(rapid.Byte(), func(b byte) any { return UUID{0: b, 15: ^b} }),
		rapid.Map(rapid.Byte(), func(b byte) any { return Versionstamp80{9: b} }),
		rapid.Map(rapid.Uint16(), func(u uint16) any { return Versionstamp{Versionstamp80{0: byte(u)}, u} }),
	)
}

// tuples draws tuples up to three levels deep.
func tuples() *rapid.Generator[Tuple] { return tuplesOf(3) }

func tuplesOf(depth int) *rapid.Generator[Tuple] {
	elements := scalars()
	if depth > 0 {
		elements = rapid.OneOf(elements, elements, rapid.Map(rapid.Deferred(func() *rapid.Generator[Tuple] {
			return tuplesOf(depth - 1)
		}), toAny[Tuple]))
	}
	return rapid.Map(rapid.SliceOfN(elements, 0, 4), func(v []any) Tuple { return append(Tuple{}, v...) })
}
