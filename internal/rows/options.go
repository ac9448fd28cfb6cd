package rows

import (
	"hash/maphash"
	"math/bits"
)

// Options of a table. The zero value works.
type Options struct {
	// Bytes is the memory that unpinned rows may take, with headers and
	// index. Default 64 MiB. At least 64 KiB, below which it is raised.
	Bytes int64
	// Stripes is how many locks the keys are spread over; it is rounded up to
	// a power of two. Default one per MiB of Bytes, between 16 and 1024: so
	// many that goroutines seldom meet, so few that each holds many rows.
	// At most one for every 64 KiB.
	Stripes int
	// Seed of the hash. Default a random one, so that nobody can choose
	// keys that fall into one stripe.
	Seed maphash.Seed
	// Class, if set, returns the class under which a key is counted; see
	// [Table.Class]. It is called for every Get: keep it cheap.
	Class func(key []byte) uint32
}

const (
	defaultBytes = 64 << 20
	leastShare   = 64 << 10 // of one stripe
	mostStripes  = 1 << 14
	leastBlock   = 4 << 10
	mostBlock    = 256 << 10
	// blocksPerShare keeps the block that is being filled and the spare one
	// a small part of the share, and the work to reclaim one short.
	blocksPerShare = 16
	// rowsPerBlock bounds what is lost at the end of a block, where the
	// next row did not fit.
	rowsPerBlock = 8
)

// withDefaults returns the options as the table uses them.
func (o Options) withDefaults() Options {
	if o.Bytes <= 0 {
		o.Bytes = defaultBytes
	}
	o.Bytes = max(o.Bytes, leastShare)
	if o.Stripes <= 0 {
		o.Stripes = int(min(max(o.Bytes>>20, 16), 1024))
	}
	o.Stripes = int(min(int64(o.Stripes), o.Bytes/leastShare, mostStripes))
	if up := 1 << bits.Len(uint(o.Stripes-1)); int64(up)*leastShare <= o.Bytes {
		o.Stripes = up
	} else {
		o.Stripes = up / 2
	}
	if o.Seed == (maphash.Seed{}) {
		o.Seed = maphash.MakeSeed()
	}
	return o
}

// blockSize returns the size of ordinary blocks for a stripe's share.
func blockSize(share int) int {
	size := 1 << (bits.Len(uint(share/blocksPerShare)) - 1)
	return min(max(size, leastBlock), mostBlock)
}
