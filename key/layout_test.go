package key

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var someTime = time.Date(2026, 11, 15, 1, 28, 16, 0, time.UTC)

// fixedSalter picks one number, from a number of salts that it claims.
type fixedSalter struct{ salts, pick int }

func (f fixedSalter) Salts() int      { return f.salts }
func (f fixedSalter) Salt([]byte) int { return f.pick }

func TestPickedSaltsComeFromTheSalter(t *testing.T) {
	turns, err := NewRoundRobin(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := mustLayout(t, "salt(4) | ts:time").WithSalter(turns)
	if err != nil {
		t.Fatal(err)
	}
	for want := range 8 {
		v, err := l.Decode(mustKey(t, l, Columns{"ts": someTime}))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := v.Value("salt(4)"); got != want%4 {
			t.Errorf("key %d has salt %v", want, got)
		}
	}
}

func TestSaltersThatDoNotFitAreRefused(t *testing.T) {
	salted := mustLayout(t, "salt(4) | id")
	for _, c := range []struct {
		name   string
		layout *Layout
		salter Salter
	}{
		{"no salt", mustLayout(t, "id"), fixedSalter{4, 0}},
		{"zero layout", new(Layout), fixedSalter{4, 0}},
		{"derived salt", mustLayout(t, "salt(4, id) | id"), fixedSalter{4, 0}},
		{"other number", salted, fixedSalter{5, 0}},
		{"nil", salted, nil},
	} {
		if _, err := c.layout.WithSalter(c.salter); !errors.Is(err, ErrSalt) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
	for _, pick := range []int{-1, 4} {
		l, err := salted.WithSalter(fixedSalter{4, pick})
		if err != nil {
			t.Fatal(err)
		}
		if key, err := l.Encode(Columns{"id": 1}); !errors.Is(err, ErrSalt) || key != nil {
			t.Errorf("a Salter that picks %d: key %x, error %v", pick, key, err)
		}
	}
}

func TestDerivedSaltsFollowTheValueNotItsGoType(t *testing.T) {
	l := mustLayout(t, "salt(1024, id) | id")
	want := mustKey(t, l, Columns{"id": int64(7)})
	for _, v := range []any{7, uint8(7), bigInt("7")} {
		if got := mustKey(t, l, Columns{"id": v}); !bytes.Equal(got, want) {
			t.Errorf("%T: %x, want %x", v, got, want)
		}
	}
}

func TestHashesFollowTheValueNotItsGoType(t *testing.T) {
	l := mustLayout(t, "hash(id), id")
	want := mustKey(t, l, Columns{"id": int64(7)})
	for _, v := range []any{7, uint8(7), bigInt("7")} {
		if got := mustKey(t, l, Columns{"id": v}); !bytes.Equal(got, want) {
			t.Errorf("%T: %x, want %x", v, got, want)
		}
	}
}

// So a table with salts can be given more of them, up to a hash, and rows stay in the same order of places.
func TestColumnHash_ScaledDown_IsTheDerivedSalt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		column, n := rapid.SliceOf(rapid.Byte()).Draw(t, "column"), rapid.IntRange(1, MaxSalts).Draw(t, "salts")
		salts, err := NewDerivedSalt(n)
		if err != nil {
			t.Fatal(err)
		}
		// The hash has the upper half of the bits, so the salt can be one more than it says.
		scaled := int(uint64(ColumnHash(column)) * uint64(n) >> 32)
		if got := salts.Salt(column); got != scaled && got != scaled+1 {
			t.Fatalf("the hash scales to %d, the salt is %d", scaled, got)
		}
	})
}

func TestHashedKeys_OfColumnsThatGrow_AreSpreadEvenly(t *testing.T) {
	const pieces, each = 16, 1000
	l := mustLayout(t, "hash(id), id:int")
	var found [pieces]int
	for id := range pieces * each {
		v, err := l.Decode(mustKey(t, l, Columns{"id": id}))
		if err != nil {
			t.Fatal(err)
		}
		h, _ := v.Value("hash(id)")
		found[h.(int64)*pieces>>32]++
	}
	for i, n := range found {
		if n < each*8/10 || n > each*12/10 {
			t.Errorf("piece %d has %d of %d keys", i, n, pieces*each)
		}
	}
}

