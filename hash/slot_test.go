package hash

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowCRC16 is the definition: one bit at a time.
func slowCRC16(b []byte) uint16 {
	var crc uint16
	for _, c := range b {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

func TestCRC16HasThePublishedCheckValue(t *testing.T) {
	if got := crc16([]byte("123456789")); got != 0x31C3 {
		t.Errorf("got %#x, want 0x31C3", got)
	}
}

func TestCRC16IsItsBitwiseDefinitionAtEveryLength(t *testing.T) {
	for n := range 70 {
		b := sanityBuffer(n)
		if got, want := crc16(b), slowCRC16(b); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		if got, want := crc16(b), slowCRC16(b); got != want {
			t.Fatalf("% x: %#x, want %#x", b, got, want)
		}
	})
}

// The slots are what CLUSTER KEYSLOT answers; the tags are the examples of the
// Redis Cluster specification.
func TestSlotsAndTagsAreThoseOfRedisCluster(t *testing.T) {
	for _, v := range []struct {
		key, tag string
		slot     Slot
	}{
		{"", "", 0},
		{"123456789", "123456789", 0x31C3},
		{"foo", "foo", 12182},
		{"bar", "bar", 5061},
		{"hello", "hello", 866},
		{"somekey", "somekey", 11058},
		{"foo{hash_tag}", "hash_tag", 2515},
		{"{user1000}.following", "user1000", 3443},
		{"{user1000}.followers", "user1000", 3443},
		{"foo{}{bar}", "foo{}{bar}", 8363},
		{"foo{{bar}}zap", "{bar", 4015},
		{"foo{bar}{zap}", "bar", 5061},
		{"foo{bar", "foo{bar", 15278},
		{"}foo{bar}", "bar", 5061},
		{"foo}bar", "foo}bar", 7223},
		{"{}", "{}", 15257},
	} {
		if got := string(HashTag([]byte(v.key))); got != v.tag {
			t.Errorf("HashTag(%q) = %q, want %q", v.key, got, v.tag)
		}
		if got := HashTagString(v.key); got != v.tag {
			t.Errorf("HashTagString(%q) = %q, want %q", v.key, got, v.tag)
		}
		if got := SlotOf([]byte(v.key)); got != v.slot {
			t.Errorf("SlotOf(%q) = %d, want %d", v.key, got, v.slot)
		}
		if got := SlotOfString(v.key); got != v.slot {
			t.Errorf("SlotOfString(%q) = %d, want %d", v.key, got, v.slot)
		}
	}
}

func TestKeysOfOneTagShareASlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringMatching(`[^{]*`).Draw(t, "before")
		tag := rapid.StringMatching(`[^}]+`).Draw(t, "tag")
		after := rapid.String().Draw(t, "after")
		if got, want := SlotOfString(before+"{"+tag+"}"+after), Slot(slowCRC16([]byte(tag))%Slots); got != want {
			t.Fatalf("slot %d, want %d, the tag's own", got, want)
		}
	})
}

// FuzzHashTag holds HashTag against the rule as the specification words it.
func FuzzHashTag(f *testing.F) {
	for _, s := range []string{"", "{", "}", "{}", "a{b}c", "{{}}", "}{", "{a}{b}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		want := key
		if _, rest, ok := strings.Cut(key, "{"); ok {
			if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
				want = tag
			}
		}
		if got := HashTagString(key); got != want {
			t.Errorf("HashTag(%q) = %q, want %q", key, got, want)
		}
	})
}

func TestSlotOfAllocatesNothing(t *testing.T) {
	key := "{user1000}.following"
	if n := testing.AllocsPerRun(100, func() { sink += uint64(SlotOfString(key)) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
