package key

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

func mustLayout(t interface{ Fatalf(string, ...any) }, text string) *Layout {
	l, err := ParseLayout(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return l
}

func TestCanonicalFormReadsBackAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout().Draw(t, "layout")
		again := mustLayout(t, l.String())
		if again.String() != l.String() || !slices.Equal(again.Fields(), l.Fields()) || !slices.Equal(again.Columns(), l.Columns()) {
			t.Fatalf("%v reads back as %v", l, again)
		}
	})
}

func TestDecodingAKeyGivesItsColumnsAndThoseTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout().Draw(t, "layout")
		row := drawRow(l).Draw(t, "row")
		key, err := l.Encode(row)
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		v, err := l.Decode(key)
		if err != nil {
			t.Fatalf("%v: %x: %v", l, key, err)
		}
		for i := range l.columns {
			checkColumn(t, &l.columns[i], row, v)
		}
		if _, ok := v.Value(l.fields[0].name); !ok {
			t.Fatalf("no value under the name %s", l.fields[0].name)
		}
		again, err := l.Encode(v)
		if err != nil || !bytes.Equal(again, key) {
			t.Fatalf("%v: %x encodes again to %x, %v", l, key, again, err)
		}
	})
}

// checkColumn compares a decoded column with what was encoded.
func checkColumn(t *rapid.T, c *column, row Columns, v Values) {
	got, ok := v.Value(c.name)
	if want := c.field >= 0 || len(c.buckets) > 0; ok != want || v.Exact(c.name) != (c.field >= 0) {
		t.Fatalf("%s: known %v, exact %v", c.name, ok, v.Exact(c.name))
	}
	switch {
	case !ok:
	case c.typ == TypeTime && c.field >= 0:
		if !got.(time.Time).Equal(row[c.name].(time.Time)) {
			t.Fatalf("%s: %v came back as %v", c.name, row[c.name], got)
		}
	case c.typ == TypeTime:
		for _, at := range c.buckets {
			span, err := v.layout.fields[at].Bucket.Of(row[c.name].(time.Time))
			if err != nil || !span.Contains(got.(time.Time)) {
				t.Fatalf("%s: %v is not in %v of %v", c.name, got, span, row[c.name])
			}
		}
	case Compare(Tuple{got}, Tuple{row[c.name]}) != 0:
		t.Fatalf("%s: %v came back as %v", c.name, row[c.name], got)
	}
}

// A key of a layout without salt sorts as the tuple of its fields' values does.
func TestKeysSortByTheirFieldsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := mustLayout(t, "(region:string, hour(ts)) | ts, id:int")
		a, b := drawRow(l).Draw(t, "a"), drawRow(l).Draw(t, "b")
		if rapid.Bool().Draw(t, "same region") {
			b["region"] = a["region"]
		}
		got := bytes.Compare(mustKey(t, l, a), mustKey(t, l, b))
		want := cmp.Or(
			cmp.Compare(a["region"].(string), b["region"].(string)),
			a["ts"].(time.Time).Compare(b["ts"].(time.Time)),
			toBig(a["id"]).Cmp(toBig(b["id"])),
		)
		if got != want {
			t.Fatalf("%v and %v: keys compare %d, columns %d", a, b, got, want)
		}
	})
}

func mustKey(t interface{ Fatalf(string, ...any) }, l *Layout, row Row) []byte {
	key, err := l.Encode(row)
	if err != nil {
		t.Fatalf("%v: %v", l, err)
	}
	return key
}

func TestFanOutHoldsExactlyTheKeysThatStartLikeThat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout().Draw(t, "layout")
		row, other := drawRow(l).Draw(t, "row"), drawRow(l).Draw(t, "other")
		leading, n := leadingOf(t, l, row)
		ranges, err := l.FanOut(leading)
		if err != nil {
			t.Fatalf("%v: fan out by %v: %v", l, leading, err)
		}
		key := mustKey(t, l, row)
		if n := countContaining(ranges, key); n != 1 {
			t.Fatalf("%v: %x lies in %d of the ranges of %v", l, key, n, leading)
		}
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if rapid.Bool().Draw(t, "same "+name) {
				other[name] = row[name]
			}
		}
		want := 0
		if startsAlike(t, l, key, mustKey(t, l, other), leading, n) {
			want = 1
		}
		if got := countContaining(ranges, mustKey(t, l, other)); got != want {
			t.Fatalf("%v: %v lies in %d ranges of %v, want %d", l, other, got, leading, want)
		}
	})
}

