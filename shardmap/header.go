package shardmap

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Every bucket of both layouts starts with the same two words:
//
//	word 0  header: flags, occupancy or tags, version
//	word 1  link: number of the next bucket of the chain, 0 for none
//
// The header of the first bucket of a chain (the root) locks the whole chain.
// Only writers lock. A frozen root stays locked for ever: its entries were
// copied to a new segment and the writer has to look the key up again.
const (
	lockBit   = 1 << 0 // a writer owns the chain
	frozenBit = 1 << 1 // the chain moved; always set together with lockBit

	headerWord = 0
	linkWord   = 1
	wordBytes  = 8
)

// word returns the i-th word of the bucket at p.
func word(p unsafe.Pointer, i uintptr) *uint64 {
	return (*uint64)(unsafe.Add(p, i*wordBytes))
}

// lockChain locks the chain of root, sets flags and returns its header
// without them. It answers false when the chain is frozen.
func lockChain(root unsafe.Pointer, flags uint64) (header uint64, ok bool) {
	p := word(root, headerWord)
	for try := 0; ; try++ {
		h := atomic.LoadUint64(p)
		if h&frozenBit != 0 {
			return 0, false
		}
		if h&lockBit == 0 && atomic.CompareAndSwapUint64(p, h, h|flags) {
			return h, true
		}
		pause(try)
	}
}

// unlockChain publishes header, which carries no flags, and gives the lock up.
func unlockChain(root unsafe.Pointer, header uint64) {
	atomic.StoreUint64(word(root, headerWord), header)
}

// freezeChain locks the chain of root for ever.
func freezeChain(root unsafe.Pointer) {
	_, ok := lockChain(root, lockBit|frozenBit)
	invariant(ok, "a chain is frozen once")
}

// pause makes the caller wait a little for a lock: first hot, because almost
// every critical section is a handful of stores; then by yielding, in case
// the owner was preempted; at last by sleeping, in case it runs a slow
// callback of Compute.
func pause(try int) {
	const hotTries, yieldTries = 16, 200
	switch {
	case try < hotTries:
	case try < yieldTries:
		runtime.Gosched()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// invariant panics when a rule of this package's own making is broken.
func invariant(holds bool, rule string) {
	if !holds {
		panic("shardmap: broken invariant: " + rule)
	}
}
