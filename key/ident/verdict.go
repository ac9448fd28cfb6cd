package ident

import (
	"fmt"
	"math"
	"time"
)

// verdict turns the findings into the answer.
func (j *judge) verdict(distinct []*specimen) Recognition {
	r := Recognition{Values: j.values, Distinct: len(distinct)}
	if !j.enough(distinct) {
		r.say("%d distinct values; a verdict needs %d", len(distinct), j.opts.MinSample)
		r.Rising = trendOf(distinct).rising()
		j.lowCardinality(&r, distinct)
		return r.advise("")
	}
	found := j.classify(distinct)
	for _, f := range found {
		r.Parts = append(r.Parts, Part{f.kind, f.count, float64(f.count) / float64(j.values)})
	}
	top := found[0]
	if r.Parts[0].Share < 0.9 {
		j.mixed(&r, found, distinct)
		return r.advise("")
	}
	r.Kind, r.Epoch, r.Share = top.kind, top.epoch, r.Parts[0].Share
	r.Alternatives = top.alternatives
	r.Rising = top.trend.rising()
	r.Oldest, r.Newest = timesOf(top.specimens)
	if r.Kind != Unknown {
		r.Confidence = lowerBound(len(top.specimens), len(distinct))
	}
	j.explain(&r, top)
	advice := ""
	r.AppendUnsafe, advice = j.appendUnsafe(&r, top)
	if r.Kind == RandomInt || r.Kind == Opaque || r.Kind == Unknown {
		j.lowCardinality(&r, distinct)
	}
	return r.advise(advice)
}

// enough reports whether the sample is large enough for a verdict. Repeats
// count only where a value's form alone says what it is: one date a thousand
// times is a date, one number a thousand times is nothing yet.
func (j *judge) enough(distinct []*specimen) bool {
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

// say adds a sentence of evidence.
func (r *Recognition) say(format string, args ...any) {
	r.Evidence = append(r.Evidence, fmt.Sprintf(format, args...))
}

// advise fills in the advice: the special one, or else the kind's own.
func (r Recognition) advise(special string) Recognition {
	r.Advice = kinds[r.Kind].advice
	if special != "" && r.Kind != LowCardinality {
		r.Advice = special
	}
	return r
}

// explain words what the top finding rests on.
func (j *judge) explain(r *Recognition, f finding) {
	name := f.kind.String()
	if f.epoch != "" {
		name += " with the epoch of " + f.epoch
	}
	switch f.kind {
	case Unknown, RandomInt, Opaque, UUIDOther:
		r.say("%d of %d values show no pattern known here", f.count, j.values)
	default:
		r.say("%d of %d values fit %s", f.count, j.values, name)
	}
	if f.chance < 1 {
		// Below a billionth the figure means only "not by luck".
		r.say("meaningless values would do so with a chance below %.0e", max(f.chance, 1e-9))
	}
	if !r.Oldest.IsZero() {
		r.say("they carry times from %s to %s", r.Oldest.Format(time.RFC3339), r.Newest.Format(time.RFC3339))
	}
	if f.structure != "" {
		r.say("%s", f.structure)
	}
	r.say("%d of %d steps rise in arrival order", f.trend.up, f.trend.steps)
	for _, k := range f.alternatives {
		r.say("the values would also fit %v", k)
	}
	if rest := j.values - f.count; rest > 0 {
		r.say("%d of %d values fit something else", rest, j.values)
	}
}

// appendUnsafe decides whether new keys would all go to one place, and returns an
// advice of its own where the kind's would mislead.
func (j *judge) appendUnsafe(r *Recognition, f finding) (bool, string) {
	follows := f.trend.follows()
	switch {
	case kinds[f.kind].ordered:
		if f.kind == OrderedInt {
			r.say("if the sample was sorted by key, this says nothing: sample in arrival order")
		}
		return true, ""
	case kinds[f.kind].clock:
		if follows || j.now.Sub(r.Newest).Abs() <= fresh {
			return true, ""
		}
		r.say("the newest is more than %d days from the present and the order is not that of arrival", int(fresh.Hours()/24))
		return false, calmAdvice
	case !follows:
		return false, ""
	case f.kind == UUIDv4:
		r.say("random values in order: the sample was sorted by key")
		return false, ""
	}
	r.say("the values follow arrival, unless the sample was sorted by key")
	return true, risesWords
}

// lowCardinality changes the verdict if hardly any value was seen only once:
// the share of such values estimates the chance that the next one is new.
func (j *judge) lowCardinality(r *Recognition, distinct []*specimen) {
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
	r.say("%d distinct values among %d, %d of them seen once", len(distinct), j.values, once)
}

// mixed words a sample that no kind covers.
func (j *judge) mixed(r *Recognition, found []finding, distinct []*specimen) {
	r.Kind, r.Share = Mixed, 1
	r.Rising = trendOf(distinct).rising()
	known := 0
	for i, f := range found {
		r.say("%.0f %% are %v", math.Round(r.Parts[i].Share*100), f.kind)
		if f.kind != Unknown {
			known += len(f.specimens)
		}
		part := Recognition{}
		part.Oldest, part.Newest = timesOf(f.specimens)
		if unsafe, _ := j.appendUnsafe(&part, f); unsafe && r.Parts[i].Share >= 0.1 {
			r.AppendUnsafe = true
			r.say("new keys of kind %v lie at one end", f.kind)
		}
	}
	r.Confidence = lowerBound(known, len(distinct))
}

// timesOf returns the bounds of the times that values carry.
func timesOf(values []*specimen) (oldest, newest time.Time) {
	for _, s := range values {
		if s.when.IsZero() {
			continue
		}
		if oldest.IsZero() || s.when.Before(oldest) {
			oldest = s.when
		}
		if newest.IsZero() || s.when.After(newest) {
			newest = s.when
		}
	}
	return oldest, newest
}
