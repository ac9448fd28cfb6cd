package rows

// index finds a row's place by its key's hash: open addressing with linear
// probing over words of 32 bits of hash above 32 bits of place. The hash in the
// word tells strangers apart without touching their rows, and says where a word
// belongs, so that growing and removing touch no row either.
// Invariant: between a word's home and the word there is no empty slot.
type index struct {
	words []uint64 // 0 is empty; the length is a power of two
	shift uint     // home = hash >> shift
	count int
}

const (
	leastWords = 64
	// indexBytes is the most index that one row needs, with a quarter of the
	// words in use.
	indexBytes = 32
)

func wordOf(hash uint32, place uint32) uint64 { return uint64(hash)<<32 | uint64(place) }

func (x *index) resize(size int) {
	old := x.words
	x.words = make([]uint64, size)
	x.shift = 33
	for s := size; s > 0; s >>= 1 {
		x.shift--
	}
	for _, w := range old {
		if w != 0 {
			x.place(w)
		}
	}
}

func (x *index) home(hash uint32) int { return int(hash >> x.shift) }

// place puts a word into the first empty slot from its home on.
func (x *index) place(w uint64) {
	mask := len(x.words) - 1
	for i := x.home(uint32(w >> 32)); ; i = (i + 1) & mask {
		if x.words[i] == 0 {
			x.words[i] = w
			return
		}
	}
}

// insert adds a word that is not there yet. Beyond three quarters the
// probes for absent keys get long, so the index doubles.
func (x *index) insert(w uint64) {
	if (x.count+1)*4 > len(x.words)*3 {
		x.resize(len(x.words) * 2)
	}
	x.count++
	x.place(w)
}

// slot returns where the exact word lies. It is there.
func (x *index) slot(w uint64) int {
	mask := len(x.words) - 1
	i := x.home(uint32(w >> 32))
	for x.words[i] != w {
		i = (i + 1) & mask
	}
	return i
}

// remove empties a slot and moves later words of the same chain back, so that
// no marker is needed for what was removed.
func (x *index) remove(i int) {
	mask := len(x.words) - 1
	for j := (i + 1) & mask; x.words[j] != 0; j = (j + 1) & mask {
		home := x.home(uint32(x.words[j] >> 32))
		// The word may move back to i only if i is not before its home.
		if (j-home)&mask >= (j-i)&mask {
			x.words[i] = x.words[j]
			i = j
		}
	}
	x.words[i] = 0
	x.count--
}

// shrink gives memory back after most rows have gone: below a quarter, which
// leaves room to grow again without a resize at every turn.
func (x *index) shrink() {
	size := len(x.words)
	for size > leastWords && x.count*4 < size {
		size /= 2
	}
	if size < len(x.words) {
		x.resize(size)
	}
}

func (x *index) bytes() int { return len(x.words) * 8 }
