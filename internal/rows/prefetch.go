package rows

import "unsafe"

// prefetchGroup is how many keys are asked for at once: about as many misses
// as a core keeps under way.
const prefetchGroup = 16

func (x *index) prefetch(hash uint32) {
	prefetch((*byte)(unsafe.Pointer(&x.words[x.home(hash)])))
}
