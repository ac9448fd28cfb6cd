package advisor

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/key"
)

// valueType is what the text of a value can be read as. Later ones are tried first.
type valueType uint8

const (
	typeString valueType = iota
	typeFloat
	typeInt
	typeBool
	typeUUID
	typeTime
	valueTypes // how many there are
)

// keyTypes are the types of layouts.
var keyTypes = [valueTypes]key.Type{
	typeString: key.TypeString, typeFloat: key.TypeFloat, typeInt: key.TypeInt,
	typeBool: key.TypeBool, typeUUID: key.TypeUUID, typeTime: key.TypeTime,
}

// typeOf returns the narrowest type that a value's text fits.
func typeOf(kind ValueKind, text []byte) valueType {
	switch kind {
	case Bool:
		return typeBool
	case Text, Number:
		if isInt(text) {
			return typeInt
		}
		if kind == Text && (string(text) == "true" || string(text) == "false") {
			return typeBool
		}
		if isFloat(text) || kind == Text && isGroupedNumber(text) {
			return typeFloat
		}
	}
	switch {
	case isUUID(text):
		return typeUUID
	case isTime(text), isLocalTime(text):
		return typeTime
	}
	return typeString
}

// fits reports whether a value of type t is also one of type want.
func (t valueType) fits(want valueType) bool {
	return t == want || want == typeString || want == typeFloat && t == typeInt
}

