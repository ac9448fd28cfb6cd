package affinity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Crossing is the record of one declared way from shard to shard.
type Crossing struct {
	From   string `json:"from"` // tag of the shard that keys leave
	To     string `json:"to"`   // tag of the shard that they enter
	Who    string `json:"who"`
	Reason string `json:"reason"`
	// Count is how many keys have crossed, this one included.
	Count uint64 `json:"count"`
}

// record counts one crossing. Bridges with equal declarations share it, so a
// bridge made for each request cannot grow the list for ever.
type record struct{ count atomic.Uint64 }

// Bridge is the only way for a key of shard From into code for shard To: to
// keep a copy there, an index entry, a pending credit. It does not move the
// row, nor does it change where the key lives. Safe for concurrent use.
type Bridge[From, To any, K comparable] struct {
	from     Home[From, K]
	to       Home[To, K]
	crossing Crossing // with Count 0
	record   *record
}

// NewBridge declares that who takes keys from one shard to the other, and why.
// Both texts are for the person who reads the audit; neither may be empty.
func NewBridge[From, To any, K comparable](from Home[From, K], to Home[To, K], who, reason string) (*Bridge[From, To, K], error) {
	var errs []error
	refuse := func(bad bool, text string) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: %s", ErrBridge, text))
		}
	}
	refuse(who == "", "no who: name the code that crosses")
	refuse(reason == "", "no reason: say why the key must leave its shard")
	refuse(!from.place.sameSpace(to.place), "its ends are not in one space")
	refuse(from.place != nil && from.place == to.place, "its ends are one shard: no crossing is needed")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	crossing := Crossing{From: from.place.String(), To: to.place.String(), Who: who, Reason: reason}
	return &Bridge[From, To, K]{from, to, crossing, from.space.record(crossing)}, nil
}

// record returns the one record of a crossing.
func (s *Space[K]) record(c Crossing) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[c]
	if r == nil {
		r = new(record)
		s.records[c] = r
	}
	return r
}

// Cross counts the crossing, tells the space's Audit, and returns k as a key
// that shard To takes. It refuses a zero key and one of another space, and
// does not count it.
func (b *Bridge[From, To, K]) Cross(k Key[From, K]) (Key[To, K], error) {
	if err := k.check(b.from.place); err != nil {
		return Key[To, K]{}, err
	}
	c := b.crossing
	c.Count = b.record.count.Add(1)
	if audit := b.from.space.audit; audit != nil {
		audit(c, k.value)
	}
	return Key[To, K]{origin: k.origin, value: k.value}, nil
}

// Crossings returns every declared crossing with its count, also those that
// nobody has used, ordered by From, To, Who and Reason.
func (s *Space[K]) Crossings() []Crossing {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Crossing, 0, len(s.records))
	for c, r := range s.records {
		c.Count = r.count.Load()
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Crossing) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Who, b.Who), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
