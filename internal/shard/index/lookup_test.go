package index

import (
	"bytes"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/key"
)

func TestWhatIsLookedForIsWhatEntriesHave(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 30, 0, 5, time.UTC)
	id := key.UUID{1, 2, 3}
	layout := "device:int, seen:time | part"
	rowKey := func() []byte {
		l, err := key.ParseLayout(layout)
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.AppendValues(nil, 7, at, "p")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	row := &Row{Key: rowKey, IsHash: true, Fields: []Field{
		{[]byte("age"), []byte("40")}, {[]byte("at"), []byte(at.Format(time.RFC3339Nano))}, {[]byte("id"), []byte(id.String())},
		{[]byte("name"), []byte("ann")}, {[]byte("ok"), []byte("true")}, {[]byte("old"), []byte("0900-01-02T03:04:05Z")},
		{[]byte("size"), []byte("1.5")}, {[]byte("text"), []byte("t")},
	}}
	for columns, values := range map[string]key.Tuple{
		"name, age:int":                {"ann", uint8(40)},
		"at:time, text:string":         {at.In(time.FixedZone("", 3600)), "t"},
		"old:time":                     {time.Date(900, 1, 2, 3, 4, 5, 0, time.UTC)},
		"day(at), hour(at), month(at)": {at, at, at},
		"every(15m, at) | at":          {at, at},
		"ok:bool, id:uuid, size:float": {true, [16]byte(id), float32(1.5)},
		"text:bytes":                   {[]byte("t")},
		"device, seen, part":           {7, at, "p"},
		"day(seen)":                    {at},
	} {
		x, err := NewExtractor(&Definition{Columns: columns}, layout)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := x.ExtractEntries(row)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: %d entries, %v", columns, len(entries), err)
		}
		found, err := ConvertValues(x, values, false)
		if err != nil {
			t.Errorf("%s: %v", columns, err)
			continue
		}
		if want, err := AppendKey(nil, found, row.Key); err != nil || string(want) != string(entries[0].Key) {
			t.Errorf("%s: %v is not what the entry has: %v", columns, found, err)
		}
		// What an entry shows can be looked for as well.
		shown, _, err := SplitKey(entries[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ConvertValues(x, shown, false)
		if want, err2 := AppendKey(nil, again, row.Key); err != nil || err2 != nil || string(want) != string(entries[0].Key) {
			t.Errorf("%s: %v as shown: %v, %v", columns, shown, err, err2)
		}
	}
}

func TestABoundInABucketIsTheNextOne(t *testing.T) {
	x, err := NewExtractor(&Definition{Columns: "day(at), n:int"}, "")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	day := noon.Unix() / (24 * 60 * 60)
	for say, c := range map[string]struct {
		values key.Tuple
		upper  bool
		want   int64
	}{
		"below":               {key.Tuple{noon}, false, day},
		"above":               {key.Tuple{noon}, true, day + 1},
		"above, at its start": {key.Tuple{noon.Truncate(24 * time.Hour)}, true, day},
		"above, in it":        {key.Tuple{noon, 5}, true, day},
	} {
		if got, err := ConvertValues(x, c.values, c.upper); err != nil || got[0] != c.want {
			t.Errorf("%s: %v, want %d: %v", say, got, c.want, err)
		}
	}
}

func TestWhatNoEntryCanHaveIsRefused(t *testing.T) {
	const layout = "device:int"
	for _, c := range []struct {
		columns string
		values  key.Tuple
		says    string
	}{
		{"name, age:int", key.Tuple{"a", "40"}, "age: want int, got string"},
		{"name, age:int", key.Tuple{[]byte("a")}, "name: want string, got []uint8"},
		{"name, age:int", key.Tuple{nil}, "name: want string, got <nil>"},
		{"name, age:int", key.Tuple{"a", 1, 2}, "3 values, but (name, age:int) has 2 columns"},
		{"size:float", key.Tuple{3}, "size: want float, got int"},
		{"at:time", key.Tuple{"2026-11-15"}, "at: want a time.Time, got string"},
		{"day(at)", key.Tuple{"2026-11-15"}, "day(at): want a time.Time, got string"},
		{"ok:bool", key.Tuple{1}, "ok: want bool, got int"},
		{"age:int", key.Tuple{time.Now()}, "age: want int, got time.Time"},
		{"age:int", key.Tuple{1.0}, "age: want int, got float64"},
		{"device", key.Tuple{"7"}, "device: want int, got string"},
		{"salt(4, name), name", key.Tuple{"a"}, "want the number of a salt, got string"},
	} {
		x, err := NewExtractor(&Definition{Columns: c.columns}, layout)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ConvertValues(x, c.values, false); !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %v: %v, want %q", c.columns, c.values, err, c.says)
		}
	}
	made := ExtractFunc(func(*Row) ([]FuncEntry, error) { return nil, nil })
	if got, err := ConvertValues(made, key.Tuple{1, "a", big.NewInt(3)}, false); err != nil || len(got) != 3 {
		t.Errorf("those of a function: %v, %v", got, err)
	}
}

// Text is read as the types of the columns, as it is in the fields of a hash.
func TestTextsAreOfTheTypesOfTheColumns(t *testing.T) {
	at := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		columns string
		words   string
		want    key.Tuple // nil for an error
	}{
		{"name, age:int", "ann 40", key.Tuple{"ann", int64(40)}},
		{"name, age:int", "ann", key.Tuple{"ann"}},
		{"name, age:int", "ann forty", nil},
		{"name, age:int", "ann 40 more", nil},
		{"device", "7", key.Tuple{int64(7)}},
		{"ok:bool, size:float", "true 1.5", key.Tuple{true, 1.5}},
		{"at:time", "2026-11-15T10:00:00Z", key.Tuple{at}},
		{"at:time", "17", key.Tuple{int64(17)}},
		{"at:time", "soon", nil},
		{"day(at)", "2026-11-15T10:00:00Z", key.Tuple{at}},
		{"salt(4, name), name", "3 ann", key.Tuple{int64(3), "ann"}},
	} {
		x, err := NewExtractor(&Definition{Columns: c.columns}, "device:int")
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseValues(x, bytes.Fields([]byte(c.words)))
		if c.want == nil {
			if !errors.Is(err, ErrEntry) {
				t.Errorf("%s, %s: %v, %v", c.columns, c.words, got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, %s: %v, %v, want %v", c.columns, c.words, got, err, c.want)
		}
		if _, err := ConvertValues(x, got, false); err != nil {
			t.Errorf("%s, %s: what was read cannot be looked for: %v", c.columns, c.words, err)
		}
	}
	if _, err := ParseValues(ExtractFunc(func(*Row) ([]FuncEntry, error) { return nil, nil }), nil); !errors.Is(err, ErrEntry) {
		t.Error(err)
	}
}
