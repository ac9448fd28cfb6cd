package key

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// layouts draws valid layouts: a few columns of any type, time columns with or
// without themselves in the key, and perhaps a salt.
func layouts() *rapid.Generator[*Layout] {
	return rapid.Custom(func(t *rapid.T) *Layout {
		var fields, bare []string
		for i := range rapid.IntRange(1, 4).Draw(t, "columns") {
			name := fmt.Sprintf("c%d", i)
			typ := rapid.SampledFrom([]string{"", ":string", ":bytes", ":int", ":float", ":bool", ":uuid", ":time", "bucket"}).Draw(t, "type")
			if typ != "bucket" {
				fields, bare = append(fields, name+typ), append(bare, name)
				continue
			}
			for _, b := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"hour(", "day(", "month(", "every(168h, "}), 1, 3, rapid.ID).Draw(t, "buckets") {
				fields = append(fields, b+name+")")
			}
			if rapid.Bool().Draw(t, "exact") {
				fields = append(fields, name)
			}
		}
		fields = rapid.Permutation(fields).Draw(t, "order")
		bar := rapid.IntRange(1, len(fields)).Draw(t, "bar")
		if rapid.Bool().Draw(t, "salted") {
			salt := fmt.Sprintf("salt(%d)", rapid.IntRange(1, 300).Draw(t, "salts"))
			if from := append(bare, "other"); rapid.Bool().Draw(t, "derived") {
				salt = strings.TrimSuffix(salt, ")") + ", " + rapid.SampledFrom(from).Draw(t, "from") + ")"
			}
			fields = slices.Insert(fields, rapid.IntRange(0, bar).Draw(t, "salt at"), salt)
			bar++
		}
		text := strings.Join(fields[:bar], ", ")
		if bar < len(fields) {
			text = "(" + text + ") | " + strings.Join(fields[bar:], ", ")
		}
		l, err := ParseLayout(text)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return l
	})
}

// rows draws a row for l, with a salt where one has to be picked.
func rows(l *Layout) *rapid.Generator[Columns] {
	return rapid.Custom(func(t *rapid.T) Columns {
		row := Columns{}
		for _, c := range l.columns {
			row[c.name] = columnValues(c.typ).Draw(t, c.name)
		}
		if f := l.saltField(); f != nil && f.Column == "" {
			row[f.name] = rapid.IntRange(0, f.Salts-1).Draw(t, "salt")
		}
		return row
	})
}

func columnValues(typ Type) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a\x00", "a\x00\x00", "b"}), rapid.String())
	switch typ {
	case TypeString:
		return rapid.Map(text, toAny[string])
	case TypeBytes:
		return rapid.Map(rough(), toAny[[]byte])
	case TypeInt:
		return interestingInts()
	case TypeFloat:
		return rapid.Map(rapid.Float64(), toAny[float64])
	case TypeBool:
		return rapid.Map(rapid.Bool(), toAny[bool])
	case TypeUUID:
		return rapid.Map(rapid.Byte(), func(b byte) any { return UUID{3: b} })
	case TypeTime:
		return rapid.Map(times(), toAny[time.Time])
	default:
		return rapid.OneOf(rapid.Map(text, toAny[string]), rapid.Map(rough(), toAny[[]byte]), interestingInts(),
			rapid.SampledFrom([]any{nil, true, math.NaN(), float32(-1), UUID{}, Versionstamp{User: 1}}))
	}
}

// times draws from all that a layout takes, the ends of what 64 bits of
// nanoseconds reach included.
func times() *rapid.Generator[time.Time] {
	const year = 365 * 24 * 3600
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), func(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }),
		rapid.Custom(func(t *rapid.T) time.Time {
			sec := rapid.Int64Range(minUnix+2*year, maxUnix).Draw(t, "seconds")
			return time.Unix(sec, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		}),
		rapid.Custom(func(t *rapid.T) time.Time {
			sec := rapid.SampledFrom([]int64{minNanoUnix, maxNanoUnix}).Draw(t, "end") + rapid.Int64Range(-2, 2).Draw(t, "seconds")
			return time.Unix(sec, rapid.SampledFrom([]int64{0, 999_999_999}).Draw(t, "nanos")).UTC()
		}),
	)
}
