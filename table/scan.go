package table

import (
	"bytes"
	"iter"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/key"
)

// source reads a page of the keys from start up to end, the last ones first in reverse.
type source func(start, end []byte, o pageOptions) ([]cleave.Item, error)

type pageOptions struct {
	reverse, keysOnly bool
	limit             int
}

// rows reads the rows of a plan in order: stem after stem, and for each the stretches
// of all salts as one.
func (p *plan) rows(from source) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := reading{plan: p, from: from, yield: yield, left: p.limit}
		if bytes.Compare(p.lo, p.hi) >= 0 {
			return
		}
		var err error
		if stem, ok := p.oneStem(); ok {
			_, err = r.readStem(stem)
		} else {
			err = r.readStems()
		}
		if err != nil {
			yield(Row{}, err)
		}
	}
}

// reading is a plan that is carried out.
type reading struct {
	*plan
	from  source
	yield func(Row, error) bool
	left  int // rows until the limit
}

// oneStem returns the stem of all rows, if the bounds tell that there is one.
func (p *plan) oneStem() (stem []byte, ok bool) {
	if p.t.salt < 0 {
		return nil, true
	}
	lo, _, whole := p.t.stem(p.lo)
	hi, rest, also := p.t.stem(p.hi)
	return lo, whole && also && len(rest) > 0 && bytes.Equal(lo, hi)
}

// readStems finds one stem after the other by its first key. It costs one more read for
// each, whatever lies between them.
func (r *reading) readStems() error {
	lo, hi := r.seekBounds()
	for {
		found, err := r.from(lo, hi, pageOptions{reverse: r.reverse, keysOnly: true, limit: 1})
		if err != nil || len(found) == 0 {
			return err
		}
		k := found[0].Key
		stem, _, _ := r.t.stem(k)
		if _, err := r.t.layout.Decode(k); err != nil {
			if err := r.t.stray(k, err); err != nil {
				return err
			}
			lo, hi = r.past(lo, hi, k)
			continue
		}
		if more, err := r.readStem(stem); !more {
			return err
		}
		if r.reverse {
			hi = stem
		} else {
			lo = append(stem, beyond)
		}
	}
}

// seekBounds returns between which keys stems are looked for.
func (r *reading) seekBounds() (lo, hi []byte) {
	lo, _, _ = r.t.stem(r.lo)
	hi, rest, whole := r.t.stem(r.hi)
	if whole && len(rest) > 0 {
		hi = append(hi, beyond)
	}
	if r.after != nil {
		stem, _, _ := r.t.stem(r.after)
		if r.reverse {
			hi = append(stem, beyond)
		} else {
			lo = stem
		}
	}
	return lo, hi
}

// past returns the bounds of what is left behind a key.
func (p *plan) past(lo, hi, k []byte) (newLo, newHi []byte) {
	if p.reverse {
		return lo, k
	}
	return append(slices.Clip(k), 0), hi
}

// readStem reads the rows of a stem, and tells whether to go on.
func (r *reading) readStem(stem []byte) (more bool, err error) {
	stretches := r.stretches(stem)
	cursors := make([]key.Cursor[entry], len(stretches))
	for i, s := range stretches {
		f := &feeder{reading: r, stretch: s}
		f.begin(len(stretches))
		cursors[i] = key.PageCursor(f.next)
	}
	next := cursors[0].Next
	if len(cursors) > 1 {
		merger, err := key.Merge(r.compare, cursors...)
		if err != nil {
			return false, err
		}
		next = merger.Next
	}
	for {
		e, ok, err := next()
		if err != nil || !ok {
			return err == nil, err
		}
		if !r.yield(e.row, nil) {
			return false, nil
		}
		if r.left--; r.left == 0 { // without a limit it is below 0
			return false, nil
		}
	}
}

// compare orders rows of one stem. Equal ones stay in the order of the stretches.
func (p *plan) compare(a, b entry) int {
	if plant.Bug("table-salts-not-merged") {
		return 0
	}
	if p.reverse {
		a, b = b, a
	}
	return bytes.Compare(a.rest, b.rest)
}

// stretch is where the rows of one salt with one stem are: between two keys, which have
// the first bytes in common.
type stretch struct {
	start, end []byte
	common     int
}

// stretches returns those of a stem, in the order in which equal rows are to come.
func (p *plan) stretches(stem []byte) []stretch {
	if p.t.salt < 0 {
		s := stretch{start: p.lo, end: p.hi}
		if p.after != nil {
			s.start, s.end = p.past(s.start, s.end, p.after)
		}
		return []stretch{s}
	}
	lo, hi := p.rests(stem)
	var list []stretch
	for salt := range p.t.layout.Salts() {
		if p.only >= 0 && salt != p.only {
			continue
		}
		s := stretch{start: join(stem, salt, lo), end: join(stem, salt, hi), common: len(join(stem, salt, nil))}
		p.behind(&s, stem, salt)
		list = append(list, s)
	}
	if p.reverse {
		slices.Reverse(list)
	}
	return list
}

// rests returns between which rests the rows of a stem lie.
func (p *plan) rests(stem []byte) (lo, hi []byte) {
	hi = []byte{beyond}
	if s, rest, whole := p.t.stem(p.lo); whole && bytes.Equal(s, stem) {
		lo = rest
	}
	if s, rest, whole := p.t.stem(p.hi); whole && bytes.Equal(s, stem) {
		hi = rest
	}
	return lo, hi
}

// behind cuts off what comes up to the row to continue behind. Rows of the same place
// with another salt may still be to come.
func (p *plan) behind(s *stretch, stem []byte, salt int) {
	if p.after == nil {
		return
	}
	last, rest := p.t.cut(p.after)
	if !bytes.Equal(last, stem) {
		return
	}
	at, same := join(stem, salt, rest), p.t.saltOf(p.after)
	if plant.Bug("table-cursor-drops-twins") {
		same = salt
	}
	switch {
	case p.reverse && salt >= same:
		s.end = at
	case p.reverse:
		s.end = append(at, 0)
	case salt <= same:
		s.start = append(at, 0)
	default:
		s.start = at
	}
}
