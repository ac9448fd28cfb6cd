package hash

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"testing"

	"github.com/twmb/murmur3"
)

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
