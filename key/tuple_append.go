package key

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// AppendNil appends the nil element. Inside a nested tuple nil is encoded
// otherwise: build those with [AppendTuple].
func AppendNil(dst []byte) []byte { return append(dst, codeNil) }

// AppendBytes appends b as a byte string.
func AppendBytes(dst, b []byte) []byte {
	dst = append(dst, codeBytes)
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), 0)
		}
		dst = append(append(dst, b[:i+1]...), escape)
		b = b[i+1:]
	}
}

// AppendString appends s as a text string.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, codeString)
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(append(dst, s...), 0)
		}
		dst = append(append(dst, s[:i+1]...), escape)
		s = s[i+1:]
	}
}

// AppendInt appends i as an integer.
func AppendInt(dst []byte, i int64) []byte {
	if i >= 0 {
		return AppendUint(dst, uint64(i))
	}
	magnitude := -uint64(i) // also right for the least int64
	n := (bits.Len64(magnitude) + 7) / 8
	return appendHigh(dst, byte(codeZero-n), ^magnitude, n)
}

// AppendUint appends u as an integer.
func AppendUint(dst []byte, u uint64) []byte {
	n := (bits.Len64(u) + 7) / 8
	return appendHigh(dst, byte(codeZero+n), u, n)
}

// appendHigh appends the code and the n low bytes of u, the highest first. It
// always writes nine bytes and cuts, which is quicker than a loop.
func appendHigh(dst []byte, code byte, u uint64, n int) []byte {
	dst = append(dst, code)
	end := len(dst) + n
	return binary.BigEndian.AppendUint64(dst, u<<(64-8*n))[:end]
}

// AppendBigInt appends i as an integer. It fails with [ErrUnencodable] if i is
// nil or its magnitude has more than 255 bytes.
func AppendBigInt(dst []byte, i *big.Int) ([]byte, error) {
	if i == nil {
		return dst, fmt.Errorf("%w: nil *big.Int", ErrUnencodable)
	}
	n := (i.BitLen() + 7) / 8
	if n > maxIntBytes {
		return dst, fmt.Errorf("%w: integer of %d bytes, at most %d", ErrUnencodable, n, maxIntBytes)
	}
	negative := i.Sign() < 0
	switch {
	case n <= 8 && negative:
		dst = append(dst, byte(codeZero-n))
	case n <= 8:
		dst = append(dst, byte(codeZero+n))
	case negative:
		dst = append(dst, codeNegBig, ^byte(n))
	default:
		dst = append(dst, codePosBig, byte(n))
	}
	var scratch [maxIntBytes]byte
	magnitude := i.FillBytes(scratch[:n])
	if negative {
		invert(magnitude)
	}
	return append(dst, magnitude...), nil
}

// invert flips every bit, which turns the order of magnitudes around.
func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// AppendFloat32 appends f, bit for bit.
func AppendFloat32(dst []byte, f float32) []byte {
	u := math.Float32bits(f)
	// Negative numbers flip whole, so that the larger magnitude sorts first;
	// positive ones only move above them.
	u ^= uint32(int32(u)>>31) | 1<<31
	return binary.BigEndian.AppendUint32(append(dst, codeFloat32), u)
}

// AppendFloat64 appends f, bit for bit.
func AppendFloat64(dst []byte, f float64) []byte {
	u := math.Float64bits(f)
	u ^= uint64(int64(u)>>63) | 1<<63
	return binary.BigEndian.AppendUint64(append(dst, codeFloat64), u)
}

// AppendBool appends b.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendUUID appends u.
func AppendUUID(dst []byte, u UUID) []byte {
	return append(append(dst, codeUUID), u[:]...)
}

// AppendVersionstamp80 appends v.
func AppendVersionstamp80(dst []byte, v Versionstamp80) []byte {
	return append(append(dst, codeVersion80), v[:]...)
}

// AppendVersionstamp appends v.
func AppendVersionstamp(dst []byte, v Versionstamp) []byte {
	dst = append(append(dst, codeVersion96), v.Transaction[:]...)
	return binary.BigEndian.AppendUint16(dst, v.User)
}
