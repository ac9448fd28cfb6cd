package route

import "math/bits"

// remix draws a fresh hash from x, one for each salt: the two halves of one
// long product folded together. Its input is a good hash already, so it need
// not mix, only be independent; that takes a third of the time of a hash
// function. Placement depends on it: it must never change.
func remix(x, salt uint64) uint64 {
	hi, lo := bits.Mul64(x^salt*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}
