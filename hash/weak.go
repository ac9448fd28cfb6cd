package hash

import (
	"encoding/binary"
	"math/bits"
)

// FNV1a returns the 64-bit FNV-1a hash of b. It is simple and it is slow, one
// dependent multiplication a byte; and the last byte is multiplied only once,
// by a constant of few bits, so it leaves most of the result as it was.
func FNV1a(b []byte) Weak {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return Weak{h}
}

// Fx returns the hash that rustc used for its own tables (rustc-hash 1.x, on
// a 64-bit little-endian machine): one rotation and one multiplication a word.
// A bit of the result depends on no higher bit of the last word, so keys that
// differ only up there collide under a mask.
func Fx(b []byte) Weak {
	var h uint64
	for ; len(b) >= 8; b = b[8:] {
		h = fxWord(h, binary.LittleEndian.Uint64(b))
	}
	if len(b) >= 4 {
		h = fxWord(h, uint64(binary.LittleEndian.Uint32(b)))
		b = b[4:]
	}
	if len(b) >= 2 {
		h = fxWord(h, uint64(binary.LittleEndian.Uint16(b)))
		b = b[2:]
	}
	if len(b) == 1 {
		h = fxWord(h, uint64(b[0]))
	}
	return Weak{h}
}

func fxWord(h, word uint64) uint64 {
	return (bits.RotateLeft64(h, 5) ^ word) * 0x517cc1b727220a95
}
