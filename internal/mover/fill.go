package mover

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// Groups that were added are filled from the others: shards are moved as long as that
// evens groups out, and split, the largest first, where those that there are, are too
// large for that. A group that was added gives something back while it has more than
// the mean and another one is far from full.
//
// So none is left with less than half of the mean, if shards can be halved. If one had,
// another one would have more than the mean. A shard of that of a quarter of the mean at
// most would have been moved, and half of any other, unless that half is as much as
// what is between the two: then the one has less than twice what the other has.
const (
	// full is how much of the mean a group has when nothing is split for it any more,
	// and overfull what a move may fill it to.
	full, overfull = 0.75, 1.25
	// large is how much of the mean a shard has that is split. Pieces of more than an
	// eighth come of it, and eight of those fill a group. Where more splits are asked
	// for, halves were none, and the job ends with groups as they are.
	large          = 0.25
	splitsPerGroup = 8
)

// filling is what the groups have, and will have when all that is asked for is done.
type filling struct {
	job    *Job
	view   View
	load   loads
	mean   float64 // of the groups that take shards
	stocks []*stock
	splits int // that may still be asked for
}

// stock is the shards of one group that may be moved to the same groups.
type stock struct {
	group partition.GroupID
	added bool // the group is one of those that are filled
	pin   partition.Constraint
	to    []partition.GroupID // other groups that were added, and may take them
	// pieces are those that nothing was asked for yet, the lightest first.
	pieces []piece
}

// piece is a shard, or a part of one in a plan.
type piece struct {
	partition.Shard
	size   Size
	weight float64
	// part tells that it is not all of a shard, and whole that there is no place to
	// split it at.
	part, whole bool
}

func (j *Job) filling(v View) *filling {
	f := &filling{job: j, view: v, load: loadsOf(v), splits: splitsPerGroup*len(j.Groups) - int(j.Cost.Splits)}
	takers := 0
	for _, g := range v.Map.Groups() {
		if f.mean += f.load[g.ID]; !g.Draining {
			takers++
		}
	}
	f.mean /= float64(max(takers, 1))
	for s := range v.Map.Shards(partition.Whole) {
		p := piece{Shard: s, size: v.size(s.ID), weight: v.weight(s.ID)}
		for i := range v.Jobs {
			f.expect(&v.Jobs[i], p)
		}
		if !v.fixed(s) && !busy(v.Jobs, s.Span) && v.failed(s.Group) == nil {
			h := f.stock(s)
			h.pieces = append(h.pieces, p)
		}
	}
	for _, h := range f.stocks {
		slices.SortStableFunc(h.pieces, func(a, b piece) int { return cmp.Compare(a.weight, b.weight) })
	}
	return f
}

// stock returns where a shard belongs.
func (f *filling) stock(s partition.Shard) *stock {
	for _, h := range f.stocks {
		if h.group == s.Group && h.pin == s.Pin {
			return h
		}
	}
	h := &stock{group: s.Group, added: slices.Contains(f.job.Groups, s.Group), pin: s.Pin}
	for _, id := range f.job.Groups {
		if g, ok := f.view.Map.Group(id); ok && id != s.Group && f.view.takes(g) && s.Pin.Allows(g.Labels) {
			h.to = append(h.to, id)
		}
	}
	f.stocks = append(f.stocks, h)
	return h
}

// expect counts what a job under way will do with a shard. If it were not counted, a
// group would be filled again by each look at the map before the shards have come.
func (f *filling) expect(o *Job, p piece) {
	switch {
	case o.Phase.Final() || o.Undo || o.Shard != p.ID || o.From != p.Group || o.Expect != p.Changed:
	case o.Kind == Move:
		f.shift(p.Group, o.To, p.weight)
	case o.Kind == Split && o.Parent == f.job.ID:
		f.pend(p)
	}
}

// pend counts a split as done, with a half that has gone where it is needed. Which
// that is nobody knows before it is done.
func (f *filling) pend(p piece) {
	if to := f.emptiest(f.stock(p.Shard)); to != 0 {
		f.shift(p.Group, to, p.weight/2)
	}
}

func (f *filling) shift(from, to partition.GroupID, weight float64) {
	f.load[from] -= weight
	f.load[to] += weight
}

