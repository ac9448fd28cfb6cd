package ident

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// judge weighs one sample.
type judge struct {
	opts   Options
	now    time.Time
	window window
	values int // repeats included
}

// finding is a set of values that share a kind.
type finding struct {
	kind      Kind
	epoch     string
	specimens []*specimen
	count     int // repeats included
	// chance is the probability that luck explains the fit; 1 if the kind is
	// a remainder and claims no fit.
	chance       float64
	structure    string
	alternatives []Kind
	trend        trend
}

// fresh is how near to the present the newest time of a live column is.
const fresh = 30 * 24 * time.Hour

// classify splits the sample into findings, the largest first.
func (j *judge) classify(distinct []*specimen) []finding {
	byShape := map[shape][]*specimen{}
	for _, s := range distinct {
		byShape[s.shape] = append(byShape[s.shape], s)
	}
	uuids := uuidHypotheses(j.window)
	ulid := ulidHypothesis(j.window)
	found := slices.Concat(
		j.split(byShape[shapeInt], intHypotheses(j.window, j.opts.Epochs), j.plainInts),
		j.split(byShape[shapeUUID], uuids, j.remainder(UUIDOther)),
		j.split(byShape[shapeHex], uuids, j.remainder(Opaque)),
		j.split(byShape[shapeBytes], slices.Concat(uuids, []hypothesis{ulid}), j.remainder(Opaque)),
		j.split(byShape[shapeBase32], []hypothesis{ulid}, j.remainder(Opaque)),
		j.split(byShape[shapeTime], nil, func([]*specimen) Kind { return TimeText }),
		j.split(byShape[shapeDate], nil, func([]*specimen) Kind { return Date }),
		j.split(byShape[shapeText], nil, func([]*specimen) Kind { return Opaque }),
	)
	found = unite(found)
	for i := range found {
		f := &found[i]
		slices.SortFunc(f.specimens, func(a, b *specimen) int { return cmp.Compare(a.first, b.first) })
		f.trend = trendOf(f.specimens)
		for _, s := range f.specimens {
			f.count += s.count
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(b.count, a.count) })
	return found
}

