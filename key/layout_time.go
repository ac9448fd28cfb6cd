package key

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"
)

const nanosPerSecond = 1_000_000_000

// Between these seconds a time's nanoseconds fit an int64 (1677 to 2262).
const (
	minNanoUnix = math.MinInt64/nanosPerSecond + 1
	maxNanoUnix = math.MaxInt64/nanosPerSecond - 1
)

// checkTime reports whether t can be in a key.
func checkTime(t time.Time) error {
	if t.IsZero() {
		return errors.New("the zero time; set it")
	}
	if sec := t.Unix(); sec < minUnix || sec > maxUnix {
		return fmt.Errorf("time %v is outside the years 1 to 9999", t)
	}
	return nil
}

// appendTime appends t as its nanoseconds since 1970. Those of far years take
// nine bytes: an integer of any size is still one element, and in order.
func appendTime(dst []byte, t time.Time) ([]byte, error) {
	if err := checkTime(t); err != nil {
		return nil, err
	}
	sec, nanos := t.Unix(), int64(t.Nanosecond())
	if sec >= minNanoUnix && sec <= maxNanoUnix {
		return AppendInt(dst, sec*nanosPerSecond+nanos), nil
	}
	i := big.NewInt(sec)
	i.Mul(i, big.NewInt(nanosPerSecond)).Add(i, big.NewInt(nanos))
	return AppendBigInt(dst, i)
}

// elementTime reads what appendTime wrote, from an integer.
func elementTime(e Element) (time.Time, error) {
	var t time.Time
	if i, ok := e.Int(); ok {
		t = time.Unix(0, i).UTC()
	} else {
		sec, _ := e.BigInt()
		var nanos big.Int
		sec.DivMod(sec, big.NewInt(nanosPerSecond), &nanos)
		if !sec.IsInt64() {
			return time.Time{}, errors.New("time is outside the years 1 to 9999")
		}
		t = time.Unix(sec.Int64(), nanos.Int64()).UTC()
	}
	return t, checkTime(t)
}

// spanOf returns the span that t is in. The start of the span stands for t
// when the key is decoded, so it has to be a time that can be in a key.
func spanOf(b Bucket, t time.Time) (Span, error) {
	if err := checkTime(t); err != nil {
		return Span{}, err
	}
	span, err := b.Of(t)
	if err != nil {
		return Span{}, err
	}
	return span, checkTime(span.Start())
}

// elementSpan reads a span's number.
func elementSpan(b Bucket, e Element) (Span, error) {
	i, ok := e.Int()
	switch {
	case e.Kind() != KindInt:
		return Span{}, fmt.Errorf("want the number of a bucket, found %v", e.Kind())
	case !ok:
		return Span{}, errors.New("the number of the bucket is beyond 64 bits")
	}
	span, err := b.At(i)
	if err != nil {
		return Span{}, err
	}
	return span, checkTime(span.Start())
}
