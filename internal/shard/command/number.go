package command

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strconv"

	"github.com/cleavekv/cleave/partition"
)

// Add is INCRBY. The value is a String in Redis' decimal form, 0 if the key is
// absent. The reply is the sum, or Nil if IfPresent did not hold.
type Add struct {
	Key   partition.Position
	Delta int64
	// IfPresent adds only to what is there.
	IfPresent bool
}

// Eval adds.
func (c *Add) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	if c.IfPresent && !alive {
		return Reply{}
	}
	sum, err := addInteger(row.Payload, alive, c.Delta)
	if err != nil {
		return failedReply(err)
	}
	e.valueBuf = strconv.AppendInt(e.valueBuf[:0], sum, 10)
	return intReply(sum, e.setStringValue(c.Key, &row, alive, e.valueBuf))
}

// setStringValue gives a key another String value without touching its expiry.
func (e *Env) setStringValue(p partition.Position, old *Row, alive bool, value []byte) uint64 {
	expiry := int64(0)
	if alive {
		expiry = old.ExpiryMS
	}
	return e.replaceRow(p, old, Row{Kind: String, ExpiryMS: expiry, Payload: value})
}

// addInteger adds to a value in Redis' decimal form.
func addInteger(value []byte, present bool, delta int64) (int64, error) {
	n := int64(0)
	if present {
		var ok bool
		if n, ok = parseInt(value); !ok {
			return 0, ErrNotInteger
		}
	}
	sum := n + delta
	if (sum > n) != (delta > 0) && delta != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// parseInt reads the one form in which an integer is written: no plus, no
// spaces, no leading zeros, no negative zero.
func parseInt(b []byte) (int64, bool) {
	digits := b
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0') // 19 digits fit
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// AddFloat is INCRBYFLOAT. The value is a String that is a decimal number, 0 if
// the key is absent. The reply is the sum as it is stored: without exponent and
// with at most 17 digits behind the point.
type AddFloat struct {
	Key partition.Position
	// Delta is text, as a float64 has no 0.1.
	Delta []byte
}

// Eval adds.
func (c *AddFloat) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	delta, err := parseFloat(c.Delta)
	if alive && errors.Is(err, ErrOverflow) {
		if _, bad := parseFloat(row.Payload); bad != nil {
			err = bad // it comes first, as in Redis
		}
	}
	if err != nil {
		return failedReply(err)
	}
	if e.valueBuf, err = appendFloatSum(e.valueBuf[:0], row.Payload, alive, delta); err != nil {
		return failedReply(err)
	}
	version := e.setStringValue(c.Key, &row, alive, e.valueBuf)
	return Reply{Kind: Bytes, Bytes: e.copyToArena(e.valueBuf), Version: version}
}

// Redis computes in the long double of x86: 64 bits of mantissa, and exponents
// from that of the smallest denormal number on.
const (
	floatMantissaBits = 64
	maxExponent       = 1 << 14
	minExponent       = -(1<<14 + 60)
)

// maxFloatBytes is how long a number may be written: the largest has 4933
// digits.
const maxFloatBytes = 5 << 10

// appendFloatSum appends the sum of a value in decimal form and delta to dst.
func appendFloatSum(dst, value []byte, present bool, delta *big.Float) ([]byte, error) {
	sum := delta
	if present {
		n, err := parseFloat(value)
		if err != nil {
			return dst, err
		}
		if sum.Add(n, sum); sum.MantExp(nil) > maxExponent {
			return dst, ErrOverflow
		}
	}
	start := len(dst)
	dst = sum.Append(dst, 'f', 17)
	dst = bytes.TrimRight(dst, "0") // there is a point, so this ends behind it
	dst = bytes.TrimSuffix(dst, []byte("."))
	if string(dst[start:]) == "-0" {
		dst = append(dst[:start], '0')
	}
	return dst, nil
}

// parseFloat reads a finite number, decimal or hexadecimal.
func parseFloat(b []byte) (*big.Float, error) {
	if len(b) > maxFloatBytes {
		return nil, ErrNotFloat
	}
	base, digits := 10, bytes.TrimLeft(b, "+-")
	switch {
	case len(digits) > 1 && digits[0] == '0' && digits[1]|0x20 == 'x' && !bytes.ContainsAny(b, "_"):
		base = 0 // which the prefix determines
	case len(b)-len(digits) <= 1 && (bytes.EqualFold(digits, []byte("inf")) || bytes.EqualFold(digits, []byte("infinity"))):
		return nil, ErrOverflow
	}
	if base == 10 && bytes.ContainsAny(b, "pP") {
		return nil, ErrNotFloat // big knows binary exponents, 1p5 for 32: Redis knows them of hexadecimal numbers alone
	}
	f, _, err := big.ParseFloat(string(b), base, floatMantissaBits, big.ToNearestEven)
	if err != nil {
		return nil, ErrNotFloat
	}
	if f.IsInf() {
		return nil, ErrNotFloat
	}
	if exponent := f.MantExp(nil); exponent > maxExponent || exponent < minExponent {
		return nil, ErrNotFloat // printing one of a million digits would take for ever
	}
	return f, nil
}

// CheckFloat refuses what is not a finite number.
func CheckFloat(b []byte) error {
	_, err := parseFloat(b)
	return err
}
