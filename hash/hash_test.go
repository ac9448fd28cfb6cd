package hash

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"regexp"
	"testing"

	"github.com/twmb/murmur3"
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
// each is uniform and neither reveals anything about the other.
func TestDerivedValuesAreIndependentOfTheFirst(t *testing.T) {
	for name, sum := range map[string]func(b []byte) uint64{
		"high bits of both":  func(b []byte) uint64 { s := XXH3(b); return s.bits>>59<<5 | s.Derive(1).bits>>59 },
		"low bits of both":   func(b []byte) uint64 { s := XXH3(b); return s.bits&31<<5 | s.Derive(1).bits&31 },
		"two derivations":    func(b []byte) uint64 { s := XXH3(b); return s.Derive(1).bits&31<<5 | s.Derive(2).bits&31 },
		"derivation by key":  func(b []byte) uint64 { return Restore(9).Derive(XXH3(b).bits).bits >> 54 },
		"derivation of zero": func(b []byte) uint64 { s := XXH3(b); return s.Derive(0).bits&31<<5 | s.bits&31 },
	} {
		if r := mustMeasure(t, Function{Name: name, Bits: 10, Sum: sum}, MeasureOptions{Samples: 256, KeyBytes: 8, Keys: 16384}); r.Verdict != VerdictGood {
			t.Errorf("%s: %v, want good: %+v", name, r.Verdict, r)
		}
	}
	raw := Function{Name: "small integers", KeyBytes: 8, Sum: func(b []byte) uint64 {
		return Restore(binary.BigEndian.Uint64(b)).Derive(1).bits
	}}
	if r := mustMeasure(t, raw, MeasureOptions{}); r.Verdict != VerdictGood {
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

// sanityBuffer makes the input of xxHash's own sanity checks.
func sanityBuffer(n int) []byte {
	b := make([]byte, n)
	gen := uint64(2654435761)
	for i := range b {
		b[i] = byte(gen >> 56)
		gen *= 11400714785074694797
	}
	return b
}

type lengthVector struct {
	n    int
	want uint64
}

// The lengths reach each of XXH3's code paths: 0, 1-3, 4-8, 9-16, 17-128,
// 129-240, one block, several blocks, a last stripe that overlaps.
var xxh3Vectors = []lengthVector{
	{0, 0x2D06800538D394C2}, {1, 0xC44BDFF4074EECDB}, {6, 0x27B56A84CD2D7325}, {12, 0xA713DAF0DFBB77E7},
	{24, 0xA3FE70BF9D3510EB}, {48, 0x397DA259ECBA1F11}, {80, 0xBCDEFBBB2C47C90A}, {195, 0xCD94217EE362EC3A},
	{403, 0xCDEB804D65C6DEA4}, {512, 0x617E49599013CB6B}, {2048, 0xDD59E2C3A5F038E0}, {2099, 0xC6B9D9B3FC9AC765},
	{2240, 0x6E73A90539CF2948}, {2367, 0xCB37AEB9E5D361ED},
}

var xxh64Vectors = []lengthVector{
	{0, 0xEF46DB3751D8E999}, {1, 0xE934A84ADB052768}, {4, 0x9136A0DCA57457EE}, {14, 0x8282DCC4994E35C8}, {222, 0xB641AE8CB691C174},
}

func TestXXHashesGiveTheirPublishedSanityValues(t *testing.T) {
	for _, f := range []struct {
		name    string
		sum     func([]byte) Stable
		str     func(string) Stable
		vectors []lengthVector
	}{
		{"XXH3", XXH3, XXH3String, xxh3Vectors},
		{"XXHash64", XXHash64, XXHash64String, xxh64Vectors},
	} {
		for _, v := range f.vectors {
			b := sanityBuffer(v.n)
			if got := f.sum(b).Uint64(); got != v.want {
				t.Errorf("%s of %d bytes = %#x, want %#x", f.name, v.n, got, v.want)
			}
			if got := f.str(string(b)).Uint64(); got != v.want {
				t.Errorf("%sString of %d bytes = %#x, want %#x", f.name, v.n, got, v.want)
			}
		}
	}
}

// SMHasher's procedure: hash the keys (), (0), (0 1), … with seeds 256, 255, …
// then the hashes themselves; the first four bytes identify the function.
func TestMurmur3HasTheSMHasherVerificationValue(t *testing.T) {
	sum := func(seed uint64, b []byte) []byte {
		h1, h2 := murmur3.SeedSum128(seed, seed, b)
		if seed == 0 {
			h1 = Murmur3(b).Uint64()
		}
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, h1), h2)
	}
	var key, hashes []byte
	for i := range 256 {
		hashes = append(hashes, sum(uint64(256-i), key)...)
		if a, b := Murmur3(key), Murmur3String(string(key)); a != b {
			t.Fatalf("%d bytes: %v as bytes, %v as a string", i, a, b)
		}
		if h1, _ := murmur3.SeedSum128(0, 0, key); Murmur3(key).Uint64() != h1 {
			t.Fatalf("%d bytes: not the first half of the seedless 128-bit hash", i)
		}
		key = append(key, byte(i))
	}
	if got := binary.LittleEndian.Uint32(sum(0, hashes)); got != 0x6384BA69 {
		t.Errorf("verification value %#x, want 0x6384BA69", got)
	}
}

