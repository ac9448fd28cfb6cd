package ident

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// classifier weighs one sample.
type classifier struct {
	opts   Options
	now    time.Time
	window timeWindow
	values int // repeats included
}

// finding is a set of values that share a kind.
type finding struct {
	kind   Kind
	epoch  string
	values []*sampleValue
	count  int // repeats included
	// chance is the probability that luck explains the fit; 1 if the kind is
	// a remainder and claims no fit.
	chance       float64
	structure    string
	alternatives []Kind
	trend        trend
}

// recentAge is how near to the present the newest time of a live column is.
const recentAge = 30 * 24 * time.Hour

// classifyValues splits the sample into findings, the largest first.
func (j *classifier) classifyValues(distinct []*sampleValue) []finding {
	byShape := map[shape][]*sampleValue{}
	for _, s := range distinct {
		byShape[s.shape] = append(byShape[s.shape], s)
	}
	uuids := uuidHypotheses(j.window)
	ulid := ulidHypothesis(j.window)
	found := slices.Concat(
		j.splitByReading(byShape[shapeInt], intHypotheses(j.window, j.opts.Epochs), j.plainIntegerKind),
		j.splitByReading(byShape[shapeUUID], uuids, j.remainderKind(UUIDOther)),
		j.splitByReading(byShape[shapeHex], uuids, j.remainderKind(Opaque)),
		j.splitByReading(byShape[shapeBytes], slices.Concat(uuids, []hypothesis{ulid}), j.remainderKind(Opaque)),
		j.splitByReading(byShape[shapeBase32], []hypothesis{ulid}, j.remainderKind(Opaque)),
		j.splitByReading(byShape[shapeTime], nil, func([]*sampleValue) Kind { return TimeText }),
		j.splitByReading(byShape[shapeDate], nil, func([]*sampleValue) Kind { return Date }),
		j.splitByReading(byShape[shapeText], nil, func([]*sampleValue) Kind { return Opaque }),
	)
	found = mergeFindings(found)
	for i := range found {
		f := &found[i]
		slices.SortFunc(f.values, func(a, b *sampleValue) int { return cmp.Compare(a.first, b.first) })
		f.trend = trendOf(f.values)
		for _, s := range f.values {
			f.count += s.count
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(b.count, a.count) })
	return found
}

