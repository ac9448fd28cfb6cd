package parquetfile

import (
	"encoding/hex"
	"math/big"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/key"
)

// appendText appends the text of a value that is not null.
type appendText func(dst []byte, v parquet.Value) (advisor.ValueKind, []byte)

// appenderOf returns how values of a type are written as text.
func appenderOf(t parquet.Type) appendText {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.TimestampType:
			switch l.Unit.Value.(type) {
			case *format.MilliSeconds:
				return timeAppender(time.Millisecond)
			case *format.MicroSeconds:
				return timeAppender(time.Microsecond)
			}
			return timeAppender(1)
		case *format.DateType:
			return appendDate
		case *format.DecimalType:
			return decimalAppender(int(l.Scale))
		case *format.UUIDType:
			return appendUUID
		case *format.IntType:
			if !l.IsSigned {
				return appendUnsigned
			}
		}
	} else if converted := t.ConvertedType(); converted != nil {
		switch *converted {
		case deprecated.TimestampMillis:
			return timeAppender(time.Millisecond)
		case deprecated.TimestampMicros:
			return timeAppender(time.Microsecond)
		case deprecated.Date:
			return appendDate
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return appendUnsigned
		}
	}
	return appendPhysical
}

// appendPhysical writes a value whose type says no more than how it is stored.
func appendPhysical(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
	switch v.Kind() {
	case parquet.Boolean:
		return advisor.Bool, strconv.AppendBool(dst, v.Boolean())
	case parquet.Int32, parquet.Int64:
		return advisor.Number, strconv.AppendInt(dst, v.Int64(), 10)
	case parquet.Int96:
		return advisor.String, appendInt96(dst, v.Int96())
	case parquet.Float:
		return advisor.Number, appendFloat(dst, float64(v.Float()), 32)
	case parquet.Double:
		return advisor.Number, appendFloat(dst, v.Double(), 64)
	}
	if b := v.ByteArray(); !utf8.Valid(b) {
		return advisor.String, hex.AppendEncode(dst, b)
	}
	return advisor.String, append(dst, v.ByteArray()...)
}

// appendFloat writes a number such that it is recognised as one with a fraction.
func appendFloat(dst []byte, f float64, bits int) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, bits)
	for _, c := range dst[start:] {
		if c != '-' && (c < '0' || c > '9') {
			return dst
		}
	}
	return append(dst, ".0"...)
}

func appendUnsigned(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
	if v.Kind() == parquet.Int32 {
		return advisor.Number, strconv.AppendUint(dst, uint64(v.Uint32()), 10)
	}
	return advisor.Number, strconv.AppendUint(dst, v.Uint64(), 10)
}

// timeAppender writes times that count a unit since 1970.
func timeAppender(unit time.Duration) appendText {
	return func(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
		n, perSecond := v.Int64(), int64(time.Second/unit)
		return advisor.String, time.Unix(n/perSecond, n%perSecond*int64(unit)).UTC().AppendFormat(dst, time.RFC3339Nano)
	}
}

func appendDate(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
	const secondsPerDay = 24 * 60 * 60
	return advisor.String, time.Unix(int64(v.Int32())*secondsPerDay, 0).UTC().AppendFormat(dst, time.DateOnly)
}

// appendInt96 writes the nanoseconds of a Julian day, as older writers store times.
func appendInt96(dst []byte, i deprecated.Int96) []byte {
	const julianOf1970, secondsPerDay = 2_440_588, 24 * 60 * 60
	nanos := int64(uint64(i[1])<<32 | uint64(i[0]))
	return time.Unix((int64(i[2])-julianOf1970)*secondsPerDay, nanos).UTC().AppendFormat(dst, time.RFC3339Nano)
}

func appendUUID(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
	b := v.ByteArray()
	if len(b) != len(key.UUID{}) {
		return advisor.String, hex.AppendEncode(dst, b)
	}
	return advisor.String, append(dst, key.UUID(b).String()...)
}

// decimalAppender writes decimals: integers, or bytes that are one, of which the last digits are
// the fraction.
func decimalAppender(scale int) appendText {
	return func(dst []byte, v parquet.Value) (advisor.ValueKind, []byte) {
		n := new(big.Int)
		switch v.Kind() {
		case parquet.Int32, parquet.Int64:
			n.SetInt64(v.Int64())
		default:
			b := v.ByteArray()
			n.SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 { // negative, in two's complement
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		if scale <= 0 {
			return advisor.Number, n.Append(dst, 10)
		}
		if n.Sign() < 0 {
			dst = append(dst, '-')
			n.Neg(n)
		}
		digits := n.Append(nil, 10)
		for len(digits) <= scale {
			digits = append([]byte{'0'}, digits...)
		}
		dst = append(dst, digits[:len(digits)-scale]...)
		return advisor.Number, append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
}
