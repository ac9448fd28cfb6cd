package wal

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

var testSalt = saltOf([16]byte{})

// makeFrame builds a frame as the log does.
func makeFrame(f frameInfo, es ...Entry) []byte {
	size, _ := sumEntryBytes(es)
	b := bytes.Repeat([]byte{0xee}, frameHeader+size) // memory is not clean
	at := frameHeader
	for _, e := range es {
		at += EntryOverhead + len(putEntry(b[at:], e.Group, e.Payload))
	}
	f.bytes, f.count = at, len(es)
	putFrameHeader(b, f, testSalt)
	return b
}

var entriesGen = rapid.SliceOf(rapid.Custom(func(t *rapid.T) Entry {
	return Entry{
		Group:   rapid.Uint64().Draw(t, "group"),
		Payload: rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "payload"),
	}
}))

func TestFrameReadsBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := entriesGen.Draw(t, "entries")
		want := frameInfo{
			sequence: rapid.Uint32().Draw(t, "sequence"), prev: Position(rapid.Uint64().Draw(t, "prev")),
			watermark: Position(rapid.Uint64().Draw(t, "watermark")), kind: kindData, count: len(es),
		}
		b := makeFrame(want, es...)
		got, reason := parseFrame(b, testSalt)
		want.bytes = got.bytes
		if reason != "" || got != want {
			t.Fatalf("%+v reads back as %+v: %s", want, got, reason)
		}
		back := appendEntries(nil, b, got, 7)
		for i := range back {
			if back[i].Pos != 7 || back[i].Group != es[i].Group || !bytes.Equal(back[i].Payload, es[i].Payload) {
				t.Fatalf("entry %d is %+v, want %+v", i, back[i], es[i])
			}
		}
	})
}

func TestAnyChangedByteOfAFrameIsNoticed(t *testing.T) {
	b := makeFrame(frameInfo{sequence: 3, prev: 9, watermark: 8, kind: kindData}, Entry{Group: 1, Payload: []byte("hello")})
	f, _ := parseFrame(b, testSalt)
	if _, reason := parseFrame(b, testSalt+1); reason == "" {
		t.Error("a frame of another store was accepted")
	}
	for i := range f.bytes * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, reason := parseFrame(b, testSalt); reason == "" {
			t.Errorf("bit %d of byte %d was not noticed", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(makeFrame(frameInfo{kind: kindData}, Entry{Group: 1, Payload: []byte("payload")}, Entry{}))
	f.Add(makeFrame(frameInfo{kind: kindClose}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 12 {
			// The checksum would hide everything behind it from the fuzzer.
			fixChecksum(b)
		}
		info, reason := parseFrame(b, testSalt)
		if reason != "" {
			return
		}
		es := appendEntries(nil, b, info, 0)
		if again := makeFrame(info, es...); !bytes.Equal(again[:info.bytes], b[:info.bytes]) {
			t.Fatal("two byte strings mean the same frame")
		}
	})
}

func FuzzHeader(f *testing.F) {
	b := make([]byte, blockBytes)
	putHeader(b, header{id: [16]byte{1}, sequence: 2, prev: 3})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := parseHeader(b, [16]byte{1})
		if !ok || err != nil {
			return
		}
		again := make([]byte, blockBytes)
		putHeader(again, h)
		// The version is fixed here, so the rest of the covered bytes must agree.
		if !bytes.Equal(again[:40], b[:40]) {
			t.Fatal("two byte strings mean the same header")
		}
	})
}

func TestHeaderSaysWhoseAndHowOld(t *testing.T) {
	id := [16]byte{1, 2, 3}
	b := make([]byte, blockBytes)
	want := header{id: id, sequence: 77, prev: makePosition(76, 8192)}
	putHeader(b, want)
	if got, ok, err := parseHeader(b, id); got != want || !ok || err != nil {
		t.Fatalf("read back %+v, %v, %v", got, ok, err)
	}
	if _, ok, err := parseHeader(b, [16]byte{9}); ok || !errors.Is(err, ErrForeign) {
		t.Errorf("another store's header: %v, %v", ok, err)
	}
	for i := range headerBytes {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x40
		if _, ok, err := parseHeader(damaged, id); ok || err != nil {
			t.Errorf("damage at byte %d: ok %v, error %v", i, ok, err)
		}
	}
	b[8]++
	fixHeaderChecksum(b)
	if _, _, err := parseHeader(b, id); !errors.Is(err, ErrVersion) {
		t.Errorf("newer format: %v", err)
	}
}

func TestNamesHoldTheSequence(t *testing.T) {
	for name, want := range map[string]bool{
		"0000002a.wal": true, "ffffffff.wal": true, "0000002A.wal": false, "2a.wal": false,
		"0000002a.new": false, "0000002a": false, "+000002a.wal": false, "LOCK": false,
	} {
		if n, ok := parseSegmentName(name); ok != want || ok && segmentName(n) != name {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

func TestEntriesThatCannotBeOneFrameAreRefused(t *testing.T) {
	if _, err := sumEntryBytes(nil); !errors.Is(err, ErrNoEntries) {
		t.Error(err)
	}
	big := make([]byte, MaxBytes/4) // never touched, so it costs address space only
	es := []Entry{{Payload: big}, {Payload: big}, {Payload: big}, {Payload: big}}
	if _, err := sumEntryBytes(es); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if n, err := sumEntryBytes(es[:3]); n != 3*(len(big)+EntryOverhead) || err != nil {
		t.Error(n, err)
	}
}

func TestDurabilityHasRedisWords(t *testing.T) {
	got := map[string]Durability{}
	for _, s := range []string{"always", "everysec", "no"} {
		d, err := ParseDurability(s)
		if err != nil || d.String() != s {
			t.Errorf("%s: %v, %v", s, d, err)
		}
		got[s] = d
	}
	if !reflect.DeepEqual(got, map[string]Durability{"always": Always, "everysec": EverySec, "no": Never}) {
		t.Error(got)
	}
	if _, err := ParseDurability("sometimes"); err == nil {
		t.Error("an unknown word was accepted")
	}
}