// mergeFindings joins findings of one kind, as when two shapes are both opaque.
func mergeFindings(found []finding) []finding {
	var out []finding
next:
	for _, f := range found {
		for i := range out {
			if out[i].kind == f.kind && out[i].epoch == f.epoch {
				out[i].values = append(out[i].values, f.values...)
				out[i].chance = max(out[i].chance, f.chance)
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

// splitByReading takes the best reading of the values, then the best of what it leaves,
// until none is better than luck; rest names the remainder.
func (j *classifier) splitByReading(values []*sampleValue, hs []hypothesis, rest func([]*sampleValue) Kind) []finding {
	var found []finding
	for len(values) > 0 {
		f, ok := j.bestReading(values, hs, rest)
		if !ok {
			kind := rest(values)
			return append(found, finding{kind: kind, values: values, chance: 1})
		}
		found = append(found, f)
		fits := make(map[*sampleValue]bool, len(f.values))
		for _, s := range f.values {
			fits[s] = true
		}
		values = slices.DeleteFunc(slices.Clone(values), func(s *sampleValue) bool { return fits[s] })
	}
	return found
}

// candidate is a hypothesis that passed, with what ranks it.
type candidate struct {
	finding
	read   func(*sampleValue) (time.Time, bool)
	order  int // of the hypothesis: likelier kinds are listed first
	newest time.Time
}

// bestReading returns the accepted reading that ranks first.
func (j *classifier) bestReading(values []*sampleValue, hs []hypothesis, rest func([]*sampleValue) Kind) (finding, bool) {
	if len(values) < j.opts.MinSample {
		return finding{}, false
	}
	var accepted []candidate
	for i, h := range hs {
		if c, ok := j.tryHypothesis(values, h, rest); ok {
			c.order = i
			accepted = append(accepted, c)
		}
	}
	if len(accepted) == 0 {
		return finding{}, false
	}
	top := accepted[0]
	for _, c := range accepted[1:] {
		if j.ranksAbove(c, top) {
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
	for _, s := range f.values {
		s.time, _ = top.read(s)
	}
	return f, true
}

// tryHypothesis accepts a hypothesis if luck does not explain how many values fit it
// and in which order they came.
func (j *classifier) tryHypothesis(values []*sampleValue, h hypothesis, rest func([]*sampleValue) Kind) (candidate, bool) {
	c, peers, luck := h.collectFits(values)
	fits := c.values
	if len(fits) < j.opts.MinSample || luck > 0.95 || h.kind == UUIDv4 && !leadingBytesVary(fits) {
		return c, false
	}
	if h.filledChance != nil {
		luck = max(luck, min(1, h.filledChance(findLargest(values))*256/255))
	}
	trace := 1.
	if h.structure != nil {
		c.structure, trace = h.structure(fits)
	}
	// Fit, traces and order are independent in meaningless values. Order alone
	// shows that values rise, not what they are, so the others must speak too.
	fit := combineChances(binomialTail(peers, len(fits), luck), trace)
	c.chance = combineChances(fit, trendOf(fits).chance)
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

// collectFits collects the values that fit. peers is how many could have fitted,
// and luck the probability that a meaningless one of them would.
func (h hypothesis) collectFits(values []*sampleValue) (c candidate, peers int, luck float64) {
	c.finding = finding{kind: h.kind, epoch: h.epoch}
	c.read = h.read
	largest := uint64(0)
	var others []*sampleValue
	for _, s := range values {
		t, ok := h.read(s)
		if !ok {
			others = append(others, s)
			continue
		}
		c.values = append(c.values, s)
		largest = max(largest, s.num)
		if t.After(c.newest) {
			c.newest = t
		}
	}
	// Integers 256 times smaller are another population: a draw from the same
	// range would hardly ever bring them, and they must not hide a part.
	peers = len(c.values)
	for _, s := range others {
		if s.num >= largest>>8 {
			peers++
		}
	}
	return c, peers, min(1, h.fitChance(largest)*256/255)
}

func findLargest(values []*sampleValue) (largest uint64) {
	for _, s := range values {
		largest = max(largest, s.num)
	}
	return largest
}

// ranksAbove decides between two readings of the same values: by how many fit,
// by traces that only one of them explains, by whether the newest is recent.
func (j *classifier) ranksAbove(a, b candidate) bool {
	if n, m := len(a.values), len(b.values); 20*n > 21*m || 20*m > 21*n {
		return n > m
	}
	if s, t := a.structure != "", b.structure != ""; s != t {
		return s
	}
	age := func(c candidate) time.Duration { return j.now.Sub(c.newest).Abs() }
	if s, t := age(a) <= recentAge, age(b) <= recentAge; s != t {
		return s
	}
	if a.kind != b.kind {
		return a.order < b.order
	}
	return age(a) < age(b)
}

// leadingBytesVary distinguishes random UUIDs from counters dressed up as such.
func leadingBytesVary(values []*sampleValue) bool {
	seen := map[[4]byte]bool{}
	for _, s := range values {
		seen[[4]byte(s.bytes[:4])] = true
	}
	return 10*len(seen) >= 9*len(values)
}

func (j *classifier) remainderKind(kind Kind) func([]*sampleValue) Kind {
	return func(values []*sampleValue) Kind {
		if len(values) < j.opts.MinSample {
			return Unknown
		}
		return kind
	}
}

// plainIntegerKind names integers that carry no time.
func (j *classifier) plainIntegerKind(values []*sampleValue) Kind {
	n := len(values)
	if n < j.opts.MinSample {
		return Unknown
	}
	least, most, repeats := math.Inf(1), math.Inf(-1), false
	for _, s := range values {
		least, most = min(least, s.toFloat()), max(most, s.toFloat())
		repeats = repeats || s.count > 1
	}
	size := most - least + 1
	switch {
	case trendOf(values).followsArrival():
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

// buildRecognition turns the findings into the answer.
func (j *classifier) buildRecognition(distinct []*sampleValue) Recognition {
	r := Recognition{Values: j.values, Distinct: len(distinct)}
	if !j.hasEnoughValues(distinct) {
		r.addEvidence("%d distinct values; a verdict needs %d", len(distinct), j.opts.MinSample)
		r.Rising = trendOf(distinct).risingShare()
		j.checkLowCardinality(&r, distinct)
		return r.withAdvice("")
	}
	found := j.classifyValues(distinct)
	for _, f := range found {
		r.Parts = append(r.Parts, Part{f.kind, f.count, float64(f.count) / float64(j.values)})
	}
	top := found[0]
	if r.Parts[0].Share < 0.9 {
		j.describeMixed(&r, found, distinct)
		return r.withAdvice("")
	}
	r.Kind, r.Epoch, r.Share = top.kind, top.epoch, r.Parts[0].Share
	r.Alternatives = top.alternatives
	r.Rising = top.trend.risingShare()
	r.Oldest, r.Newest = timesOf(top.values)
	if r.Kind != Unknown {
		r.Confidence = lowerBound(len(top.values), len(distinct))
	}
	j.explainFinding(&r, top)
	advice := ""
	r.AppendUnsafe, advice = j.isAppendUnsafe(&r, top)
	if r.Kind == RandomInt || r.Kind == Opaque || r.Kind == Unknown {
		j.checkLowCardinality(&r, distinct)
	}
	return r.withAdvice(advice)
}

// hasEnoughValues reports whether the sample is large enough for a verdict. Repeats
// count only where a value's form alone says what it is: one date a thousand
// times is a date, one number a thousand times is nothing yet.
func (j *classifier) hasEnoughValues(distinct []*sampleValue) bool {
	if len(distinct) >= j.opts.MinSample {
		return true
	}
	plain := 0
	for _, s := range distinct {
		if s.shape == shapeTime || s.shape == shapeDate {
			plain += s.count
		}
	}
	return j.values >= j.opts.MinSample && 10*plain >= 9*j.values
}

// addEvidence adds a sentence of evidence.
func (r *Recognition) addEvidence(format string, args ...any) {
	r.Evidence = append(r.Evidence, fmt.Sprintf(format, args...))
}

// withAdvice fills in the advice: the special one, or else the kind's own.
func (r Recognition) withAdvice(special string) Recognition {
	r.Advice = kindInfo[r.Kind].advice
	if special != "" && r.Kind != LowCardinality {
		r.Advice = special
	}
	return r
}

// explainFinding words what the top finding rests on.
func (j *classifier) explainFinding(r *Recognition, f finding) {
	name := f.kind.String()
	if f.epoch != "" {
		name += " with the epoch of " + f.epoch
	}
	switch f.kind {
	case Unknown, RandomInt, Opaque, UUIDOther:
		r.addEvidence("%d of %d values show no pattern known here", f.count, j.values)
	default:
		r.addEvidence("%d of %d values fit %s", f.count, j.values, name)
	}
	if f.chance < 1 {
		// Below a billionth the figure means only "not by luck".
		r.addEvidence("meaningless values would do so with a chance below %.0e", max(f.chance, 1e-9))
	}
	if !r.Oldest.IsZero() {
		r.addEvidence("they carry times from %s to %s", r.Oldest.Format(time.RFC3339), r.Newest.Format(time.RFC3339))
	}
	if f.structure != "" {
		r.addEvidence("%s", f.structure)
	}
	r.addEvidence("%d of %d steps rise in arrival order", f.trend.risingSteps, f.trend.steps)
	for _, k := range f.alternatives {
		r.addEvidence("the values would also fit %v", k)
	}
	if rest := j.values - f.count; rest > 0 {
		r.addEvidence("%d of %d values fit something else", rest, j.values)
	}
}

// isAppendUnsafe decides whether new keys would all go to one place, and returns an
// advice of its own where the kind's would mislead.
func (j *classifier) isAppendUnsafe(r *Recognition, f finding) (bool, string) {
	follows := f.trend.followsArrival()
	switch {
	case kindInfo[f.kind].ordered:
		if f.kind == OrderedInt {
			r.addEvidence("if the sample was sorted by key, this says nothing: sample in arrival order")
		}
		return true, ""
	case kindInfo[f.kind].clock:
		if follows || j.now.Sub(r.Newest).Abs() <= recentAge {
			return true, ""
		}
		r.addEvidence("the newest is more than %d days from the present and the order is not that of arrival", int(recentAge.Hours()/24))
		return false, notArrivalAdvice
	case !follows:
		return false, ""
	case f.kind == UUIDv4:
		r.addEvidence("random values in order: the sample was sorted by key")
		return false, ""
	}
	r.addEvidence("the values follow arrival, unless the sample was sorted by key")
	return true, risingAdvice
}

// checkLowCardinality changes the verdict if hardly any value was seen only once:
// the share of such values estimates the chance that the next one is new.
func (j *classifier) checkLowCardinality(r *Recognition, distinct []*sampleValue) {
	once := 0
	for _, s := range distinct {
		if s.count == 1 {
			once++
		}
	}
	if j.values < 4*j.opts.MinSample || 4*len(distinct) > j.values || 50*once > j.values {
		return
	}
	r.Kind, r.Share, r.AppendUnsafe = LowCardinality, 1, false
	r.Confidence = lowerBound(j.values-once, j.values)
	r.Parts = []Part{{LowCardinality, j.values, 1}}
	r.addEvidence("%d distinct values among %d, %d of them seen once", len(distinct), j.values, once)
}

// describeMixed words a sample that no kind covers.
func (j *classifier) describeMixed(r *Recognition, found []finding, distinct []*sampleValue) {
	r.Kind, r.Share = Mixed, 1
	r.Rising = trendOf(distinct).risingShare()
	known := 0
	for i, f := range found {
		r.addEvidence("%.0f %% are %v", math.Round(r.Parts[i].Share*100), f.kind)
		if f.kind != Unknown {
			known += len(f.values)
		}
		part := Recognition{}
		part.Oldest, part.Newest = timesOf(f.values)
		if unsafe, _ := j.isAppendUnsafe(&part, f); unsafe && r.Parts[i].Share >= 0.1 {
			r.AppendUnsafe = true
			r.addEvidence("new keys of kind %v lie at one end", f.kind)
		}
	}
	r.Confidence = lowerBound(known, len(distinct))
}

// timesOf returns the bounds of the times that values carry.
func timesOf(values []*sampleValue) (oldest, newest time.Time) {
	for _, s := range values {
		if s.time.IsZero() {
			continue
		}
		if oldest.IsZero() || s.time.Before(oldest) {
			oldest = s.time
		}
		if newest.IsZero() || s.time.After(newest) {
			newest = s.time
		}
	}
	return oldest, newest
}
