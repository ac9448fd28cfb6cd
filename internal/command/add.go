package command

import (
	"math"
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
		return failed(err)
	}
	if c.IfPresent && !alive {
		return Reply{}
	}
	sum, err := addInt(row.Payload, alive, c.Delta)
	if err != nil {
		return failed(err)
	}
	e.join = strconv.AppendInt(e.join[:0], sum, 10)
	return number(sum, e.setText(c.Key, &row, alive, e.join))
}

// setText gives a key another String value without touching its expiry.
func (e *Env) setText(p partition.Position, old *Row, alive bool, value []byte) uint64 {
	expiry := int64(0)
	if alive {
		expiry = old.ExpiryMS
	}
	return e.replace(p, old, Row{Kind: String, ExpiryMS: expiry, Payload: value})
}

// addInt adds to a value in Redis' decimal form.
func addInt(value []byte, present bool, delta int64) (int64, error) {
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
