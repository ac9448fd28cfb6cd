package index

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/key"
)

func drawTuple(t *rapid.T, label string) key.Tuple {
	element := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.StringN(0, 3, 6), func(s string) any { return s }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 0, 3), func(b []byte) any { return b }),
		rapid.Map(rapid.Int64Range(-300, 300), func(i int64) any { return i }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	return rapid.SliceOfN(element, 0, 3).Draw(t, label)
}

// Entries sort by their tuples and then by their rows, come apart again, and lie within
// the bounds of those that begin as they do, and of no others.
func TestEntriesSortAsTheirTuplesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTuple(t, "a"), drawTuple(t, "b")
		rowA, rowB := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "row a"), rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "row b")
		ka, err := AppendKey(nil, a, rowA)
		if err != nil {
			t.Fatal(err)
		}
		kb, _ := AppendKey(nil, b, rowB)
		order := key.Compare(a, b)
		if order == 0 {
			order = bytes.Compare(rowA, rowB)
		}
		if bytes.Compare(ka, kb) != order {
			t.Fatalf("%v of %q and %v of %q sort as %x and %x", a, rowA, b, rowB, ka, kb)
		}
		tuple, row, err := SplitKey(ka)
		if err != nil || key.Compare(tuple, a) != 0 || !bytes.Equal(row, rowA) {
			t.Fatalf("%v of %q came back as %v of %q: %v", a, rowA, tuple, row, err)
		}
		begins := len(a) >= len(b) && key.Compare(a[:len(b)], b) == 0
		start, end, err := PrefixSpan(b)
		if err != nil || begins != (bytes.Compare(start, ka) <= 0 && bytes.Compare(ka, end) < 0) {
			t.Fatalf("%v begins with %v is %v, but %x is not so in [%x, %x): %v", a, b, begins, ka, start, end, err)
		}
		same, err := TuplePrefix(b)
		if err != nil || (key.Compare(a, b) == 0) != bytes.HasPrefix(ka, same) {
			t.Fatalf("%v and %v: %x begins with %x: %v", a, b, ka, same, err)
		}
		bound, err := LowerBound(b)
		if err != nil || (key.Compare(a, b) >= 0) != (bytes.Compare(ka, bound) >= 0) {
			t.Fatalf("%v against the bound %v: %x, %x: %v", a, b, ka, bound, err)
		}
		for _, other := range [][]byte{MetaKey("x"), RecordKey(rowA)} {
			if all, last := EntriesSpan(); bytes.Compare(other, all) >= 0 && bytes.Compare(other, last) < 0 {
				t.Fatalf("%x is among the entries", other)
			}
		}
	})
}

