package runs

import (
	"cmp"
	"encoding/binary"
)

// entry stands for an operation in a sorted run: where it is, and a piece of
// its key.
type entry struct {
	words
	op uint32
}

// words are a piece of a key as three numbers that are ordered as the pieces are.
type words struct{ high, mid, low uint64 }

// pieceBytes is how much of a key words hold.
const pieceBytes = 23

// goesOn is the last byte of words whose key does not end in them.
const goesOn = pieceBytes + 1

// wordsOf returns the piece of key that begins at depth: as many bytes, padded
// with zeros, before one that says how many of them the key really has, or that
// it goes on. So words are ordered as their keys are, from depth on, and two equal
// ones that do not go on are equal keys.
func wordsOf(key []byte, depth int) words {
	rest := key[depth:]
	if len(rest) > pieceBytes {
		return words{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), binary.BigEndian.Uint64(rest[16:])&^0xff | goesOn}
	}
	var b [pieceBytes + 1]byte
	copy(b[:], rest)
	b[pieceBytes] = byte(len(rest))
	return words{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
}

func (w words) end() bool { return w.low&0xff != goesOn }

func (w words) compare(v words) int {
	if w.high != v.high {
		return cmp.Compare(w.high, v.high)
	}
	if w.mid != v.mid {
		return cmp.Compare(w.mid, v.mid)
	}
	return cmp.Compare(w.low, v.low)
}

// sharedPrefix returns how many bytes a and b begin with in common, up to most.
func sharedPrefix(a, b []byte, most int) int {
	n := min(len(a), len(b), most)
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
