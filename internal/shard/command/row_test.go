package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/effect"
)

func TestRowsAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	for _, test := range []struct {
		row  Row
		want string
	}{
		{Row{Kind: String, Version: 7, Payload: []byte("hi")}, "01" + "00" + "0700000000000000" + "6869"},
		{Row{Kind: String, Version: 1 << 40, ExpiryMS: 1700000000000}, "01" + "01" + "0000000000010000" + "0068e5cf8b010000"},
		{Row{Kind: Hash, Version: 9, Generation: 3, Length: 2}, "02" + "00" + "0900000000000000" + "0300000000000000" + "0200000000000000"},
		{Row{Kind: Hash, Version: 9, ExpiryMS: 1, Generation: 3, Length: 2},
			"02" + "01" + "0900000000000000" + "0100000000000000" + "0300000000000000" + "0200000000000000"},
		{Row{Kind: Element, Version: 3, Payload: []byte("v")}, "10" + "00" + "0300000000000000" + "76"},
		{Row{Kind: Chunked, Version: 9, Generation: 3, Length: 70000}, "06" + "00" + "0900000000000000" + "0300000000000000" + "7011010000000000"},
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
	return same && a.Kind == b.Kind && a.Version == b.Version && a.ExpiryMS == b.ExpiryMS && a.Generation == b.Generation && a.Length == b.Length
}

func TestStoreKeysAreStable(t *testing.T) {
	l := newTestEnv(t)
	l.env.Do(parseCommand(`hset k f v`))
	l.env.Do(parseCommand(`pexpire k 50`))
	l.env.Do(parseCommand(`del k`))
	l.env.Do(parseCommand(`set k v px 50`))
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
		"intent and expiry": edit(1, flagIntent|flagExpiry), "hash without fields": edit(0, byte(Hash)),
		"chunks of no length": edit(0, byte(Chunked)), "chunks beyond the limit": (&Row{Kind: Chunked, Version: 1, Length: MaxValueBytes + 1}).appendHead(nil), "element that expires": element,
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
		if row.IsAlive(now) != want {
			t.Errorf("at %d: alive %v, want %v", now, row.IsAlive(now), want)
		}
	}
	if _, err := ReadStringValue(newMemoryStore(), positionOf("k"), &Row{Kind: Hash}); err != ErrWrongType {
		t.Errorf("a hash as text: %v", err)
	}
}

func FuzzDecodeRowTakesExactlyWhatIsWritten(f *testing.F) {
	f.Add((&Row{Kind: String, Version: 1, ExpiryMS: 5}).appendHead(nil))
	f.Add((&Row{Kind: Hash, Version: 1, Generation: 1, Length: 1}).appendHead(nil))
	f.Add((&Row{Kind: Element, Version: 1}).appendHead(nil))
	f.Add((&Row{Kind: Chunked, Version: 1, Generation: 1, Length: 70000}).appendHead(nil))
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
			if sum, err := addInteger(text, true, 0); err != nil || sum != n {
				t.Fatalf("%q + 0 = %d, %v", text, sum, err)
			}
		}
		want, err := addIntegers(string(text), 0)
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

// everyRead names each command that reads a key or its fields.
const everyRead = `set k v get|get k|del k|exists k|type k|incrby k 1|incrbyfloat k 1|append k x|strlen k|getrange k 0 1|setrange k 0 x|` +
	`pexpire k 5|persist k|pttl k|set k v|` + everyFieldRead + `|hlen k`

const everyFieldRead = `hset k f v|hget k f|hmget k f|hdel k f|hgetall k|hexists k f|hstrlen k f|hincrby k f 1|hincrbyfloat k f 1`

func TestABrokenReaderFailsTheCommandWhichLeavesNothing(t *testing.T) {
	broken := errors.New("the disk is gone")
	for line := range strings.SplitSeq(everyRead, "|") {
		e := NewEnv(failingReader{broken})
		if r := e.Do(parseCommand(line)); !errors.Is(r.Err, broken) || e.Effects().Len() != 0 {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for _, c := range []Command{
		&Range{Limit: 1}, &Reap{Key: positionOf("k")}, &Sweep{Key: positionOf("k"), Limit: 1}, &HScan{Key: positionOf("k"), Limit: 1},
		&Commit{Reads: []Read{{Key: positionOf("k")}}}, &Commit{Ranges: []RangeRead{{}}},
	} {
		if r := NewEnv(failingReader{broken}).Do(c); !errors.Is(r.Err, broken) {
			t.Errorf("%T: %+v", c, r)
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Get([]byte, []byte) ([]byte, bool, error) { return nil, false, f.err }

func (f failingReader) Scan([]byte, []byte, bool, func(key, value []byte) bool) error { return f.err }

func TestADamagedRowFailsTheCommandWhichLeavesNothing(t *testing.T) {
	own := string(effect.Rows.AppendKey(nil, positionOf("k")))
	element := own + string(rune(fieldTag)) + "f"
	for line := range strings.SplitSeq(everyRead, "|") {
		checkDamage(t, own, parseCommand(line))
	}
	for line := range strings.SplitSeq(everyFieldRead, "|") {
		checkDamage(t, element, parseCommand(line))
	}
	for _, c := range []Command{
		&Range{Limit: 9}, &Commit{Ranges: []RangeRead{{}}}, &Sweep{Key: positionOf("k"), Limit: 9}, &HScan{Key: positionOf("k"), Limit: 9},
	} {
		checkDamage(t, element, c)
	}
}

func checkDamage(t *testing.T, key string, c Command) {
	t.Helper()
	l := newTestEnv(t)
	l.doLines("hset k f old", "del k", "hset k f 1") // so that there is something to sweep
	l.commit()
	if _, ok := l.store.rows[key]; !ok {
		t.Fatalf("no row at %q", key)
	}
	l.store.rows[key] = "damaged"
	if r := l.env.Do(c); !errors.Is(r.Err, ErrRow) || l.env.Effects().Len() != 0 {
		t.Errorf("%s with damage at %q: %+v", formatCommand(c), key, r)
	}
}

func TestAnExpiryOfAnotherLengthIsRefused(t *testing.T) {
	if _, err := DecodeExpiry(make([]byte, 7)); !errors.Is(err, ErrRow) {
		t.Errorf("got %v", err)
	}
}

func TestALargeBatchLeavesNoLargeMemoryBehind(t *testing.T) {
	l := newTestEnv(t)
	for i := range maxRetainedSlots {
		l.env.putRow(fmt.Appendf(nil, "%d", i), nil, nil)
	}
	l.env.Do(&Set{Key: positionOf("k"), Value: make([]byte, maxRetainedBytes+1)})
	l.doLines("append k x", "get k")
	l.commit()
	if len(l.env.overlay.slots) > maxRetainedSlots || cap(l.env.arena) > maxRetainedBytes || cap(l.env.valueBuf) > maxRetainedBytes {
		t.Errorf("kept %d slots, %d and %d bytes", len(l.env.overlay.slots), cap(l.env.arena), cap(l.env.valueBuf))
	}
	if got := formatReply(l.doLines("strlen k")); got != fmt.Sprint(maxRetainedBytes+2) {
		t.Errorf("length %s", got)
	}
}