// A difference turns the old entries into the new ones, whether it is to entries or to a
// record of them, and is empty if nothing has changed.
func TestADifferenceMakesTheNewOfTheOld(t *testing.T) {
	list := rapid.Custom(func(t *rapid.T) []Entry {
		m := rapid.MapOfN(rapid.StringN(1, 2, 2), rapid.SampledFrom([]string{"", "x", "y"}), 0, 6).Draw(t, "entries")
		var all []Entry
		for k, v := range m {
			all = append(all, Entry{[]byte(k), []byte(v)})
		}
		slices.SortFunc(all, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
		return all
	})
	rapid.Check(t, func(t *rapid.T) {
		old, now := list.Draw(t, "old"), list.Draw(t, "now")
		renew := rapid.Bool().Draw(t, "renew")
		record := NewRecord(old, 5)
		decoded, err := DecodeRecord(record.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		expiry := int64(5)
		if renew {
			expiry = 6
		}
		for name, c := range map[string]Change{"entries": Diff(old, now, renew), "record": decoded.Diff(now, expiry)} {
			have := map[string]string{}
			for _, e := range old {
				have[string(e.Key)] = string(e.Value)
			}
			for _, k := range c.Delete {
				delete(have, string(k))
			}
			for _, e := range c.Put {
				have[string(e.Key)] = string(e.Value)
			}
			want := map[string]string{}
			for _, e := range now {
				want[string(e.Key)] = string(e.Value)
			}
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Fatalf("%s: %v, want %v", name, have, want)
			}
			if renew && len(c.Put) != len(now) || !renew && fmt.Sprint(old) == fmt.Sprint(now) && len(c.Put)+len(c.Delete) > 0 {
				t.Fatalf("%s: %d puts and %d deletes from %v to %v", name, len(c.Put), len(c.Delete), old, now)
			}
		}
	})
}

func TestRowsHaveTheEntriesOfTheirColumns(t *testing.T) {
	plain := "region:string | id:int"
	l, err := key.ParseLayout(plain)
	if err != nil {
		t.Fatal(err)
	}
	rowKey, err := l.AppendValues(nil, "eu", 7)
	if err != nil {
		t.Fatal(err)
	}
	row := &Row{Key: rowKey, IsHash: true, Fields: []Field{
		{[]byte("age"), []byte("-12")}, {[]byte("bad"), []byte("1e")}, {[]byte("born"), []byte("1970-01-01T00:00:01Z")},
		{[]byte("name"), []byte("ann")}, {[]byte("ok"), []byte("true")}, {[]byte("ratio"), []byte("0.5")},
		{[]byte("raw"), []byte{0xff}}, {[]byte("uuid"), []byte("00000000-0000-0000-0000-000000000001")},
	}}
	for _, c := range []struct{ columns, want string }{
		{"name, age:int", `("ann", -12)`},
		{"region, name", `("eu", "ann")`},
		{"id, region", `(7, "eu")`},
		{"ok:bool, ratio:float", `(true, 0.5)`},
		{"born:time", `(1000000000)`},
		{"day(born)", `(0)`},
		{"raw:bytes", `(b"\xff")`},
		{"raw", "refused"},
		{"salt(4, name), name", ""},
		{"uuid:uuid", `(00000000-0000-0000-0000-000000000001)`},
		{"missing", "none"},
		{"missing, bad:int", "none"},
		{"bad:int", "refused"},
		{"bad:float", "refused"},
		{"name:bool", "refused"},
		{"name:uuid", "refused"},
		{"name:time", "refused"},
	} {
		d := Definition{Name: "x", Keyspace: "k", Columns: c.columns, Stored: []string{"name", "missing"}}
		if err := d.Validate(plain); err != nil {
			t.Errorf("%s: %v", c.columns, err)
			continue
		}
		x, err := NewExtractor(&d, plain)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := x.ExtractEntries(row)
		switch {
		case c.want == "refused":
			if !errors.Is(err, ErrEntry) {
				t.Errorf("%s: %v", c.columns, err)
			}
		case err != nil, c.want == "none" != (len(entries) == 0):
			t.Errorf("%s: %d entries: %v", c.columns, len(entries), err)
		case len(entries) == 1:
			tuple, r, err := SplitKey(entries[0].Key)
			if err != nil || !bytes.Equal(r, rowKey) || c.want != "" && tuple.String() != c.want {
				t.Errorf("%s: %v of %q: %v", c.columns, tuple, r, err)
			}
			stored, err := DecodeStored(d.Stored, entries[0].Value)
			if err != nil || len(stored) != 1 || string(stored[0].Value) != "ann" {
				t.Errorf("%s: stored %q: %v", c.columns, stored, err)
			}
		}
		for _, other := range []*Row{{Key: []byte("foreign"), IsHash: false, Value: []byte("x")}, {Key: rowKey, Value: []byte("no hash")}} {
			entries, err := x.ExtractEntries(other)
			if want := c.columns == "id, region" && bytes.Equal(other.Key, rowKey); err != nil || want != (len(entries) == 1) {
				t.Errorf("%s: %d entries of %q: %v", c.columns, len(entries), other.Key, err)
			}
		}
	}
}

// Beyond the years 1678 to 2262 the nanoseconds take more than 64 bits.
func TestFarTimesOfKeysAreInOrder(t *testing.T) {
	layout := "at:time"
	l, err := key.ParseLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	var untyped, typed [][]byte
	for _, year := range []int{1, 1500, 1677, 1970, 2026, 2263, 3000, 9999} {
		rowKey, err := l.AppendValues(nil, time.Date(year, 1, 1, 0, 0, 0, 1, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		for columns, to := range map[string]*[][]byte{"at": &untyped, "at:time": &typed} {
			x, err := NewExtractor(&Definition{Name: "x", Keyspace: "k", Columns: columns}, layout)
			if err != nil {
				t.Fatal(err)
			}
			entries, err := x.ExtractEntries(&Row{Key: rowKey})
			if err != nil || len(entries) != 1 {
				t.Fatalf("%s of %d: %d entries: %v", columns, year, len(entries), err)
			}
			*to = append(*to, entries[0].Key)
		}
	}
	if !slices.IsSortedFunc(untyped, bytes.Compare) || fmt.Sprint(untyped) != fmt.Sprint(typed) {
		t.Errorf("%x\n%x", untyped, typed)
	}
}

func TestFunctionsMakeSortedEntriesWithinLimits(t *testing.T) {
	row := &Row{Key: []byte("r")}
	many := make([]FuncEntry, MaxEntries+1)
	for i := range many {
		many[i].Tuple = key.Tuple{i}
	}
	wrong := errors.New("wrong")
	for say, c := range map[string]struct {
		made []FuncEntry
		err  error
		want int // -1 for refused
	}{
		"none":         {nil, nil, 0},
		"sorted":       {[]FuncEntry{{Tuple: key.Tuple{2}}, {Tuple: key.Tuple{1}}}, nil, 2},
		"the same":     {[]FuncEntry{{Tuple: key.Tuple{2}}, {Tuple: key.Tuple{2}}}, nil, 1},
		"a twin":       {[]FuncEntry{{Tuple: key.Tuple{2}, Value: []byte("a")}, {Tuple: key.Tuple{2}}}, nil, -1},
		"too many":     {many, nil, -1},
		"too long":     {[]FuncEntry{{Tuple: key.Tuple{strings.Repeat("x", MaxKeyBytes)}}}, nil, -1},
		"no element":   {[]FuncEntry{{Tuple: key.Tuple{struct{}{}}}}, nil, -1},
		"an error":     {nil, wrong, -1},
		"an empty one": {[]FuncEntry{{}}, nil, 1},
	} {
		entries, err := ExtractFunc(func(*Row) ([]FuncEntry, error) { return c.made, c.err }).ExtractEntries(row)
		if (c.want < 0) != errors.Is(err, ErrEntry) || c.err != nil && !errors.Is(err, wrong) || err == nil && len(entries) != c.want {
			t.Errorf("%s: %d entries: %v", say, len(entries), err)
		}
		if !slices.IsSortedFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) }) {
			t.Errorf("%s: not sorted", say)
		}
	}
}

