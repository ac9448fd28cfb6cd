package hash

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// Slots is the number of slots of a Redis Cluster, and of Cleave's default
// keyspace.
const Slots = 16384

// Slot is a logical bucket of a hash keyspace, below [Slots]. It is stable:
// every Redis Cluster client computes the same one.
type Slot uint16

// SlotOf returns the slot of key: CRC16/XMODEM of its [HashTag], modulo Slots.
//
// CRC16 is linear, so it spreads keys well over slots but is no mixer: two
// keys' slots differ by a fixed pattern when the keys do. Do not build other
// placement on it.
func SlotOf(key []byte) Slot { return Slot(crc16(HashTag(key)) % Slots) }

// SlotOfString is [SlotOf] of a string, without a copy.
func SlotOfString(key string) Slot { return SlotOf(bytesOf(key)) }

// HashTag returns the part of key that decides its slot: what stands between
// the first '{' and the first '}' after it, or all of key if either is missing
// or nothing stands between them. The result aliases key.
func HashTag(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	n := bytes.IndexByte(key[open+1:], '}')
	if n <= 0 {
		return key
	}
	return key[open+1 : open+1+n]
}

// HashTagString is [HashTag] of a string.
func HashTagString(key string) string {
	tag := HashTag(bytesOf(key))
	return unsafe.String(unsafe.SliceData(tag), len(tag))
}

// bytesOf views a string as bytes, which must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// crcTables[k][b] is the CRC of byte b followed by k zero bytes. CRC is
// linear, so the CRC of eight bytes is the XOR of eight independent lookups.
// The tables take 4 KiB; twice as many were no faster on 16-byte keys.
var crcTables = makeCRCTables()

func makeCRCTables() *[8][256]uint16 {
	const polynomial = 0x1021 // x^16 + x^12 + x^5 + 1, XMODEM: initial value 0, not reflected
	var t [8][256]uint16
	for b := range t[0] {
		crc := uint16(b) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*polynomial
		}
		t[0][b] = crc
	}
	for k := 1; k < len(t); k++ {
		for b := range t[k] {
			prev := t[k-1][b]
			t[k][b] = prev<<8 ^ t[0][prev>>8]
		}
	}
	return &t
}

func crc16(b []byte) uint16 {
	if len(b) == 0 {
		return 0
	}
	// Leading zeros do not change a CRC whose initial value is 0. So the odd
	// bytes come first, padded to a word, and the rest is whole words: no
	// byte-by-byte tail, whose lookups would wait for one another.
	n := (len(b)-1)&7 + 1
	w := loadHead(b, n)
	t := crcTables
	var crc uint16
	for {
		// Only the first two bytes of a word meet the CRC so far; the other
		// six lookups need not wait for the word before.
		first := uint16(w>>48) ^ crc
		crc = (t[0][byte(w)] ^ t[1][byte(w>>8)] ^ t[2][byte(w>>16)]) ^ (t[3][byte(w>>24)] ^
			t[4][byte(w>>32)] ^ t[5][byte(w>>40)]) ^ (t[6][byte(first)] ^ t[7][first>>8])
		b = b[n:]
		if len(b) < 8 {
			return crc
		}
		n, w = 8, binary.BigEndian.Uint64(b)
	}
}

// loadHead returns the first n bytes of b, 1 to 8, as a big-endian integer.
func loadHead(b []byte, n int) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b) >> (64 - 8*n)
	}
	var w uint64
	for _, c := range b {
		w = w<<8 | uint64(c)
	}
	return w
}