// isInt reports whether text is a decimal integer of at most 18 digits in its shortest form, so that
// a program that reads it as a number writes the same text again.
func isInt(text []byte) bool {
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > 18 || text[0] == '0' && len(text) > 1 {
		return len(text) == 19 && isLongInt(text)
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return true
}

// isLongInt decides on 19 digits, of which not all fit 64 bits.
func isLongInt(text []byte) bool {
	_, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && text[0] != '0' && text[0] != '+'
}

// isFloat reports whether text is a decimal number with a point or an exponent, without computing it.
// Digits alone that isInt refuses, such as 007 or more than 64 bits hold, are text: a number would not
// keep all of them.
func isFloat(text []byte) bool {
	if len(text) == 0 || len(text) > 32 || text[0] > '9' {
		return false
	}
	digits, points := 0, 0
	for i, c := range text {
		switch {
		case c-'0' <= 9:
			digits++
		case c == '.':
			points++
		case c == '-' && i == 0:
		case c|0x20 == 'e' && digits > 0 && points <= 1:
			return isExponent(text[i+1:])
		default:
			return false
		}
	}
	return digits > 0 && points == 1
}

// isGroupedNumber reports whether text is a number with a decimal comma, such as 1234,5 or 1.234,50, or with
// thousands in groups, such as 1,234.50.
func isGroupedNumber(text []byte) bool {
	_, ok := plainNumber(string(text))
	return ok && bytes.IndexByte(text, ',') >= 0
}

// plainNumber returns the text of a number without groups of thousands, and with a decimal point. The last mark is the
// decimal one; before it, all others group three digits each.
func plainNumber(text string) (string, bool) {
	digits := strings.TrimPrefix(text, "-")
	mark := strings.LastIndexAny(digits, ".,")
	if len(text) > 32 || mark < 1 || mark == len(digits)-1 || !isDigits(digits[mark+1:]) {
		return "", false
	}
	grouped := strings.FieldsFunc(digits[:mark], func(r rune) bool { return r != rune(digits[mark]) && (r == '.' || r == ',') })
	for i, group := range grouped {
		if !isDigits(group) || len(grouped) > 1 && (len(group) > 3 || i > 0 && len(group) < 3) {
			return "", false
		}
	}
	whole := strings.Join(grouped, "")
	if len(whole)+max(0, len(grouped)-1) != mark || len(whole) > 1 && whole[0] == '0' {
		return "", false
	}
	return text[:len(text)-len(digits)] + whole + "." + digits[mark+1:], true
}

func isDigits(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// isExponent reports whether text is at most three digits, behind a sign or not.
func isExponent(text []byte) bool {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= 3
}

func isUUID(text []byte) bool {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return false
	}
	for i, c := range text {
		isDash := i == 8 || i == 13 || i == 18 || i == 23
		if !isDash && c-'0' > 9 && c|0x20-'a' > 5 {
			return false
		}
	}
	return true
}

// isTime decides by the shape alone, which costs little; parseTime reads it.
func isTime(text []byte) bool {
	if len(text) < len(time.DateOnly) || len(text) > 40 || text[4] != '-' || text[7] != '-' {
		return false
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9} {
		if text[i]-'0' > 9 {
			return false
		}
	}
	return len(text) == len(time.DateOnly) || (text[10] == 'T' || text[10] == ' ') && bytes.IndexByte(text[11:], ':') == 2
}

// isLocalTime decides by the shape whether text is 31.12.2026 or 12/31/2026, with a time of the day behind it or not.
func isLocalTime(text []byte) bool {
	if len(text) < len("31.12.2026") || text[2] != '.' && text[2] != '/' || text[5] != text[2] {
		return false
	}
	for _, i := range [...]int{0, 1, 3, 4, 6, 7, 8, 9} {
		if text[i]-'0' > 9 {
			return false
		}
	}
	rest := text[10:]
	return len(rest) == 0 || (len(rest) == len(" 15:04") || len(rest) == len(" 15:04:05")) && rest[0] == ' ' && rest[3] == ':'
}

// localForm is how dates of a column are written that do not begin with the year.
type localForm struct{ dateOnly, minutes, seconds string }

// newLocalForm makes the form of days such as 31.12.2026 or 12/31/2026.
func newLocalForm(day string) localForm { return localForm{day, day + " 15:04", day + " 15:04:05"} }

// localFormOf finds whether the day or the month comes first: the part that is above 12 is the day. Points stand behind
// days first everywhere. It is not ok if nothing decides.
func localFormOf(values []string) (form localForm, ok bool) {
	dayFirst, monthFirst, mark := false, false, byte(0)
	for _, v := range values {
		if isLocalTime([]byte(v)) {
			mark = v[2]
			dayFirst = dayFirst || v[:2] > "12" || mark == '.'
			monthFirst = monthFirst || v[3:5] > "12"
		}
	}
	day := string([]byte{'0', '2', mark, '0', '1', mark}) + "2006"
	if monthFirst {
		day = string([]byte{'0', '1', mark, '0', '2', mark}) + "2006"
	}
	return newLocalForm(day), dayFirst != monthFirst
}

// parse reads a date, with a time of the day or not.
func (f localForm) parse(text string) (time.Time, bool) {
	layout := f.seconds
	switch len(text) {
	case len(f.dateOnly):
		layout = f.dateOnly
	case len(f.minutes):
		layout = f.minutes
	}
	t, err := time.Parse(layout, text)
	return t, err == nil
}

// timeLayouts are the forms of times that are read, as in package key/ident.
var timeLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", time.DateTime, time.DateOnly, "2006-01-02 15:04:05-07"}

// parseTime reads a time in one of the usual forms. It is in UTC if it names no zone.
func parseTime(text string) (time.Time, bool) {
	if len(text) == len(time.DateOnly) {
		t, err := time.Parse(time.DateOnly, text)
		return t, err == nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// epochUnit is what an integer counts since 1970, if it is a time.
type epochUnit int64

// The units, in nanoseconds. 0 is no unit.
const (
	unitSeconds epochUnit = 1e9
	unitMillis  epochUnit = 1e6
	unitMicros  epochUnit = 1e3
	unitNanos   epochUnit = 1
)

// timeOf reads an integer as a time.
func (u epochUnit) timeOf(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || u == 0 {
		return time.Time{}, false
	}
	perSecond := int64(1e9 / u)
	return time.Unix(n/perSecond, n%perSecond*int64(u)).UTC(), true
}

// parseInt has the results that valueOf wants.
func parseInt(text string) (any, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func parseFloat(text string) (float64, bool) {
	if plain, ok := plainNumber(text); ok && strings.Contains(text, ",") {
		text = plain
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