// emptiest returns the group with the least of those that may take what is in a stock,
// or 0.
func (f *filling) emptiest(h *stock) (to partition.GroupID) {
	for _, id := range h.to {
		if to == 0 || f.load[id] < f.load[to] {
			to = id
		}
	}
	return to
}

// taker returns who takes something of a stock, or 0, and whether he is far from full.
func (f *filling) taker(h *stock) (to partition.GroupID, low bool) {
	to = f.emptiest(h)
	if low = f.load[to] < full*f.mean; h.added && (!low || f.load[h.group] <= f.mean) {
		return 0, false
	}
	return to, low
}

// next returns what to ask for next, and for which piece. A move is counted as done.
func (f *filling) next() (r Request, p piece, ok bool) {
	h, i := f.best(true)
	if h == nil {
		if r, p, ok = f.split(); ok {
			return r, p, true
		}
		if h, i = f.best(false); h == nil {
			return r, p, false
		}
	}
	p = h.take(i)
	to := f.emptiest(h)
	f.shift(p.Group, to, p.weight)
	return f.job.move(p.Shard, to), p, true
}

// take removes a piece.
func (h *stock) take(i int) piece {
	p := h.pieces[i]
	h.pieces = slices.Delete(h.pieces, i, i+1)
	return p
}

// put adds a piece.
func (h *stock) put(p piece) {
	i, _ := h.search(p.weight)
	h.pieces = slices.Insert(h.pieces, i, p)
}

func (h *stock) search(weight float64) (int, bool) {
	return slices.BinarySearchFunc(h.pieces, weight, func(p piece, w float64) int { return cmp.Compare(p.weight, w) })
}

// best returns the piece whose move evens groups out most, or nil: a move must leave
// the group that takes the piece with less than the one that gives it had. One that
// fits does not leave it with more than a little above the mean. Those that do not fit
// are for groups that are far from full, when nothing can be split.
func (f *filling) best(fits bool) (best *stock, at int) {
	gain := 0.0
	for _, h := range f.stocks {
		to, low := f.taker(h)
		if to == 0 || !fits && !low {
			continue
		}
		gap, room := f.load[h.group]-f.load[to], overfull*f.mean-f.load[to]
		// The nearer a piece is to half of what is between the two, the better: so it
		// is one of those on both sides of that, or of what there is room for.
		i, _ := h.search(gap / 2)
		if fits {
			most, _ := h.search(room)
			i = min(i, most)
		}
		for k := max(i-1, 0); k <= i && k < len(h.pieces); k++ {
			w := h.pieces[k].weight
			if won := w * (gap - w); won > gain && (!fits || w <= room) {
				best, at, gain = h, k, won
			}
		}
	}
	return best, at
}

// split asks for a split of the largest piece of which a half is good for a group that
// is far from full.
func (f *filling) split() (r Request, p piece, ok bool) {
	for f.splits > 0 && f.view.Middle != nil {
		h, i := f.largest()
		if h == nil {
			break
		}
		p := &h.pieces[i]
		at, in, ok := f.view.Middle(p.Shard)
		if !ok || !p.Span.Contains(at) || bytes.Equal(at, p.Span.Start) {
			p.whole = true
			continue
		}
		f.splits--
		r = Request{Kind: Split, Shard: p.ID, Expect: p.Changed, In: in, At: []partition.Position{at}, Parent: f.job.ID}
		return r, h.take(i), true
	}
	return r, p, false
}

// largest returns what to split, or nil.
func (f *filling) largest() (largest *stock, at int) {
	most := large * f.mean
	for _, h := range f.stocks {
		to, low := f.taker(h)
		if to == 0 || !low {
			continue
		}
		for i := len(h.pieces) - 1; i >= 0 && h.pieces[i].weight > most; i-- {
			if p := &h.pieces[i]; !p.whole && f.load[h.group]-p.weight/2 > f.load[to] {
				largest, at, most = h, i, p.weight
			}
		}
	}
	return largest, at
}

// halve puts both halves in the place of a piece, for a plan.
func (f *filling) halve(p piece, at partition.Position) {
	h := f.stock(p.Shard)
	p.weight, p.part = p.weight/2, true
	p.size = Size{Rows: p.size.Rows / 2, Bytes: p.size.Bytes / 2, Heat: p.size.Heat / 2}
	right := p
	p.Span.End, right.Span.Start = at, at
	h.put(p)
	h.put(right)
}
