package command

import (
	"bytes"
	"math/big"

	"github.com/cleavekv/cleave/partition"
)

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
		return failed(err)
	}
	delta, err := parseFloat(c.Delta)
	if err != nil {
		return failed(err)
	}
	if e.join, err = appendFloatSum(e.join[:0], row.Payload, alive, delta); err != nil {
		return failed(err)
	}
	version := e.setText(c.Key, &row, alive, e.join)
	return Reply{Kind: Bytes, Bytes: e.save(e.join), Version: version}
}

// Redis computes in the long double of x86: 64 bits of mantissa, and exponents
// from that of the smallest denormal number on.
const (
	floatBits   = 64
	maxExponent = 1 << 14
	minExponent = -(1<<14 + 60)
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

// parseFloat reads a finite decimal number.
func parseFloat(b []byte) (*big.Float, error) {
	if len(b) > maxFloatBytes || bytes.ContainsAny(b, "pP") {
		return nil, ErrNotFloat // big knows binary exponents, 1p5 for 32: Redis does not
	}
	f, _, err := big.ParseFloat(string(b), 10, floatBits, big.ToNearestEven)
	if err != nil {
		return nil, ErrNotFloat
	}
	if f.IsInf() {
		return nil, ErrOverflow
	}
	if exponent := f.MantExp(nil); exponent > maxExponent || exponent < minExponent {
		return nil, ErrNotFloat // printing one of a million digits would take for ever
	}
	return f, nil
}

// CheckFloat refuses what is not a finite decimal number.
func CheckFloat(b []byte) error {
	_, err := parseFloat(b)
	return err
}
