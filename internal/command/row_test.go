package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestRowsAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	for _, test := range []struct {
		row  Row
		want string
	}{
		{Row{Kind: String, Version: 7, Payload: []byte("hi")}, "01" + "00" + "0700000000000000" + "6869"},
		{Row{Kind: String, Version: 1 << 40, ExpiryMS: 1700000000000}, "01" + "01" + "0000000000010000" + "0068e5cf8b010000"},
		{Row{Kind: Hash, Version: 9, Generation: 3, Fields: 2}, "02" + "00" + "0900000000000000" + "0300000000000000" + "0200000000000000"},
		{Row{Kind: Hash, Version: 9, ExpiryMS: 1, Generation: 3, Fields: 2},
			"02" + "01" + "0900000000000000" + "0100000000000000" + "0300000000000000" + "0200000000000000"},
		{Row{Kind: Element, Version: 3, Payload: []byte("v")}, "10" + "00" + "0300000000000000" + "76"},
	} {
		raw := append(test.row.appendHead(nil), test.row.Payload...)
		if got := hex.EncodeToString(raw); got != test.want {
			t.Errorf("%+v is %s, want %s", test.row, got, test.want)
		}
		back, err := DecodeRow(raw)
		if back.Payload = bytes.Clone(back.Payload); err != nil || !sameRow(back, test.row) {
			t.Errorf("%s is %+v (%v), want %+v", test.want, back, err, test.row)
		}
	}
}

func sameRow(a, b Row) bool {
	same := bytes.Equal(a.Payload, b.Payload)
	a.Payload, b.Payload = nil, nil
	return same && a.Kind == b.Kind && a.Version == b.Version && a.ExpiryMS == b.ExpiryMS && a.Generation == b.Generation && a.Fields == b.Fields
}

func TestStoreKeysAreStable(t *testing.T) {
	l := newLab(t)
	l.env.Do(parse(`hset k f v`))
	l.env.Do(parse(`pexpire k 50`))
	l.env.Do(parse(`del k`))
	l.env.Do(parse(`set k v px 50`))
	l.commit()
	for _, want := range []string{
		"\x01\x01k\x00\x01",      // the row
		"\x01\x01k\x00\x01\x01f", // the orphaned field
		"\x06\x01k\x00\x01",      // the expiry
		"\x08\x01k\x00\x01",      // the note about the orphan
	} {
		if _, ok := l.store.rows[want]; !ok {
			t.Errorf("no row at %q in %q", want, l.store.rows)
		}
	}
	if len(l.store.rows) != 4 {
		t.Errorf("the store has %q", l.store.rows)
	}
}

func TestDamagedAndNewerRowsAreRefused(t *testing.T) {
	good := (&Row{Kind: String, Version: 1, ExpiryMS: 5}).appendHead(nil)
	edit := func(at int, b byte) []byte {
		raw := bytes.Clone(good)
		raw[at] = b
		return raw
	}
	element := (&Row{Kind: Element, Version: 1, ExpiryMS: 5}).appendHead(nil)
	for name, raw := range map[string][]byte{
		"empty": nil, "short": good[:9], "no expiry": good[:17], "zero expiry": edit(10, 0),
		"kind 0": edit(0, 0), "list": edit(0, 5), "unknown flag": edit(1, 2), "intent": edit(1, flagIntent),
		"intent and expiry": edit(1, flagIntent|flagExpiry), "hash without fields": edit(0, byte(Hash)), "element that expires": element,
	} {
		if row, err := DecodeRow(raw); !errors.Is(err, ErrRow) {
			t.Errorf("%s: got %+v, %v; want ErrRow", name, row, err)
		}
	}
	if _, err := DecodeRow(edit(1, flagIntent)); !strings.Contains(err.Error(), "intent") {
		t.Errorf("%v does not speak of the intent", err)
	}
}

func TestARowDiesAtItsExpiry(t *testing.T) {
	row := Row{Kind: String, ExpiryMS: 10, Payload: []byte("v")}
	for now, want := range map[int64]bool{0: true, 9: true, 10: false, 11: false} {
		if _, ok, err := row.Text(now); ok != want || err != nil || row.Alive(now) != want {
			t.Errorf("at %d: alive %v, %v, want %v", now, row.Alive(now), err, want)
		}
	}
	if _, _, err := (&Row{Kind: Hash}).Text(0); err != ErrWrongType {
		t.Errorf("a hash as text: %v", err)
	}
	if _, ok, err := (&Row{}).Text(0); ok || err != nil {
		t.Errorf("no row as text: %v, %v", ok, err)
	}
}

func FuzzDecodeRowTakesExactlyWhatIsWritten(f *testing.F) {
	f.Add((&Row{Kind: String, Version: 1, ExpiryMS: 5}).appendHead(nil))
	f.Add((&Row{Kind: Hash, Version: 1, Generation: 1, Fields: 1}).appendHead(nil))
	f.Add((&Row{Kind: Element, Version: 1}).appendHead(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		row, err := DecodeRow(raw)
		if err != nil {
			if !errors.Is(err, ErrRow) {
				t.Fatalf("%v is no ErrRow", err)
			}
			return
		}
		if back := append(row.appendHead(nil), row.Payload...); !bytes.Equal(back, raw) {
			t.Fatalf("%x is taken for %+v, which is %x", raw, row, back)
		}
	})
}

func FuzzNumbersAreReadAsTheyAreWritten(f *testing.F) {
	for _, text := range []string{"0", "-1", "9223372036854775807", "-9223372036854775808", "007", "1e10", "inf", "-0"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseInt(text); ok {
			if sum, err := addInt(text, true, 0); err != nil || sum != n {
				t.Fatalf("%q + 0 = %d, %v", text, sum, err)
			}
		}
		want, err := addInts(string(text), 0)
		if n, ok := parseInt(text); ok != (err == nil) {
			t.Fatalf("%q is read as %d, %v; want %s, %v", text, n, ok, want, err)
		}
		if delta, err := parseFloat(text); err == nil {
			if _, err := appendFloatSum(nil, text, true, delta); err != nil && err != ErrOverflow {
				t.Fatalf("%q twice: %v", text, err)
			}
		}
	})
}
