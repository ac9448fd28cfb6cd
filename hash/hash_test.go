package hash

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestStringsHashAsTheirBytes(t *testing.T) {
	m := NewMaphash()
	sip := NewSipHash(referenceKey)
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		s := string(b)
		if XXH3(b) != XXH3String(s) || XXHash64(b) != XXHash64String(s) || Murmur3(b) != Murmur3String(s) {
			t.Fatal("a stable function differs between bytes and string")
		}
		if m.Sum(b) != m.SumString(s) || sip.Sum(b) != sip.SumString(s) {
			t.Fatal("a seeded function differs between bytes and string")
		}
		if SlotOf(b) != SlotOfString(s) || SlotOf(b) >= Slots {
			t.Fatal("slots differ between bytes and string, or are out of range")
		}
	})
}

func TestHashesLookAtTheBytesAloneAtEveryLengthAndAlignment(t *testing.T) {
	// Long enough for every path of the functions, which change at 16, 128,
	// 240 and 1024 bytes among others.
	text := make([]byte, 1100)
	for i := range text {
		text[i] = byte(Uint64(uint64(i)).Uint64())
	}
	sip := NewSipHash(referenceKey)
	var m Maphash
	for n := range 1090 {
		at := n % 9
		b, s, moved := text[at:at+n], string(text[at:at+n]), append(make([]byte, 1, n+1), text[at:at+n]...)[1:]
		if XXH3(b) != XXH3String(s) || XXHash64(b) != XXHash64String(s) || Murmur3(b) != Murmur3String(s) ||
			m.Sum(b) != m.SumString(s) || sip.Sum(b) != sip.SumString(s) || SlotOf(b) != SlotOfString(s) {
			t.Fatalf("%d bytes: bytes and string differ", n)
		}
		for _, f := range Functions() {
			if f.KeyBytes == 0 && f.Sum(b) != f.Sum(moved) {
				t.Fatalf("%d bytes: %s depends on the address", n, f.Name)
			}
		}
	}
}

func TestRestoreUndoesUint64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint64().Draw(t, "bits")
		if got := Restore(bits).Uint64(); got != bits {
			t.Fatalf("%#x came back as %#x", bits, got)
		}
	})
}

func TestValuesPrintAs16HexDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint64().Draw(t, "bits")
		want := fmt.Sprintf("%016x", bits)
		for _, v := range []fmt.Stringer{Stable{bits}, Local{bits}, Weak{bits}} {
			if got := fmt.Sprint(v); got != want {
				t.Fatalf("%T of %#x prints as %s", v, bits, got)
			}
		}
	})
}

func TestMaphashesAgreeWhenTheirSeedsDo(t *testing.T) {
	var zero, alsoZero Maphash
	own, other := NewMaphash(), NewMaphash()
	copied := own
	key := []byte("key")
	if zero.Sum(key) != alsoZero.Sum(key) || own.Sum(key) != copied.Sum(key) {
		t.Error("equal seeds, different hashes")
	}
	if own.Sum(key) == other.Sum(key) || own.Sum(key) == zero.Sum(key) {
		t.Error("different seeds, equal hashes (an accident once in 2^63)")
	}
}

func TestEqualValuesAreComparableAlike(t *testing.T) {
	type point struct {
		x int8 // followed by padding, which must not count
		y int64
		s string
	}
	var m Maphash
	negativeZero := math.Copysign(0, -1)
	if Comparable(m, 0.0) != Comparable(m, negativeZero) {
		t.Error("0 and -0 are equal and hash differently")
	}
	if once, again := Comparable(m, math.NaN()), Comparable(m, math.NaN()); once == again {
		t.Error("two NaNs are unequal and hash alike (an accident once in 2^64)")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		p := point{rapid.Int8().Draw(t, "x"), rapid.Int64().Draw(t, "y"), s}
		q := point{p.x, p.y, string([]byte(s))}
		if Comparable(m, p) != Comparable(m, q) || Comparable[any](m, p) != Comparable[any](m, q) {
			t.Fatalf("%v hashes in two ways", p)
		}
	})
}

func TestDerivedValuesDoNotRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Restore(rapid.Uint64().Draw(t, "s"))
		i, j := rapid.Uint64().Draw(t, "i"), rapid.Uint64().Draw(t, "j")
		if (s.Derive(i) == s.Derive(j)) != (i == j) {
			t.Fatal("two indexes give one value")
		}
	})
}

// The joint distribution of a hash and its derivation is uniform exactly if
// each is uniform and neither tells anything about the other.
func TestDerivedValuesAreIndependentOfTheFirst(t *testing.T) {
	for name, sum := range map[string]func(b []byte) uint64{
		"high bits of both":  func(b []byte) uint64 { s := XXH3(b); return s.bits>>59<<5 | s.Derive(1).bits>>59 },
		"low bits of both":   func(b []byte) uint64 { s := XXH3(b); return s.bits&31<<5 | s.Derive(1).bits&31 },
		"two derivations":    func(b []byte) uint64 { s := XXH3(b); return s.Derive(1).bits&31<<5 | s.Derive(2).bits&31 },
		"derivation by key":  func(b []byte) uint64 { return Restore(9).Derive(XXH3(b).bits).bits >> 54 },
		"derivation of zero": func(b []byte) uint64 { s := XXH3(b); return s.Derive(0).bits&31<<5 | s.bits&31 },
	} {
		if r := measure(t, Function{Name: name, Bits: 10, Sum: sum}, MeasureOptions{Samples: 256, KeyBytes: 8, Keys: 16384}); r.Verdict != VerdictGood {
			t.Errorf("%s: %v, want good: %+v", name, r.Verdict, r)
		}
	}
	raw := Function{Name: "small integers", KeyBytes: 8, Sum: func(b []byte) uint64 {
		return Restore(binary.BigEndian.Uint64(b)).Derive(1).bits
	}}
	if r := measure(t, raw, MeasureOptions{}); r.Verdict != VerdictGood {
		t.Errorf("derived from integers that were not hashed: %+v", r)
	}
}

func TestFunctionsAreNamedAndDistinct(t *testing.T) {
	key := sanityBuffer(8)
	names, values := map[string]bool{}, map[uint64]string{}
	for _, f := range Functions() {
		if f.Name == "" || names[f.Name] {
			t.Errorf("name %q is empty or taken", f.Name)
		}
		names[f.Name] = true
		h := f.Sum(key)
		if other := values[h]; other != "" {
			t.Errorf("%s computes the same as %s", f.Name, other)
		}
		values[h] = f.Name
	}
}

func TestCorporaHaveDistinctKeysOfTheirShape(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, c := range Corpora(1) {
		seen := map[string]bool{}
		for i := range uint64(5000) {
			key := string(c.Append(nil, i))
			if seen[key] {
				t.Fatalf("%s: key %d, %q, came before", c.Name, i, key)
			}
			seen[key] = true
			if c.KeyBytes != 0 && len(key) != c.KeyBytes {
				t.Fatalf("%s: key %q has %d bytes, want %d", c.Name, key, len(key), c.KeyBytes)
			}
			if c.Name == "uuid" && !uuid.MatchString(key) {
				t.Fatalf("%q is not a version 4 UUID", key)
			}
			if again := string(c.Append([]byte("x"), i)); again != "x"+key {
				t.Fatalf("%s: key %d is %q, then %q", c.Name, i, key, again)
			}
		}
	}
}
