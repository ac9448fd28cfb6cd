package runs

import "encoding/binary"

// entry stands for an operation in a sorted run: where it is, and a piece of
// its key.
type entry struct {
	word uint64
	op   uint32
}

// pieceBytes is how much of a key a word holds.
const pieceBytes = 7

// goesOn is the last byte of a word whose key does not end in it.
const goesOn = pieceBytes + 1

// wordOf returns the piece of key that begins at depth: seven bytes, padded with
// zeros, above one that says how many of them the key really has, or that it goes
// on. So words are ordered as their keys are, from depth on, and two equal words
// that do not go on are equal keys.
func wordOf(key []byte, depth int) uint64 {
	rest := key[depth:]
	if len(rest) > pieceBytes {
		return binary.BigEndian.Uint64(rest)&^0xff | goesOn
	}
	w := uint64(len(rest))
	for i, c := range rest {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

func endsIn(word uint64) bool { return word&0xff != goesOn }

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
