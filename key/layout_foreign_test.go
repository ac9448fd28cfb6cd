package key

import (
	"errors"
	"strings"
	"testing"
	"time"
)

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