func TestAGivenSaltDoesNotOverruleAColumnOfTheKey(t *testing.T) {
	l := mustLayout(t, "salt(16, user) | user")
	want := mustKey(t, l, Columns{"user": "ann"})
	for salt := range 16 {
		if got, err := l.Encode(Columns{"user": "ann", "salt(16, user)": salt}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("salt %d given: got %x, %v; want %x", salt, got, err, want)
		}
	}
}

func TestUnsaltedOrderGoesByTheFieldsBeforeTheSaltFirst(t *testing.T) {
	l := mustLayout(t, "(region, salt(4)) | id")
	key := func(region string, salt, id int) []byte {
		return mustKey(t, l, Columns{"region": region, "salt(4)": salt, "id": id})
	}
	ordered := [][]byte{key("a", 3, 1), key("a", 0, 2), key("b", 1, 0), key("b", 0, 1)}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := l.CompareUnsalted(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%q and %q: got %d", a, b, got)
			}
		}
	}
}

func TestPositionalAndNamedColumnsMakeTheSameKey(t *testing.T) {
	l := mustLayout(t, "(region, hour(ts)) | ts, id")
	want := mustKey(t, l, Columns{"id": 42, "region": "eu", "ts": someTime, "colour": "red"})
	got, err := l.AppendValues([]byte("before"), "eu", someTime, 42)
	if err != nil || string(got) != "before"+string(want) {
		t.Errorf("AppendValues = %q, %v; want %q", got, err, want)
	}
	for _, values := range [][]any{{"eu", someTime}, {"eu", someTime, 42, 43}, nil} {
		if got, err := l.AppendValues([]byte("before"), values...); !errors.Is(err, ErrColumn) || string(got) != "before" {
			t.Errorf("%d values: %q, %v", len(values), got, err)
		}
	}
}

func TestFailedAppendLeavesTheBufferAlone(t *testing.T) {
	l := mustLayout(t, "(region:string, hour(ts)) | id")
	for _, row := range []Row{nil, Columns{}, Columns{"region": "eu", "ts": someTime, "id": struct{}{}}} {
		got, err := l.Append([]byte("before"), row)
		if !errors.Is(err, ErrColumn) || string(got) != "before" {
			t.Errorf("%v: %q, %v", row, got, err)
		}
	}
	_, err := l.Encode(Columns{"region": "eu", "ts": someTime, "id": struct{}{}})
	if !errors.Is(err, ErrUnencodable) {
		t.Errorf("error %v does not say that the value cannot be encoded", err)
	}
}

func TestReadingAllSaltsInOrderGivesTheRecordsInOrder(t *testing.T) {
	l := mustLayout(t, "(tenant, salt(8, id)) | ts:time, id:int")
	var keys [][]byte
	for i := range 200 {
		keys = append(keys, mustKey(t, l, Columns{"tenant": "a", "ts": someTime.Add(time.Duration(i) * time.Second), "id": i}))
	}
	unsorted := slices.Clone(keys)
	slices.SortFunc(unsorted, bytes.Compare)
	if slices.EqualFunc(unsorted, keys, bytes.Equal) {
		t.Fatal("the salts spread nothing")
	}
	slices.SortFunc(unsorted, l.CompareUnsalted)
	if !slices.EqualFunc(unsorted, keys, bytes.Equal) {
		t.Error("without their salts the keys are not in order of time")
	}
	if l.CompareUnsalted([]byte{codeZero}, nil) != 1 || mustLayout(t, "id").CompareUnsalted([]byte{1}, []byte{2}) != -1 {
		t.Error("keys that end early, or have no salt, do not compare as bytes")
	}
}

