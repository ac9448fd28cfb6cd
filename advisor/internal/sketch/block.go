package sketch

// BlockRows is how many values a Block counts at most. Its table then takes 256 KiB, which stay in
// the second-level cache.
const BlockRows = 8192

// maxFrequent is how many values of a block are handed on as frequent. What is left out has come at
// most once in 1024 rows of the block.
const maxFrequent = 1024

// Block counts the values of a short part of a stream exactly. Several goroutines count parts of
// their own with it, and hand the counts on to the sketches of the whole stream.
type Block struct {
	slots []blockSlot
	used  []uint32 // the slots that are taken, in the order in which they were
}

type blockSlot struct {
	hash  uint64
	count uint32
	ref   uint32
}

// Counted is a value with how often it came. Ref is what Add was told of its first occurrence.
type Counted struct {
	Hash  uint64
	Count uint32
	Ref   uint32
}

// NewBlock returns a block that has counted nothing.
func NewBlock() *Block {
	return &Block{slots: make([]blockSlot, 2*BlockRows), used: make([]uint32, 0, BlockRows)}
}

// Add counts a value by its hash, and reports whether it is the first of its kind. It is called at
// most BlockRows times between two calls of Reset.
func (b *Block) Add(hash uint64, ref uint32) bool {
	mask := uint64(len(b.slots) - 1)
	i := hash >> 40 & mask
	for {
		s := &b.slots[i]
		if s.count == 0 {
			*s = blockSlot{hash, 1, ref}
			b.used = append(b.used, uint32(i))
			return true
		}
		if s.hash == hash {
			s.count++
			return false
		}
		i = (i + 1) & mask
	}
}

// Values hands each value to yield, in the order of first occurrence.
func (b *Block) Values(yield func(Counted) bool) {
	for _, i := range b.used {
		s := &b.slots[i]
		if !yield(Counted{s.hash, s.count, s.ref}) {
			return
		}
	}
}

// Reduce appends the most frequent values to dst, in the order of first occurrence, and returns how
// often each of the others came at most.
func (b *Block) Reduce(dst []Counted) (frequent []Counted, missed uint32) {
	if len(b.used) > maxFrequent {
		// No more than maxFrequent values come BlockRows / maxFrequent times or more.
		var more [BlockRows/maxFrequent + 1]int
		for _, i := range b.used {
			more[min(b.slots[i].count, BlockRows/maxFrequent)]++
		}
		for left := len(b.used); left > maxFrequent; {
			missed++
			left -= more[missed]
		}
	}
	for _, i := range b.used {
		if s := &b.slots[i]; s.count > missed {
			dst = append(dst, Counted{s.hash, s.count, s.ref})
		}
	}
	return dst, missed
}

// Reset forgets all values.
func (b *Block) Reset() {
	if len(b.used) > len(b.slots)/16 {
		clear(b.slots)
	} else {
		for _, i := range b.used {
			b.slots[i].count = 0
		}
	}
	b.used = b.used[:0]
}
