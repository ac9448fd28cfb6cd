package ident

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cleavekv/cleave/key"
)

// shape is what one value looks like on its own, before any statistics.
type shape uint8

const (
	shapeText   shape = iota // anything else
	shapeInt                 // an integer, a decimal string, or 8 bytes
	shapeUUID                // 36 characters with dashes
	shapeHex                 // 32 hexadecimal digits without dashes
	shapeBytes               // 16 bytes
	shapeBase32              // 26 characters of a ULID's alphabet
	shapeTime                // a time as text
	shapeDate                // a date as text
)

// sampleValue is one distinct value of a sample.
type sampleValue struct {
	shape shape
	text  string // as given, and how it sorts unless it is an integer
	first int    // its place in order of arrival
	count int    // how often it was seen

	negative bool      // shapeInt
	num      uint64    // shapeInt: magnitude
	bytes    key.UUID  // shapeUUID, shapeHex, shapeBytes; shapeBase32: decoded
	time     time.Time // shapeTime, shapeDate; others once a reading is chosen
}

// compare orders two specimens of the same shape as their keys would sort.
func (s *sampleValue) compare(t *sampleValue) int {
	if s.shape != shapeInt || t.shape != shapeInt {
		return strings.Compare(s.text, t.text)
	}
	switch {
	case s.negative != t.negative:
		if s.negative {
			return -1
		}
		return 1
	case s.num == t.num:
		return 0
	case (s.num < t.num) != s.negative:
		return -1
	}
	return 1
}

// toFloat is the integer as a float, for distances where rounding is harmless.
func (s *sampleValue) toFloat() float64 {
	if s.negative {
		return -float64(s.num)
	}
	return float64(s.num)
}

func newSampleValue(v any) *sampleValue {
	switch v := v.(type) {
	case int:
		return newIntValue(int64(v))
	case int64:
		return newIntValue(v)
	case uint64:
		return &sampleValue{shape: shapeInt, num: v, text: strconv.FormatUint(v, 10)}
	case []byte:
		return newBytesValue(v)
	case string:
		return newTextValue(v)
	}
	return &sampleValue{}
}

func newIntValue(v int64) *sampleValue {
	s := &sampleValue{shape: shapeInt, num: uint64(v), text: strconv.FormatInt(v, 10)}
	if v < 0 {
		s.negative, s.num = true, -s.num
	}
	return s
}

// newBytesValue reads printable bytes as text and takes 8 and 16 other bytes
// for a big-endian integer and a binary UUID or ULID.
func newBytesValue(b []byte) *sampleValue {
	s := &sampleValue{text: string(b)}
	switch {
	case isPrintable(b):
		return newTextValue(s.text)
	case len(b) == 8:
		s.shape, s.num = shapeInt, binary.BigEndian.Uint64(b)
	case len(b) == 16:
		s.shape = shapeBytes
		copy(s.bytes[:], b)
	}
	return s
}

func isPrintable(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 || r < ' ' || r == 0x7f {
			return false
		}
		b = b[size:]
	}
	return true
}

func newTextValue(text string) *sampleValue {
	s := &sampleValue{text: text}
	switch len(text) {
	case 36:
		if u, err := key.ParseUUID(text); err == nil {
			s.shape, s.bytes = shapeUUID, u
			return s
		}
	case 32:
		if _, err := hex.Decode(s.bytes[:], []byte(text)); err == nil {
			s.shape = shapeHex
			return s
		}
	case 26:
		if raw, ok := parseULID(text); ok {
			s.shape, s.bytes = shapeBase32, raw
			return s
		}
	}
	if when, sh, ok := parseTimeText(text); ok {
		s.shape, s.time = sh, when
		return s
	}
	digits, negative := strings.CutPrefix(text, "-")
	// ParseUint accepts no sign and, in base 10, no underscores.
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		s.shape, s.num, s.negative = shapeInt, n, negative && n != 0
	}
	return s
}

// parseTimeText reads RFC 3339 and its usual variations: a blank for the T,
// no zone, a date alone. Fractions of a second are accepted everywhere.
func parseTimeText(text string) (time.Time, shape, bool) {
	if len(text) < len(time.DateOnly) || len(text) > 40 || text[4] != '-' || text[7] != '-' {
		return time.Time{}, 0, false
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, shapeDate, true
	}
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), shapeTime, true
		}
	}
	return time.Time{}, 0, false
}

// base32Values maps the characters of Crockford's base 32, in either case, to
// their values; others map to 0xff. The look-alikes that Crockford's decoders also
// accept (I, L, O) are not in ULIDs that a program wrote.
var base32Values = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for v, c := range []byte("0123456789ABCDEFGHJKMNPQRSTVWXYZ") {
		t[c] = byte(v)
		if c >= 'A' {
			t[c-'A'+'a'] = byte(v)
		}
	}
	return t
}()

// parseULID decodes 26 characters of 5 bits into 128 bits; the first
// character has only three of them.
func parseULID(text string) (raw key.UUID, ok bool) {
	if len(text) != 26 || base32Values[text[0]] > 7 {
		return raw, false
	}
	var hi, lo uint64
	for i := range 26 {
		v := base32Values[text[i]]
		if v == 0xff {
			return raw, false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	return raw, true
}

// ceilPower2 and ceilPower10 return the size of the smallest range of whole
// bits, or whole digits, that holds n.
func ceilPower2(n uint64) float64 { return math.Ldexp(1, bits.Len64(n)) }

func ceilPower10(n uint64) float64 { return math.Pow10(len(strconv.FormatUint(n, 10))) }
