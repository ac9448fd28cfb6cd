package rows

// block is a piece of memory in which rows lie one after the other. Blocks of a
// stripe form a list from the oldest to the head, where new rows go. A row that
// is large for an ordinary block gets one of its own ("lone"), which is
// never written again: it can be built and read outside the lock.
type block struct {
	data         []byte
	used         int // bytes from the start that hold rows, dead ones included
	live         int // bytes of rows that the index knows
	older, newer uint32
	lone         bool
}

// blocks is the memory of one stripe. Numbers start at 1, so that a place is
// never 0; number 0 is the anchor of the list: its newer is the oldest block, its
// older the newest.
type blocks struct {
	all   []block
	free  []uint32 // numbers without memory
	head  uint32   // the ordinary block that is being filled; 0 if none
	size  int      // bytes of an ordinary block, a power of two
	shift uint     // of a place: number << shift | offset / rowAlign
	spare []byte   // an ordinary block kept for the next head
	bytes int      // of all memory, spare included
	slab  *slab    // where ordinary blocks come from
}

func (b *blocks) init(size int, from *slab) {
	b.size, b.slab = size, from
	for b.shift = 0; rowAlign<<b.shift < size; b.shift++ {
	}
	b.all = make([]block, 1, 8)
}

func (b *blocks) placeOf(number uint32, offset int) uint32 {
	return number<<b.shift | uint32(offset/rowAlign)
}

func (b *blocks) numberOf(place uint32) uint32 { return place >> b.shift }

func (b *blocks) isLone(place uint32) bool { return b.all[b.numberOf(place)].lone }

func (b *blocks) row(place uint32) row {
	offset := int(place&(1<<b.shift-1)) * rowAlign
	return b.all[place>>b.shift].data[offset:]
}

// link makes data the newest block.
func (b *blocks) link(data []byte) uint32 {
	var n uint32
	if k := len(b.free); k > 0 {
		n, b.free = b.free[k-1], b.free[:k-1]
	} else {
		n = uint32(len(b.all))
		b.all = append(b.all, block{})
	}
	b.all[n] = block{data: data}
	b.attach(n)
	return n
}

func (b *blocks) attach(n uint32) {
	last := b.all[0].older
	b.all[n].older, b.all[n].newer = last, 0
	b.all[last].newer, b.all[0].older = n, n
}

func (b *blocks) detach(n uint32) {
	older, newer := b.all[n].older, b.all[n].newer
	b.all[older].newer, b.all[newer].older = newer, older
}

// drop gives up a block in which nothing lives.
func (b *blocks) drop(n uint32) {
	b.detach(n)
	bl := &b.all[n]
	switch {
	case bl.lone:
		b.bytes -= len(bl.data)
	case b.spare == nil:
		b.spare = bl.data // stays in b.bytes
	default:
		b.bytes -= len(bl.data)
		b.slab.give(bl.data)
	}
	*bl = block{}
	b.free = append(b.free, n)
	if b.head == n {
		b.head = 0
	}
}

// addHead makes a fresh ordinary block the head.
func (b *blocks) addHead() {
	data := b.spare
	b.spare = nil
	if data == nil {
		data = b.slab.take(b.size)
		b.bytes += b.size
	}
	b.head = b.link(data)
}

// addLone takes over memory that holds exactly one row.
func (b *blocks) addLone(data row) uint32 {
	n := b.link(data)
	b.bytes += len(data)
	bl := &b.all[n]
	bl.lone, bl.used, bl.live = true, len(data), len(data)
	return b.placeOf(n, 0)
}

// fits tells whether the head has room for so many bytes.
func (b *blocks) fits(extent int) bool {
	return b.head != 0 && b.all[b.head].used+extent <= b.size
}

// carve takes room from the head. It fits.
func (b *blocks) carve(extent int) (place uint32, r row) {
	bl := &b.all[b.head]
	offset := bl.used
	bl.used += extent
	bl.live += extent
	return b.placeOf(b.head, offset), bl.data[offset : offset+extent]
}

// bury counts bytes of a block as dead and gives the block up with its last
// living row.
func (b *blocks) bury(place uint32, extent int) {
	n := b.numberOf(place)
	b.all[n].live -= extent
	if b.all[n].live == 0 && n != b.head {
		b.drop(n)
	}
}