func FuzzRecordsAndDefinitionsAreReadOrRefused(f *testing.F) {
	r := NewRecord([]Entry{{[]byte("a"), []byte("b")}, {[]byte("c"), nil}}, 9)
	f.Add(r.Append(nil))
	d, _ := (&Definition{Name: "n", Keyspace: "k", Columns: "a"}).Encode()
	f.Add(d)
	k, _ := AppendKey(nil, key.Tuple{"a", 1}, []byte("row"))
	f.Add(k)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeRecord(b); err == nil {
			again, err := DecodeRecord(r.Append(nil))
			if err != nil || fmt.Sprint(r) != fmt.Sprint(again) {
				t.Fatalf("%v became %v: %v", r, again, err)
			}
		}
		if d, err := DecodeDefinition(b); err == nil {
			text, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := DecodeDefinition(text); err != nil || !again.IsSame(d) {
				t.Fatalf("%+v became %+v: %v", d, again, err)
			}
		}
		if tuple, row, err := SplitKey(b); err == nil {
			if again, err := AppendKey(nil, tuple, row); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x became %x: %v", b, again, err)
			}
		}
		_, _ = DecodeRecordKey(b)
		_, _ = DecodeStored([]string{"a", "b"}, b)
	})
}

// A row whose key has nil where a column should be lacks that column: it has no entry, instead
// of one that no reader can parse.
func TestARowWithNilInItsKeyHasNoEntry(t *testing.T) {
	x, err := NewExtractor(&Definition{Name: "i", Keyspace: "k", Columns: "a"}, "a | id")
	if err != nil {
		t.Fatal(err)
	}
	l, err := key.ParseLayout("a | id")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[any]int{nil: 0, "x": 1} {
		k, err := l.AppendValues(nil, value, 5)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := x.ExtractEntries(&Row{Key: k, IsHash: true})
		if err != nil || len(entries) != want {
			t.Fatalf("%v: %v, %v", value, entries, err)
		}
		for _, e := range entries {
			if _, row, err := SplitKey(e.Key); err != nil || string(row) != string(k) {
				t.Errorf("%v: %q, %v", value, row, err)
			}
		}
	}
}