func TestBetweenHoldsExactlyTheKeysFromOneValueToBeforeTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := mustLayout(t, rapid.SampledFrom([]string{
			"(region:string, hour(ts)) | id", "(region:string, salt(4)) | ts:time, id", "region:string | name:string",
		}).Draw(t, "layout"))
		next := l.columns[1]
		row := drawRow(l).Draw(t, "row")
		from, to := drawColumnValue(next.typ).Draw(t, "from"), drawColumnValue(next.typ).Draw(t, "to")
		if compareColumn(from, to) > 0 {
			from, to = to, from
		}
		ranges, err := l.Between(Columns{"region": row["region"]}, from, to)
		if compareColumn(from, to) == 0 {
			if !errors.Is(err, ErrColumn) {
				t.Fatalf("from %v to itself: %v", from, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		value, want := row[next.name], 0
		if compareColumn(from, value) <= 0 && compareColumn(value, to) < 0 {
			want = 1
		}
		got := countContaining(ranges, mustKey(t, l, row))
		if got != want && (got < want || !sharesBucket(t, next, l, value, from, to)) {
			t.Fatalf("%v lies in %d of the ranges from %v to %v, want %d", row, got, from, to, want)
		}
	})
}

// sharesBucket excuses a key outside the bounds: its bucket has a part inside.
func sharesBucket(t *rapid.T, c column, l *Layout, value, from, to any) bool {
	if len(c.buckets) == 0 {
		return false
	}
	span, err := l.fields[c.buckets[0]].Bucket.Of(value.(time.Time))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return span.Start().Before(to.(time.Time)) && span.End().After(from.(time.Time))
}

func compareColumn(a, b any) int {
	if t, ok := a.(time.Time); ok {
		return t.Compare(b.(time.Time))
	}
	return Compare(Tuple{a}, Tuple{b})
}

// leadingOf gives the first n fields of row by their own names, the salt
// perhaps left open.
func leadingOf(t *rapid.T, l *Layout, row Columns) (Columns, int) {
	n := rapid.IntRange(0, len(l.fields)).Draw(t, "leading")
	leading := Columns{}
	v, err := l.Decode(mustKey(t, l, row))
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i := range l.fields[:n] {
		f := &l.fields[i]
		if f.Salts > 0 && rapid.Bool().Draw(t, "open salt") {
			continue
		}
		name := f.name
		if f.Hash {
			name = f.Column // it has no name of its own to be given by
		}
		value, _ := v.Value(name)
		leading[name] = value
	}
	if f := l.saltField(); f != nil && f.Column != "" {
		if _, both := leading[f.Column]; both {
			delete(leading, f.name) // the one follows from the other
		}
	}
	return clearRedundant(l, leading), n
}

// clearRedundant leaves out the buckets of columns that are given themselves.
func clearRedundant(l *Layout, leading Columns) Columns {
	for _, c := range l.columns {
		if _, ok := leading[c.name]; ok {
			for _, at := range c.buckets {
				delete(leading, l.fields[at].name)
			}
		}
	}
	return leading
}

// startsAlike compares the first n elements of two keys, but for a salt that
// was left open: such keys are in some range whatever their salt.
func startsAlike(t *rapid.T, l *Layout, a, b []byte, leading Columns, n int) bool {
	x, errX := l.Decode(a)
	y, errY := l.Decode(b)
	if errX != nil || errY != nil {
		t.Fatalf("%v, %v", errX, errY)
	}
	for i := range n {
		_, given := leading[l.fields[i].name]
		if open := i == l.salt && !given; !open && !bytes.Equal(x.Element(i).Raw(), y.Element(i).Raw()) {
			return false
		}
	}
	return true
}

func countContaining(ranges []Range, key []byte) int {
	n := 0
	for _, r := range ranges {
		if r.Contains(key) {
			n++
		}
	}
	return n
}

// drawLayout draws valid layouts: a few columns of any type, time columns with or
// without themselves in the key, and perhaps a salt.
func drawLayout() *rapid.Generator[*Layout] {
	return rapid.Custom(func(t *rapid.T) *Layout {
		var fields, bare []string
		for i := range rapid.IntRange(1, 4).Draw(t, "columns") {
			name := fmt.Sprintf("c%d", i)
			typ := rapid.SampledFrom([]string{"", ":string", ":bytes", ":int", ":float", ":bool", ":uuid", ":time", "bucket"}).Draw(t, "type")
			if typ != "bucket" {
				fields, bare = append(fields, name+typ), append(bare, name)
				continue
			}
			for _, b := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"minute(", "hour(", "day(", "month(", "every(168h, "}), 1, 3, rapid.ID).Draw(t, "buckets") {
				fields = append(fields, b+name+")")
			}
			if rapid.Bool().Draw(t, "exact") {
				fields = append(fields, name)
			}
		}
		fields = rapid.Permutation(fields).Draw(t, "order")
		bar := rapid.IntRange(1, len(fields)).Draw(t, "bar")
		for i, field := range slices.Clone(fields[:bar]) {
			name, _, _ := strings.Cut(field, ":")
			if !strings.Contains(name, "(") && rapid.Bool().Draw(t, "hash of "+name) {
				fields = slices.Insert(fields, rapid.IntRange(0, i).Draw(t, "hash at"), "hash("+name+")")
				bar++
			}
		}
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

// drawRow draws a row for l, with a salt where one has to be picked.
func drawRow(l *Layout) *rapid.Generator[Columns] {
	return rapid.Custom(func(t *rapid.T) Columns {
		row := Columns{}
		for _, c := range l.columns {
			row[c.name] = drawColumnValue(c.typ).Draw(t, c.name)
		}
		if f := l.saltField(); f != nil && f.Column == "" {
			row[f.name] = rapid.IntRange(0, f.Salts-1).Draw(t, "salt")
		}
		return row
	})
}

