package heat

import "fmt"

// Summary is what is known of the operations of some time: top keys by each measure, ranges and slots. Summaries are
// merged. It belongs to one goroutine at a time.
type Summary struct {
	top    [measures]*TopKeys
	ranges *Ranges
	slots  *SlotCounts // nil without slots
}

// newSummary returns an empty summary. The options have been checked.
func newSummary(o Options, seed uint64) (*Summary, error) {
	s := new(Summary)
	var err error
	for by := range measures {
		if s.top[by], err = NewTopKeys(by, o.TopKeys); err != nil {
			return nil, err
		}
	}
	if s.ranges, err = NewRanges(o.Ranges, seed); err != nil {
		return nil, err
	}
	if o.Slots > 0 {
		s.slots, err = NewSlotCounts(o.Slots)
	}
	return s, err
}

// Add counts an operation that stands for so many.
func (s *Summary) Add(a *Access, weight float64) {
	var key string // shared by the tables
	for _, t := range s.top {
		t.add(a, weight, &key)
	}
	s.ranges.Add(a, weight)
	if s.slots != nil {
		s.slots.Add(a.Slot, weight)
	}
}

// Merge adds what another summary has counted, and leaves that as it is. It fails with [ErrOptions], and adds
// nothing, if they do not have as many slots.
func (s *Summary) Merge(o *Summary) error {
	if have, other := s.slotCount(), o.slotCount(); have != other {
		return fmt.Errorf("%w: a summary of %d slots is merged into one of %d: give all meters the same Slots", ErrOptions, other, have)
	}
	s.merge(o)
	return nil
}

func (s *Summary) slotCount() int {
	if s.slots == nil {
		return 0
	}
	return len(s.slots.counts)
}

func (s *Summary) merge(o *Summary) {
	for by, t := range s.top {
		t.Merge(o.top[by])
	}
	s.ranges.Merge(o.ranges)
	if s.slots != nil {
		s.slots.Merge(o.slots)
	}
}

// Scale multiplies all counts by a factor above 0 and up to 1, so that what is older counts less. It forgets keys of
// which less than a thousandth of an operation, a byte or a nanosecond is left.
func (s *Summary) Scale(factor float64) {
	for _, t := range s.top {
		t.Scale(factor, 1e-3)
	}
	s.ranges.Scale(factor)
	if s.slots != nil {
		s.slots.Scale(factor)
	}
}

// Reset forgets all operations, and keeps the memory for others.
func (s *Summary) Reset() {
	for _, t := range s.top {
		t.Reset()
	}
	s.ranges.Reset()
	if s.slots != nil {
		s.slots.Reset()
	}
}

// TopKeys returns the table of a measure.
func (s *Summary) TopKeys(by Measure) *TopKeys { return s.top[by] }

// Ranges returns the sample of ranges.
func (s *Summary) Ranges() *Ranges { return s.ranges }

// Slots returns the counts of slots, nil without any.
func (s *Summary) Slots() *SlotCounts { return s.slots }

// Bytes is how much memory the summary takes, about.
func (s *Summary) Bytes() int {
	n := s.ranges.Bytes()
	for _, t := range s.top {
		n += t.Bytes()
	}
	if s.slots != nil {
		n += s.slots.Bytes()
	}
	return n
}
