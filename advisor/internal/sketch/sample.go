package sketch

// Sample chooses items of a stream by chance, each with the same one, without knowing how many will
// come: an item gets a pseudo-random number, and is kept if that is below a bound which is halved
// when there is no more room. What is kept stays in the order of the stream.
type Sample[T any] struct {
	items []sampledItem[T]
	// bound is above the number of every item that is kept. Invariant: bound never grows.
	bound uint64
	seed  uint64
	limit int
	bytes int // of all items, as Add was told
	most  int
}

type sampledItem[T any] struct {
	number uint64
	bytes  int
	item   T
}

// NewSample returns a sample of at most limit items with at most so many bytes together. Equal seeds
// choose equal items.
func NewSample[T any](limit, bytes int, seed uint64) *Sample[T] {
	return &Sample[T]{bound: ^uint64(0), seed: mix(seed + 1), limit: limit, most: bytes}
}

// Chooses reports whether the item at a place in the stream is to be added.
func (s *Sample[T]) Chooses(place uint64) bool { return mix(place^s.seed) < s.bound }

// Add keeps an item that was chosen.
func (s *Sample[T]) Add(place uint64, item T, bytes int) {
	s.items = append(s.items, sampledItem[T]{mix(place ^ s.seed), bytes, item})
	s.bytes += bytes
	for len(s.items) > s.limit || s.bytes > s.most && len(s.items) > 1 {
		s.halve()
	}
}

func (s *Sample[T]) halve() {
	s.bound /= 2
	kept := s.items[:0]
	s.bytes = 0
	for _, it := range s.items {
		if it.number < s.bound {
			kept = append(kept, it)
			s.bytes += it.bytes
		}
	}
	clear(s.items[len(kept):])
	s.items = kept
}

// Items returns what is kept, in the order of the stream.
func (s *Sample[T]) Items() []T {
	items := make([]T, len(s.items))
	for i, it := range s.items {
		items[i] = it.item
	}
	return items
}

// Bursts chooses runs of consecutive items, evenly over a stream of any length: every stride-th run,
// where the stride doubles when there is no more room.
type Bursts struct {
	// Length is how many items a burst has, and Limit how many bursts are kept.
	Length, Limit uint64
	stride        uint64
}

// BurstOf returns the number of the burst that an item is in, and whether that burst is kept so far.
func (b *Bursts) BurstOf(place uint64) (burst uint64, kept bool) {
	burst = place / b.Length
	for burst/max(b.stride, 1) >= b.Limit {
		b.stride = max(b.stride, 1) * 2
	}
	return burst, b.Keeps(burst)
}

// Keeps reports whether a burst that was kept before still is.
func (b *Bursts) Keeps(burst uint64) bool { return burst%max(b.stride, 1) == 0 }
