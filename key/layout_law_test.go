package key

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

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
		l := layouts().Draw(t, "layout")
		again := mustLayout(t, l.String())
		if again.String() != l.String() || !slices.Equal(again.Fields(), l.Fields()) || !slices.Equal(again.Columns(), l.Columns()) {
			t.Fatalf("%v reads back as %v", l, again)
		}
	})
}

func TestDecodingAKeyGivesItsColumnsAndThoseTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts().Draw(t, "layout")
		row := rows(l).Draw(t, "row")
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
	if want := c.bare >= 0 || len(c.buckets) > 0; ok != want || v.Exact(c.name) != (c.bare >= 0) {
		t.Fatalf("%s: known %v, exact %v", c.name, ok, v.Exact(c.name))
	}
	switch {
	case !ok:
	case c.typ == TypeTime && c.bare >= 0:
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
		a, b := rows(l).Draw(t, "a"), rows(l).Draw(t, "b")
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
		l := layouts().Draw(t, "layout")
		row, other := rows(l).Draw(t, "row"), rows(l).Draw(t, "other")
		leading, n := leadingOf(t, l, row)
		ranges, err := l.FanOut(leading)
		if err != nil {
			t.Fatalf("%v: fan out by %v: %v", l, leading, err)
		}
		key := mustKey(t, l, row)
		if n := count(ranges, key); n != 1 {
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
		if got := count(ranges, mustKey(t, l, other)); got != want {
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
		row := rows(l).Draw(t, "row")
		from, to := columnValues(next.typ).Draw(t, "from"), columnValues(next.typ).Draw(t, "to")
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
		got := count(ranges, mustKey(t, l, row))
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
		value, _ := v.Value(f.name)
		leading[f.name] = value
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

func count(ranges []Range, key []byte) int {
	n := 0
	for _, r := range ranges {
		if r.Contains(key) {
			n++
		}
	}
	return n
}