func TestTooManyFieldsAreRefused(t *testing.T) {
	text := "a0" + strings.Repeat(", a", MaxFields)
	if _, err := ParseLayout(text); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "more than 64 fields") {
		t.Errorf("error %v", err)
	}
}

func TestLayoutIsItsTextInJSON(t *testing.T) {
	var l Layout
	if err := json.Unmarshal([]byte(`"( a,b )|c"`), &l); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(&l); err != nil || string(b) != `"(a, b) | c"` {
		t.Errorf("%s, %v", b, err)
	}
	if err := json.Unmarshal([]byte(`"("`), &l); !errors.Is(err, ErrLayout) || l.String() != "(a, b) | c" {
		t.Errorf("error %v, layout now %v", err, &l)
	}
}

func TestZeroLayoutIsTheShapeOfTheEmptyKey(t *testing.T) {
	var l Layout
	key, err := l.Encode(Columns{})
	if err != nil || len(key) != 0 || l.String() != "" || l.Salts() != 1 {
		t.Errorf("key %x, %v; text %q; %d salts", key, err, l.String(), l.Salts())
	}
	if _, err := l.Decode([]byte{codeZero}); !errors.Is(err, ErrForeignKey) {
		t.Errorf("error %v", err)
	}
	var v Values
	if _, ok := v.Value("a"); ok || v.Exact("a") || len(v.Map()) != 0 || v.String() != "" || v.Element(0).Kind() != KindInvalid {
		t.Error("the zero Values hold something")
	}
}