// unite joins findings of one kind, as when two shapes are both opaque.
func unite(found []finding) []finding {
	var out []finding
next:
	for _, f := range found {
		for i := range out {
			if out[i].kind == f.kind && out[i].epoch == f.epoch {
				out[i].specimens = append(out[i].specimens, f.specimens...)
				out[i].chance = max(out[i].chance, f.chance)
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

// split takes the best reading of the values, then the best of what it leaves,
// until none is better than luck; rest names the remainder.
func (j *judge) split(values []*specimen, hs []hypothesis, rest func([]*specimen) Kind) []finding {
	var found []finding
	for len(values) > 0 {
		f, ok := j.best(values, hs, rest)
		if !ok {
			kind := rest(values)
			return append(found, finding{kind: kind, specimens: values, chance: 1})
		}
		found = append(found, f)
		fits := make(map[*specimen]bool, len(f.specimens))
		for _, s := range f.specimens {
			fits[s] = true
		}
		values = slices.DeleteFunc(slices.Clone(values), func(s *specimen) bool { return fits[s] })
	}
	return found
}

// candidate is a hypothesis that passed, with what ranks it.
type candidate struct {
	finding
	read   func(*specimen) (time.Time, bool)
	order  int // of the hypothesis: likelier kinds are listed first
	newest time.Time
}

// best returns the accepted reading that ranks first.
func (j *judge) best(values []*specimen, hs []hypothesis, rest func([]*specimen) Kind) (finding, bool) {
	if len(values) < j.opts.MinSample {
		return finding{}, false
	}
	var accepted []candidate
	for i, h := range hs {
		if c, ok := j.try(values, h, rest); ok {
			c.order = i
			accepted = append(accepted, c)
		}
	}
	if len(accepted) == 0 {
		return finding{}, false
	}
	top := accepted[0]
	for _, c := range accepted[1:] {
		if j.outranks(c, top) {
			top = c
		}
	}
	f := top.finding
	for _, c := range accepted {
		if c.kind != f.kind && !slices.Contains(f.alternatives, c.kind) {
			f.alternatives = append(f.alternatives, c.kind)
		}
	}
	if kind := rest(values); kind == AutoIncrement {
		f.alternatives = append(f.alternatives, kind)
	}
	for _, s := range f.specimens {
		s.when, _ = top.read(s)
	}
	return f, true
}

// try accepts a hypothesis if luck does not explain how many values fit it
// and in which order they came.
func (j *judge) try(values []*specimen, h hypothesis, rest func([]*specimen) Kind) (candidate, bool) {
	c, peers, luck := h.gather(values)
	fits := c.specimens
	if len(fits) < j.opts.MinSample || luck > 0.95 || h.kind == UUIDv4 && !leadingBytesVary(fits) {
		return c, false
	}
	if h.filled != nil {
		luck = max(luck, min(1, h.filled(largestOf(values))*256/255))
	}
	trace := 1.
	if h.structure != nil {
		c.structure, trace = h.structure(fits)
	}
	// Fit, traces and order are independent in meaningless values. Order alone
	// shows that values rise, not what they are, so the others must speak too.
	fit := combine(binomialTail(peers, len(fits), luck), trace)
	c.chance = combine(fit, trendOf(fits).chance)
	if fit > 0.01 || c.chance > maxChance {
		return c, false
	}
	// A part of the values must fit clearly more often than luck would have it,
	// since no range guessed is quite the one they came from.
	share := float64(len(fits)) / float64(peers)
	if share < 0.9 && share-luck < 0.2*(1-luck) {
		return c, false
	}
	// A counter passes through plausible times without being one.
	whole := 10*len(fits) >= 9*len(values)
	return c, whole || rest(values) != AutoIncrement
}

// gather collects the values that fit. peers is how many could have fitted,
// and luck the probability that a meaningless one of them would.
func (h hypothesis) gather(values []*specimen) (c candidate, peers int, luck float64) {
	c.finding = finding{kind: h.kind, epoch: h.epoch}
	c.read = h.read
	largest := uint64(0)
	var others []*specimen
	for _, s := range values {
		t, ok := h.read(s)
		if !ok {
			others = append(others, s)
			continue
		}
		c.specimens = append(c.specimens, s)
		largest = max(largest, s.num)
		if t.After(c.newest) {
			c.newest = t
		}
	}
	// Integers 256 times smaller are another population: a draw from the same
	// range would hardly ever bring them, and they must not hide a part.
	peers = len(c.specimens)
	for _, s := range others {
		if s.num >= largest>>8 {
			peers++
		}
	}
	return c, peers, min(1, h.luck(largest)*256/255)
}

func largestOf(values []*specimen) (largest uint64) {
	for _, s := range values {
		largest = max(largest, s.num)
	}
	return largest
}

// outranks decides between two readings of the same values: by how many fit,
// by traces that only one of them explains, by whether the newest is recent.
func (j *judge) outranks(a, b candidate) bool {
	if n, m := len(a.specimens), len(b.specimens); 20*n > 21*m || 20*m > 21*n {
		return n > m
	}
	if s, t := a.structure != "", b.structure != ""; s != t {
		return s
	}
	age := func(c candidate) time.Duration { return j.now.Sub(c.newest).Abs() }
	if s, t := age(a) <= fresh, age(b) <= fresh; s != t {
		return s
	}
	if a.kind != b.kind {
		return a.order < b.order
	}
	return age(a) < age(b)
}

// leadingBytesVary tells random UUIDs from counters dressed up as such.
func leadingBytesVary(values []*specimen) bool {
	seen := map[[4]byte]bool{}
	for _, s := range values {
		seen[[4]byte(s.raw[:4])] = true
	}
	return 10*len(seen) >= 9*len(values)
}

func (j *judge) remainder(kind Kind) func([]*specimen) Kind {
	return func(values []*specimen) Kind {
		if len(values) < j.opts.MinSample {
			return Unknown
		}
		return kind
	}
}

// plainInts names integers that carry no time.
func (j *judge) plainInts(values []*specimen) Kind {
	n := len(values)
	if n < j.opts.MinSample {
		return Unknown
	}
	least, most, repeats := math.Inf(1), math.Inf(-1), false
	for _, s := range values {
		least, most = min(least, s.value()), max(most, s.value())
		repeats = repeats || s.count > 1
	}
	size := most - least + 1
	switch {
	case trendOf(values).follows():
		// A counter of which one value in a million was sampled still passes.
		if size/float64(n) <= 1e6 {
			return AutoIncrement
		}
		return OrderedInt
	case !repeats && size <= 4*float64(n) && allDistinctChance(n, size) <= maxChance:
		return AutoIncrement // dense and never repeating, in whatever order
	}
	return RandomInt
}
