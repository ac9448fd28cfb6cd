package node

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Judge returns the time by which a key is judged, or own.ErrWrongGroup if nobody
// serves it.
type Judge func(partition.Position) (nowMS int64, err error)

// find returns the side that served a position, and the group.
func (v *View) find(p partition.Position) (*side, *known, error) {
	for i := range v.sides {
		s := &v.sides[i]
		if k := s.moment.find(p); k != nil {
			return s, k, nil
		}
	}
	return nil, nil, own.ErrWrongGroup
}

// Get implements [command.Reader] for tables by position.
func (v *View) Get(key, dst []byte) ([]byte, bool, error) {
	if v.judges == nil && len(v.sides) == 1 {
		return v.sides[0].verdict.from.Get(key, dst)
	}
	var seen *verdict
	s, k, err := v.find(key[1:])
	switch {
	case err == nil:
		seen, err = v.judgedKey(s, k, key[1:])
	case len(v.sides) == 1: // of one store nobody asks who serves it
		seen, err = v.judged(&v.sides[0], v.around(&v.sides[0], key[1:]))
	}
	if err != nil {
		return nil, false, err
	}
	return seen.from.Get(key, dst)
}

// Read is Get with NowMS, for who has a key and asks once.
func (v *View) Read(key, dst []byte) (value []byte, nowMS int64, ok bool, err error) {
	seen, nowMS, err := v.seen(key[1:])
	if err != nil {
		return nil, 0, false, err
	}
	value, ok, err = seen.from.Get(key, dst)
	return value, nowMS, ok, err
}

// seen returns what is seen of a key, and the time by which it was judged.
func (v *View) seen(p partition.Position) (seen *verdict, nowMS int64, err error) {
	s, k, err := v.find(p)
	if err != nil {
		return nil, 0, err
	}
	nowMS = k.clockMS
	seen, err = v.judgedKey(s, k, p)
	if err == nil {
		nowMS = seen.judgeMS(p, nowMS)
	}
	return seen, nowMS, err
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
		judged.End = v.behind(judged.End)
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

// upto returns the side that served a position, and up to where one of its groups
// served everything from there on.
func (v *View) upto(p partition.Position) (*side, partition.Position, error) {
	for i := range v.sides {
		if end, ok := v.sides[i].moment.upto(p); ok {
			return &v.sides[i], end, nil
		}
	}
	return nil, nil, own.ErrWrongGroup
}

// stretches cuts a span by the stores that served it.
func (v *View) stretches(s partition.Span) (list []stretch, err error) {
	for at := s.Start; ; {
		side, end, err := v.upto(at)
		if err != nil {
			return nil, err
		}
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
	_, nowMS, err := v.seen(p)
	return nowMS, err
}

// ClockMS returns the time of the group that served a key, whoever had locked it.
func (v *View) ClockMS(p partition.Position) (int64, error) {
	_, k, err := v.find(p)
	if err != nil {
		return 0, err
	}
	return k.clockMS, nil
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
		for _, k := range v.sides[i].moment.known {
			latest = max(latest, k.clockMS)
		}
	}
	return latest
}