// The generator's published outputs for two seeds: each output is the hash of
// the state before it, and the state grows by the golden gamma.
func TestUint64GivesTheOutputsOfSplitMix64(t *testing.T) {
	for _, v := range []struct {
		seed uint64
		want []uint64
	}{
		{0, []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f}},
		{1234567, []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}},
	} {
		for i, want := range v.want {
			if got := Uint64(v.seed + uint64(i)*0x9e3779b97f4a7c15).Uint64(); got != want {
				t.Errorf("seed %d output %d = %#x, want %#x", v.seed, i, got, want)
			}
		}
	}
}

// sipVectors are the reference implementation's: key 00 01 … 0f, message
// 00 01 … of 0 to 63 bytes.
var sipVectors = [64]uint64{
	0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
	0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
	0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
	0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
	0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
	0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
	0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
	0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
	0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
	0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
	0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
	0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
	0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
	0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
}

func TestSipHashGivesItsReferenceVectors(t *testing.T) {
	h := NewSipHash(referenceKey)
	var msg []byte
	for i, want := range sipVectors {
		if got := h.Sum(msg).Uint64(); got != want {
			t.Errorf("%d bytes: %#x, want %#x", i, got, want)
		}
		if got := h.SumString(string(msg)).Uint64(); got != want {
			t.Errorf("string of %d bytes: %#x, want %#x", i, got, want)
		}
		msg = append(msg, byte(i))
	}
}

func TestFNV1aGivesItsPublishedValues(t *testing.T) {
	for in, want := range map[string]uint64{
		"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "b": 0xaf63df4c8601f1a5, "foobar": 0x85944171f73967e8,
	} {
		if got := FNV1a([]byte(in)).Uint64(); got != want {
			t.Errorf("%q = %#x, want %#x", in, got, want)
		}
	}
	std := fnv.New64a()
	for n := range 100 {
		b := sanityBuffer(n)
		std.Reset()
		std.Write(b)
		if got, want := FNV1a(b).Uint64(), std.Sum64(); got != want {
			t.Errorf("%d bytes = %#x, the standard library has %#x", n, got, want)
		}
	}
}

// Fx has no published vectors: these follow from its definition by hand. One
// word hashes to itself times the constant; a zero word leaves zero.
func TestFxFollowsItsDefinition(t *testing.T) {
	k := uint64(0x517cc1b727220a95)
	for _, v := range []struct {
		in   []byte
		want uint64
	}{
		{nil, 0},
		{make([]byte, 24), 0},
		{[]byte{1}, k},
		{[]byte{1, 0, 0, 0, 0, 0, 0, 0}, k},
		{[]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 1 << 63},
		{[]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0}, bits.RotateLeft64(2*k, 5) * k},
	} {
		if got := Fx(v.in).Uint64(); got != v.want {
			t.Errorf("% x = %#x, want %#x", v.in, got, v.want)
		}
	}
}

var sink uint64

// Run with: go test -run '^$' -bench Sum ./hash
func BenchmarkSum(b *testing.B) {
	for _, f := range Functions() {
		for _, n := range []int{8, 16, 32, 64, 256, 4096} {
			if f.KeyBytes != 0 && f.KeyBytes != n {
				continue
			}
			key := sanityBuffer(n)
			for i := range key {
				key[i] |= 0x80 // no byte is '{': the slot's whole key is hashed
			}
			b.Run(fmt.Sprintf("impl=%s/len=%d", f.Name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sink += f.Sum(key)
				}
			})
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	h := XXH3String("key")
	for b.Loop() {
		h = h.Derive(1)
	}
	sink += h.Uint64()
}

func BenchmarkComparable(b *testing.B) {
	var m Maphash
	b.Run("key=uint64", func(b *testing.B) {
		for b.Loop() {
			sink += Comparable(m, sink).Uint64()
		}
	})
	b.Run("key=string", func(b *testing.B) {
		for b.Loop() {
			sink += Comparable(m, "a key of sixteen").Uint64()
		}
	})
}
