package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

// goldenMap has everything that a map can have.
func goldenMap() *Map {
	m := must(NewMap([]Group{{Labels: mustLabels("store=1,zone=eu")}, {}}, &testHash, testHash.SlotSpan(8).Start))
	m = must(m.Apply(
		Split{Shard: 2, In: &testRange, At: []Position{testRange.AppendPosition(nil, []byte("mary")), testRange.AppendPosition(nil, []byte("max"))}},
		AddGroup{ID: 300, Labels: mustLabels("zone=us")},
		SetDraining{2, true}))
	return must(m.Apply(
		Pin{Shard: 4, To: mustConstraint("zone=us|eu")},
		Pin{Shard: 1, To: mustConstraint("zone=eu")},
		Assign{Shard: 4, To: 300}))
}

func TestMapsAreStable(t *testing.T) {
	// These bytes are on disks: they never change.
	want := strings.Join([]string{
		"01", "03", "05", "ad02", // format, version 3, next s5, next g301
		"03", "01 00 0f73746f72653d312c7a6f6e653d6575", "02 01 00", "ac02 00 077a6f6e653d7573", // groups
		"02", "077a6f6e653d6575", "0a7a6f6e653d65757c7573", // pins
		"04", "01 01 02 01 00 00", "02 02 01 00 00 03010008", // shards
		"03 02 01 00 00 07056d6172790001", "04 ac02 00 02 03 03780001",
		"41199b85",
	}, " ")
	want = strings.ReplaceAll(want, " ", "")
	b := goldenMap().Append(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("the map is\n%s, want\n%s", got, want)
	}
	if m, err := Decode(b); err != nil || !bytes.Equal(m.Append([]byte("x"))[1:], b) {
		t.Errorf("it is read as %v, %v", m, err)
	}
}

func TestDamagedMapsAreRefused(t *testing.T) {
	good := goldenMap().Append(nil)
	for i := range good {
		for _, flip := range []byte{1, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			if _, err := Decode(bad); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("byte %d flipped by %x: %v", i, flip, err)
			}
		}
		if _, err := Decode(good[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
	good[0]++
	if _, err := Decode(good); !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "format 2, this program reads 1") {
		t.Errorf("a newer format: %v", err)
	}
}

// Maps that were written wrongly, with a right checksum.
func TestMapsThatDoNotHoldTogetherAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*Map){
		"no version": func(m *Map) { m.version, m.shards[0].Changed = 0, 0; m.shards, m.tiling = m.shards[:1], newTiling() },
		"does not start with": func(m *Map) {
			m.tiling = &tiling{ends: []uint32{0}}
			m.tiling.addStart([]byte("a"))
			m.shards = m.shards[:1]
		},
		"first of 0":                  func(m *Map) { m.tiling, m.shards = &tiling{ends: []uint32{0}}, nil },
		"the one behind it":           func(m *Map) { m.tiling = m.tiling.withStarts(2, 3, []byte{0xff}) },
		"the one behind it at begin":  func(m *Map) { m.tiling = m.tiling.withStarts(1, 2, nil) },
		"is there twice":              func(m *Map) { m.shards[1].Shard = 1 },
		"shard 9 is not an id below":  func(m *Map) { m.shards[1].Shard = 9 },
		"shard 0 is not an id":        func(m *Map) { m.shards[1].Shard = 0 },
		"group 7, which is not there": func(m *Map) { m.shards[1].Group = 7 },
		"changed at version 0":        func(m *Map) { m.shards[1].Changed = 0 },
		"14 of 3":                     func(m *Map) { m.shards[1].Changed = ^Version(0) - 1 }, // 5 versions before 3
		"has pin 3 of 2":              func(m *Map) { m.shards[1].pin = 3 },
		"has pin 2 of 2":              func(m *Map) { m.shards[0].pin = 2 },
		"pins are in use":             func(m *Map) { m.pins = append(m.pins, mustConstraint("a=b")) },
		"group 2 is not an id above":  func(m *Map) { m.groups[0].ID = 2 },
		"and below group 299":         func(m *Map) { m.nextGroup = 299 },
		"bad labels":                  func(m *Map) { m.groups[0].Labels.text = "zone" },
		"it would be written":         func(m *Map) { m.groups[0].Labels.text = "zone=eu,store=1" },
		"of 33800 bytes":              func(m *Map) { m.tiling = m.tiling.withStarts(3, 4, bytes.Repeat([]byte{9}, 33800)) },
		"out of bounds":               func(m *Map) { m.nextShard = maxNumber + 1 },
	} {
		m := goldenMap()
		spoil(m)
		if _, err := Decode(m.Append(nil)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an ErrDamaged with %q", err, want)
		}
	}
}

// A few bytes must not take much memory: each boundary shares a long prefix
// with the one before.
func TestAMapOfFewBytesTakesLittleMemory(t *testing.T) {
	b := []byte{mapFormat, 1}
	b = appendNumber(b, 1<<40)              // next shard
	b = append(b, 2, 1, 1, 0, 0, 0)         // next group, one group, no pins
	b = appendNumber(b, 5000)               // shards
	b = append(b, 1, 1, 0, 0, 0, 0)         // the first
	b = append(b, 2, 1, 0, 0, 0)            // the second,
	b = appendNumber(b, MaxBoundaryBytes/2) // of many bytes
	b = append(b, make([]byte, MaxBoundaryBytes/2)...)
	for i := range 4998 {
		b = appendNumber(b, 3+i)
		b = append(b, 1, 0, 0)
		b = appendNumber(b, MaxBoundaryBytes/2)
		b = append(b, 2, byte(i>>8), byte(i))
	}
	b = appendChecksum(b)
	if _, err := Decode(b); !errors.Is(err, ErrLimit) {
		t.Errorf("%d bytes for %d: %v", len(b), 5000*MaxBoundaryBytes/2, err)
	}
}

// appendChecksum appends the right checksum.
func appendChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func FuzzDecodeTakesNoBytesForAMapThatItWouldNotWrite(f *testing.F) {
	good := goldenMap().Append(nil)
	f.Add(good[:len(good)-checksumBytes])
	one := must(NewMap([]Group{{}}, nil)).Append(nil)
	f.Add(one[:len(one)-checksumBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = appendChecksum(bytes.Clone(b))
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("%v is no error of a decoder", err)
			}
			return
		}
		if !bytes.Equal(m.Append(nil), b) {
			t.Fatalf("%x is written as %x", b, m.Append(nil))
		}
		for i := range m.Len() {
			if got := m.tiling.find(m.tiling.startOf(i)); got != i {
				t.Fatalf("the start of shard %d is found in %d", i, got)
			}
		}
		var p Published
		if !p.Offer(m) || p.Offer(m) || p.Load() != m {
			t.Fatal("a decoded map is not published once")
		}
	})
}