func TestLayoutsDoNotAllocateOnTheirHotPaths(t *testing.T) {
	l := mustLayout(t, "(region:string, hour(ts)) | ts, id:int")
	var row Row = Columns{"region": "eu", "ts": someTime, "id": int64(1 << 40)}
	buf := mustKey(t, l, row)
	text := make([]byte, 0, 128)
	var v Values
	for name, f := range map[string]func() error{
		"Append":       func() (err error) { buf, err = l.Append(buf[:0], row); return err },
		"DecodeInto":   func() error { return l.DecodeInto(&v, buf) },
		"AppendFormat": func() (err error) { text, err = l.AppendFormat(text[:0], buf); return err },
		"Partition":    func() error { _, err := l.Partition(buf); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestForeignKeysAreRefusedWithTheirPlaceFieldAndCause(t *testing.T) {
	l := mustLayout(t, "(region:string, hour(ts)) | ts, id:int")
	for _, c := range []struct {
		name, key string
		offset    int
		field     string
		cause     error // nil for one without a sentinel
		partition bool  // whether the partition alone is in order
	}{
		{"empty", "", 0, "region", nil, false},
		{"no tuple", "https://", 0, "region", ErrTypeCode, false},
		{"cut in the partition", "\x02eu\x00", 4, "hour(ts)", nil, false},
		{"wrong type in the partition", "\x02eu\x00\x00", 4, "hour(ts)", nil, false},
		{"torn", "\x02eu\x00\x17\x07", 4, "hour(ts)", ErrTruncated, false},
		{"cut after the partition", "\x02eu\x00\x17\x07\x9b\x61", 8, "ts", nil, true},
		{"not a second spelling", "\x02eu\x00\x17\x07\x9b\x61\x16\x00\x01", 9, "ts", ErrNotCanonical, true},
		{"text that is not UTF-8 after a zero", "\x02e\x00\xff\xc3\x00\x14", 0, "region", nil, false},
		{"text that is not UTF-8 before a zero", "\x02\xc3\x00\xffe\x00\x14", 0, "region", nil, false},
		{"a time beyond any calendar", "\x02eu\x00\x14\x1d\x20" + strings.Repeat("\xee", 32), 5, "ts", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Decode([]byte(c.key))
			var at *FitError
			if !errors.Is(err, ErrForeignKey) || !errors.As(err, &at) || at.Offset != c.offset || at.Field != c.field {
				t.Errorf("error %v, want byte %d of field %s", err, c.offset, c.field)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("error %v, want %v", err, c.cause)
			}
			if _, err := l.Partition([]byte(c.key)); (err == nil) != c.partition || err != nil && !errors.Is(err, ErrForeignKey) {
				t.Errorf("partition: error %v", err)
			}
		})
	}
}

func TestWhatFittedOfAForeignKeyCanStillBeRead(t *testing.T) {
	l := mustLayout(t, "(region:string, hour(ts)) | ts, id:int")
	v, err := l.Decode([]byte("\x02eu\x00\x17\x07\x9b\x61\x26"))
	if !errors.Is(err, ErrForeignKey) {
		t.Fatal(err)
	}
	region, _ := v.Value("region")
	ts, _ := v.Value("ts")
	_, hasID := v.Value("id")
	if region != "eu" || !ts.(time.Time).Equal(someTime.Truncate(time.Hour)) || hasID || v.Exact("ts") {
		t.Errorf("region %v, ts %v, id known %v, ts exact %v", region, ts, hasID, v.Exact("ts"))
	}
	if _, ok := v.Value("nowhere"); ok {
		t.Error("a column that the layout does not name has a value")
	}
}

func TestColumnsTakeTheGoTypesOfTheirType(t *testing.T) {
	for _, c := range []struct {
		layout string
		value  any
		want   any // nil if it is refused
	}{
		{"a:uuid", [16]byte(vectorUUID), vectorUUID},
		{"a:float", float32(1.5), 1.5},
		{"a:int", bigInt("18446744073709551616"), bigInt("18446744073709551616")},
		{"a:int", uint8(7), int64(7)},
		{"a:int", nil, nil},
		{"a", Tuple{1}, nil},
		{"a:time", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), nil},
		{"a:time", time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), nil},
		{"a:time", time.Time{}, nil},
		{"hour(a)", time.Date(1, 1, 1, 0, 30, 0, 0, time.UTC), nil}, // its hour starts at the zero time
	} {
		l := mustLayout(t, c.layout)
		key, err := l.Encode(Columns{"a": c.value})
		if c.want == nil {
			if !errors.Is(err, ErrColumn) || key != nil {
				t.Errorf("%s of %v: %x, %v", c.layout, c.value, key, err)
			}
			continue
		}
		v, decodeErr := l.Decode(key)
		if got, _ := v.Value("a"); err != nil || decodeErr != nil || Compare(Tuple{got}, Tuple{c.want}) != 0 {
			t.Errorf("%s of %v came back as %v, %v, %v", c.layout, c.value, got, err, decodeErr)
		}
	}
}

// TestMethodsOfANilLayoutFailAndDoNotPanic calls every exported method with zero
// arguments, so one that is added later is held to it too.
func TestMethodsOfANilLayoutFailAndDoNotPanic(t *testing.T) {
	nilLayout := reflect.ValueOf((*Layout)(nil))
	zero := reflect.ValueOf(new(Layout))
	for i := range nilLayout.NumMethod() {
		name := nilLayout.Type().Method(i).Name
		method := nilLayout.Method(i)
		var args []reflect.Value
		for j := range method.Type().NumIn() {
			in := method.Type().In(j)
			switch {
			case method.Type().IsVariadic() && j == method.Type().NumIn()-1:
			case in == reflect.TypeFor[*Values]():
				args = append(args, reflect.ValueOf(new(Values)))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		out := method.Call(args)
		if last := out[len(out)-1]; last.Type() == reflect.TypeFor[error]() {
			if err, _ := last.Interface().(error); !errors.Is(err, ErrLayout) {
				t.Errorf("%s: error %v, want %v", name, err, ErrLayout)
			}
			continue
		}
		if got, want := fmt.Sprint(out[0]), fmt.Sprint(zero.Method(i).Call(args)[0]); got != want {
			t.Errorf("%s of a nil Layout is %s, of the zero one %s", name, got, want)
		}
	}
}
