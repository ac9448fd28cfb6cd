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
	e.join, err = appendFloatSum(e.join[:0], row.Payload, alive, c.Delta)
	if err != nil {
		return failed(err)
	}
	version := e.setText(c.Key, &row, alive, e.join)
	return Reply{Kind: Bytes, Bytes: e.save(e.join), Version: version}
}

// Redis computes in the long double of x86: 64 bits of mantissa, and exponents
// up to this one.
const (
	floatBits   = 64
	maxExponent = 1 << 14
)

// maxFloatBytes is how long a number may be written: the largest has 4933
// digits.
const maxFloatBytes = 5 << 10

// appendFloatSum appends the sum of two numbers in decimal form to dst.
func appendFloatSum(dst, value []byte, present bool, delta []byte) ([]byte, error) {
	sum, ok := parseFloat(delta)
	if !ok {
		return dst, ErrNotFloat
	}
	if present {
		n, ok := parseFloat(value)
		if !ok {
			return dst, ErrNotFloat
		}
		sum.Add(n, sum)
	}
	if sum.IsInf() || sum.MantExp(nil) > maxExponent {
		return dst, ErrOverflow
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
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) > maxFloatBytes {
		return nil, false
	}
	f, _, err := big.ParseFloat(string(b), 10, floatBits, big.ToNearestEven)
	if err != nil || f.IsInf() {
		return nil, false
	}
	return f, true
}
