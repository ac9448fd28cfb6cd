package advisor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Drift is what has changed between a report that was kept and a later one: whether a key that was
// right still is.
type Drift struct {
	// Since is when the report was made that was kept.
	Since  time.Time `json:"since"`
	Layout string    `json:"layout"`
	Kind   string    `json:"kind"`
	// StillRight means that the grade is A, B or C and no worse than it was, or A or B.
	StillRight bool   `json:"still_right"`
	Was        string `json:"was"` // grades
	Is         string `json:"is"`
	// Moved are the figures that have changed by more than chance explains.
	Moved []Moved `json:"moved"`
	// Sentence says it in words.
	Sentence string `json:"sentence"`
}

// Moved is a figure that has changed.
type Moved struct {
	What string   `json:"what"`
	Was  Interval `json:"was"`
	Is   Interval `json:"is"`
}

// String returns the figure with both values.
func (m Moved) String() string {
	return fmt.Sprintf("%s %.2f -> %.2f", m.What, m.Was.Value, m.Is.Value)
}

// KeyInUse returns the result about the key that the report is kept for: the current one, or else the
// best. It is nil if there is none.
func (r *Report) KeyInUse() *Result {
	if r.Current != nil || len(r.Candidates) == 0 {
		return r.Current
	}
	return &r.Candidates[0]
}

// Least changes that count, besides that the intervals must not meet.
const (
	movedSkew  = 0.1  // of the figure
	movedShare = 0.05 // of all rows or queries
)

// Compare finds what has changed since a report was kept. The later report must have the same key as
// its current one; the columns of both are matched by name. Of stored records and of traffic the grades
// alone are compared.
func Compare(kept, later *Report) (*Drift, error) {
	was, is := kept.KeyInUse(), later.Current
	if was == nil {
		return nil, fmt.Errorf("%w: the report that was kept has no key", ErrOptions)
	}
	if is == nil {
		return nil, fmt.Errorf("%w: the later report has no current key", ErrOptions)
	}
	d := &Drift{Since: kept.At, Layout: is.Layout, Kind: is.Kind, Was: was.Grade, Is: is.Grade}
	if kept.Traffic != later.Traffic {
		d.settle(kept, was, is)
		return d, nil
	}
	bytes, writes := "bytes of the fullest shard over the mean", "writes of the most written shard over the mean"
	if later.Traffic {
		bytes, writes = "bytes that the busiest shard moves over the mean", "operations of the busiest shard over the mean"
	}
	d.addSkew(bytes, &was.Skews[0].Bytes, &is.Skews[0].Bytes)
	d.addSkew(writes, was.Writes, is.Writes)
	d.addShare("share of the largest key", was.LargestKey, is.LargestKey)
	d.addShare("share of rows that have the key", was.Present, is.Present)
	if was.Queries != nil && is.Queries != nil {
		d.addShare("share of queries that ask one shard", exactly(was.Queries.Single), exactly(is.Queries.Single))
		d.addShare("share of updates that change the key", exactly(was.Queries.KeyUpdates), exactly(is.Queries.KeyUpdates))
	}
	for i := range later.Columns {
		c := &later.Columns[i]
		if n := slices.IndexFunc(kept.Columns, func(k Column) bool { return k.Name == c.Name }); n >= 0 {
			d.addColumn(&kept.Columns[n], c)
		}
	}
	d.settle(kept, was, is)
	return d, nil
}

// settle decides by the grades.
func (d *Drift) settle(kept *Report, was, is *Result) {
	d.StillRight = is.Grade <= "B" || is.Grade == "C" && is.Grade <= was.Grade
	d.Sentence = fmt.Sprintf("%s is still right: grade %s, as on %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly))
	switch {
	case is.Grade == "?" || was.Grade == "?":
		d.StillRight = true
		d.Sentence = fmt.Sprintf("whether %s is still right is not known: there are too few rows for a grade", is.Layout)
	case !d.StillRight && is.Grade == was.Grade:
		d.Sentence = fmt.Sprintf("%s was and is wrong: grade %s, as on %s: %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly), is.Sentence)
	case !d.StillRight && was.Grade > "C":
		d.Sentence = fmt.Sprintf("%s is still not right: grade %s, on %s it was %s: %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly), was.Grade, is.Sentence)
	case !d.StillRight:
		d.Sentence = fmt.Sprintf("%s is no longer right: grade %s, on %s it was %s: %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly), was.Grade, is.Sentence)
	case was.Grade > "C":
		d.Sentence = fmt.Sprintf("%s is right: grade %s, on %s it was %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly), was.Grade)
	case is.Grade != was.Grade:
		d.Sentence = fmt.Sprintf("%s is still right: grade %s, on %s it was %s", is.Layout, is.Grade, kept.At.Format(time.DateOnly), was.Grade)
	}
}

func exactly(v float64) Interval { return Interval{v, v, v} }

// meet reports whether two intervals have a value in common.
func (i Interval) meet(other Interval) bool { return i.Low <= other.High && other.Low <= i.High }

func (d *Drift) addSkew(what string, was, is *Interval) {
	if was != nil && is != nil && !was.meet(*is) && math.Abs(is.Value-was.Value) > movedSkew*was.Value {
		d.Moved = append(d.Moved, Moved{what, *was, *is})
	}
}

func (d *Drift) addShare(what string, was, is Interval) {
	if !was.meet(is) && math.Abs(is.Value-was.Value) > movedShare {
		d.Moved = append(d.Moved, Moved{what, was, is})
	}
}

// addColumn compares a column of the key.
func (d *Drift) addColumn(was, is *Column) {
	if !strings.Contains(d.Layout, is.Identifier) {
		return
	}
	d.addShare("share of rows without "+is.Identifier, exactly(was.Nulls), exactly(is.Nulls))
	d.addShare("share of the most frequent value of "+is.Identifier, was.topShare(), is.topShare())
	if is.Distinct.High < was.Distinct.Low/2 {
		d.Moved = append(d.Moved, Moved{"values of " + is.Identifier, was.Distinct, is.Distinct})
	}
}

// topShare is the share of the most frequent value; without one, none has come twice.
func (c *Column) topShare() Interval {
	if len(c.Top) == 0 {
		return Interval{}
	}
	return c.Top[0].Share
}