func drawColumnValue(typ Type) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a\x00", "a\x00\x00", "b"}), rapid.String())
	switch typ {
	case TypeString:
		return rapid.Map(text, toAny[string])
	case TypeBytes:
		return rapid.Map(drawRoughBytes(), toAny[[]byte])
	case TypeInt:
		return drawEdgeInteger()
	case TypeFloat:
		return rapid.Map(rapid.Float64(), toAny[float64])
	case TypeBool:
		return rapid.Map(rapid.Bool(), toAny[bool])
	case TypeUUID:
		return rapid.Map(rapid.Byte(), func(b byte) any { return UUID{3: b} })
	case TypeTime:
		return rapid.Map(drawTime(), toAny[time.Time])
	default:
		return rapid.OneOf(rapid.Map(text, toAny[string]), rapid.Map(drawRoughBytes(), toAny[[]byte]), drawEdgeInteger(),
			rapid.SampledFrom([]any{nil, true, math.NaN(), float32(-1), UUID{}, Versionstamp{User: 1}}))
	}
}

// drawTime draws from all that a layout takes, the ends of what 64 bits of
// nanoseconds reach included.
func drawTime() *rapid.Generator[time.Time] {
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

// FuzzParseLayout checks on any text that parsing ends, that an error points
// into the text, and that the canonical form is a fixed point.
func FuzzParseLayout(f *testing.F) {
	for _, text := range fuzzLayouts {
		f.Add(text)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "layout", "parse.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(script)) {
		if text, ok := strings.CutPrefix(line, "layout "); ok {
			f.Add(strings.TrimSpace(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLayout(text)
		if err != nil {
			var at *LayoutError
			if !errors.Is(err, ErrLayout) || !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) {
				t.Fatalf("%q: error %#v", text, err)
			}
			return
		}
		canonical := l.String()
		again, err := ParseLayout(canonical)
		if err != nil || again.String() != canonical {
			t.Fatalf("%q is %q, which reads back as %v, %v", text, canonical, again, err)
		}
	})
}

var fuzzLayouts = []string{
	"(region, hour(ts)) | id",
	"salt(16) | ts:time",
	"salt(16, user) | user:string, ts:time",
	"(tenant:string, month(ts), every(168h, ts)) | id:uuid",
	"(a:string, b:bytes, c:int, d:float) | e:bool, f:uuid, g:time",
	"day(ts) | ts",
	"hash(id), id",
	"(hash(ts), minute(ts)) | ts",
}

// FuzzLayoutDecode checks on any bytes, with layouts of all kinds, that a key
// that is accepted has no second form, that what is refused says where, and
// that printing is always printable.
func FuzzLayoutDecode(f *testing.F) {
	var all []*Layout
	for i, text := range fuzzLayouts {
		all = append(all, mustLayout(f, text))
		for _, v := range append(specVectors, edgeVectors...) {
			f.Add(i, mustEncode(f, v.tuple))
		}
	}
	f.Add(0, []byte("\x02eu\x00\x17\x07\x9b\x61\x15\x2a"))
	f.Add(1, []byte("\x15\x03\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Add(2, []byte("\x15\x0f\x02bob\x00\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Add(3, []byte("\x02acme\x00\x16\x02\xaa\x16\x0b\x95\x30aaaabbbbccccdddd"))
	f.Add(5, []byte("\x16\x51\x22\x1c\x18\xe8\x13\xaf\x80\x4e\xe0\x00"))
	f.Add(6, mustKey(f, all[6], Columns{"id": 7}))
	f.Add(7, mustKey(f, all[7], Columns{"ts": someTime}))
	f.Fuzz(func(t *testing.T, i int, key []byte) {
		l := all[uint(i)%uint(len(all))]
		v, err := l.Decode(key)
		text, formatErr := l.Format(key)
		if (err == nil) != (formatErr == nil) {
			t.Fatalf("Decode says %v, Format %v", err, formatErr)
		}
		if err == nil && v.String() != text {
			t.Fatalf("%x prints as %q, its values as %q", key, text, v)
		}
		for _, r := range text {
			if !unicode.IsPrint(r) {
				t.Fatalf("%x prints as %q", key, text)
			}
		}
		if _, tupleErr := Decode(key); err == nil && tupleErr != nil {
			t.Fatalf("%x is accepted but is no tuple: %v", key, tupleErr)
		}
		if err != nil {
			var at *FitError
			if !errors.Is(err, ErrForeignKey) || !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(key) {
				t.Fatalf("%x: error %#v", key, err)
			}
			return
		}
		if again, err := l.Encode(v); err != nil || !bytes.Equal(again, key) {
			t.Fatalf("%v: %x encodes again to %x, %v", l, key, again, err)
		}
		if p, err := l.Partition(key); err != nil || !bytes.HasPrefix(key, p) {
			t.Fatalf("partition %x, %v", p, err)
		}
	})
}
