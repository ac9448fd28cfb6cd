package node

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// find returns the side that served a position, with the group's place in it and the
// range.
func (v *View) find(p partition.Position) (*side, int, own.Range, error) {
	for i := range v.sides {
		s := &v.sides[i]
		if g, r, err := s.moment.find(p); err == nil {
			return s, g, r, nil
		}
	}
	return nil, 0, own.Range{}, own.ErrWrongGroup
}

// Get implements [command.Reader] for tables by position.
func (v *View) Get(key, dst []byte) ([]byte, bool, error) {
	s := &v.sides[0]
	if len(v.sides) > 1 {
		var err error
		if s, _, _, err = v.find(key[1:]); err != nil {
			return nil, false, err
		}
	}
	seen, err := v.judged(s, v.around(s, key[1:]))
	if err != nil {
		return nil, false, err
	}
	return seen.from.Get(key, dst)
}

// Scan implements [command.Reader] for tables by position. All of it must have been
// served.
func (v *View) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	span := partition.Span{Start: start[1:]}
	if end[0] == start[0] {
		span.End = end[1:]
	}
	stretches := []stretch{{&v.sides[0], span}}
	if len(v.sides) > 1 {
		var err error
		if stretches, err = v.stretches(span); err != nil {
			return err
		}
	}
	if reverse {
		slices.Reverse(stretches)
	}
	more := true
	for _, x := range stretches {
		from, to := append([]byte{start[0]}, x.span.Start...), end
		if len(x.span.End) > 0 {
			to = append([]byte{start[0]}, x.span.End...)
		}
		// The first key may begin before the span, and its locks with it.
		judged := x.span
		if around := v.around(x.side, judged.Start); bytes.Compare(around.Start, judged.Start) < 0 {
			judged.Start = around.Start
		}
		seen, err := v.judged(x.side, judged)
		if err != nil {
			return err
		}
		err = seen.from.Scan(from, to, reverse, func(key, value []byte) bool {
			more = visit(key, value)
			return more
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// stretch is what one store has of a span.
type stretch struct {
	side *side
	span partition.Span
}

// stretches cuts a span by the stores that served it.
func (v *View) stretches(s partition.Span) (list []stretch, err error) {
	for at := s.Start; ; {
		side, _, r, err := v.find(at)
		if err != nil {
			return nil, err
		}
		end := r.Span.End
		last := reaches(end, s.End)
		if last {
			end = s.End
		}
		if k := len(list) - 1; k >= 0 && list[k].side == side {
			list[k].span.End = end
		} else {
			list = append(list, stretch{side, partition.Span{Start: at, End: end}})
		}
		if last {
			return list, nil
		}
		at = end
	}
}

// NowMS returns the time by which a key was judged: that of the group that served it,
// or that of an undecided transaction that has locked it.
func (v *View) NowMS(p partition.Position) (int64, error) {
	s, g, _, err := v.find(p)
	if err != nil {
		return 0, err
	}
	now := s.moment.clocks[g]
	seen, err := v.judged(s, v.around(s, p))
	if err == nil && seen.locks != nil {
		now = seen.locks.JudgeMS(p, now)
	}
	return now, err
}

// Serves returns nil if all of a span was served, else own.ErrWrongGroup.
func (v *View) Serves(s partition.Span) error {
	if len(v.sides) == 1 {
		return v.sides[0].moment.Serves(s)
	}
	_, err := v.stretches(s)
	return err
}

// LatestMS returns the latest time that a group had, 0 if there is none: all groups of
// a store may have been removed.
func (v *View) LatestMS() (latest int64) {
	for i := range v.sides {
		for _, ms := range v.sides[i].moment.clocks {
			latest = max(latest, ms)
		}
	}
	return latest
}
