package heat

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrUnsplittable means that no cut of a range gives pieces as they are wanted. The text says why: see
// [UnsplittableError].
var ErrUnsplittable = errors.New("heat: unsplittable")

// UnsplittableError is why a range has no cut.
type UnsplittableError struct {
	// Samples is how many operations on the range are known, and MinSamples how many are needed.
	Samples, MinSamples int
	// Key is the hottest key and Share its part of the load. A cut beside a key that has most of it relieves nothing:
	// cache it, split its value, or limit its callers.
	Key   []byte
	Share float64
}

// Error says why the range has no cut.
func (e *UnsplittableError) Error() string {
	switch {
	case e.Samples < e.MinSamples:
		return fmt.Sprintf("heat: unsplittable: %d operations on the range are known, %d are needed: wait", e.Samples, e.MinSamples)
	case e.Share >= 0.5:
		return fmt.Sprintf("heat: unsplittable: one key, %q, has %.0f %% of the load: cache it or split its value", e.Key, 100*e.Share)
	}
	return fmt.Sprintf("heat: unsplittable: each cut leaves a piece that is too small; the hottest key, %q, has %.0f %% of the load", e.Key, 100*e.Share)
}

// Is reports whether target is ErrUnsplittable.
func (e *UnsplittableError) Is(target error) bool { return target == ErrUnsplittable }

// SplitOptions say how a range is to be cut. The zero value cuts all keys in two halves of equal operations.
type SplitOptions struct {
	// Start and End are the range. End is not included; nil is the end of all keys.
	Start, End []byte
	// Weigh is what pieces are to have alike. Default RangeLoad.Ops.
	Weigh func(RangeLoad) float64
	// Pieces is how many there shall be. Default 2, at most 1024.
	Pieces int
	// Candidates is how many splits are returned at most. Default 3.
	Candidates int
	// MinShare is the least share of the load that a piece may have. Default half of an even one.
	MinShare float64
	// Size returns how many bytes are stored in a range, and MinBytes is the least that a piece may have. Without
	// Size it does not matter.
	Size     func(start, end []byte) int64
	MinBytes int64
	// MinSamples is how many operations must be known. Default 64: with fewer, halves are off by more than 6 %.
	MinSamples int
	// Jitter is by which part of a piece a cut of a candidate is moved at most, so that splits which are repeated, or
	// made by several processes, do not choose the same key for ever. Default 0.1.
	Jitter float64
	// Random returns uniform numbers. Without it there is one candidate.
	Random func() uint64
}

func (o SplitOptions) withDefaults() (SplitOptions, error) {
	if o.Weigh == nil {
		o.Weigh = RangeLoad.Ops
	}
	o.Pieces, o.Candidates, o.MinSamples = cmp.Or(o.Pieces, 2), cmp.Or(o.Candidates, 3), cmp.Or(o.MinSamples, 64)
	o.Jitter = cmp.Or(o.Jitter, 0.1)
	even := 1 / float64(o.Pieces)
	o.MinShare = cmp.Or(o.MinShare, even/2)
	switch {
	case o.Pieces < 2 || o.Pieces > maxPieces:
		return o, fmt.Errorf("%w: Pieces is %d: use 2 to %d", ErrOptions, o.Pieces, maxPieces)
	case o.Candidates < 1 || o.MinSamples < 1:
		return o, fmt.Errorf("%w: Candidates is %d and MinSamples %d: use at least 1", ErrOptions, o.Candidates, o.MinSamples)
	case !(o.MinShare > 0 && o.MinShare < even):
		return o, fmt.Errorf("%w: MinShare is %v: use more than 0 and less than an even share, %v", ErrOptions, o.MinShare, even)
	case !(o.Jitter >= 0 && o.Jitter <= 0.5):
		return o, fmt.Errorf("%w: Jitter is %v: use 0 to 0.5", ErrOptions, o.Jitter)
	}
	return o, nil
}

// Split is a way to cut a range.
type Split struct {
	// Keys are the first keys of all pieces but the first, in order. They are keys that were asked for.
	Keys [][]byte
	// Shares are the parts of the load that the pieces have, and Deviation the standard deviation of each, by sampling.
	Shares    []float64
	Deviation float64
}

// Largest is the share of the piece that has the most.
func (s *Split) Largest() float64 { return slices.Max(s.Shares) }

// Split returns ways to cut a range, the most even first. It fails with an [UnsplittableError] if there is none.
func (r *Ranges) Split(o SplitOptions) ([]Split, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := splitFinder{o: o, keys: r.weighKeys(o.Start, o.End, o.Weigh)}
	unsplittable := &UnsplittableError{MinSamples: o.MinSamples}
	hottest := 0.0
	for _, k := range f.keys {
		f.total += k.weight
		unsplittable.Samples += k.samples
		if k.weight > hottest {
			hottest, unsplittable.Key = k.weight, k.key
		}
	}
	if unsplittable.Samples < o.MinSamples {
		return nil, unsplittable
	}
	unsplittable.Share, unsplittable.Key = hottest/f.total, slices.Clone(unsplittable.Key)
	f.deviation = 0.5 / math.Sqrt(float64(unsplittable.Samples))
	splits := f.find()
	if len(splits) == 0 {
		return nil, unsplittable
	}
	return splits, nil
}

// splitFinder looks for cuts among the keys of a range.
type splitFinder struct {
	o         SplitOptions
	keys      []keyWeight
	total     float64
	deviation float64
}

// drawsPerCandidate is how often another jitter is tried: near a hot key most give the same cut.
const drawsPerCandidate = 8

func (f *splitFinder) find() (splits []Split) {
	for draw := range 1 + drawsPerCandidate*(f.o.Candidates-1) {
		if len(splits) == f.o.Candidates || draw > 0 && f.o.Random == nil {
			break
		}
		s, ok := f.cut(draw > 0)
		known := slices.ContainsFunc(splits, func(other Split) bool { return slices.EqualFunc(s.Keys, other.Keys, bytes.Equal) })
		if ok && !known {
			splits = append(splits, s)
		}
	}
	slices.SortStableFunc(splits, func(a, b Split) int { return cmp.Compare(a.Largest(), b.Largest()) })
	return splits
}

// cut returns the split whose pieces come nearest to even ones, or to ones that chance has moved.
func (f *splitFinder) cut(jittered bool) (s Split, ok bool) {
	s.Deviation = f.deviation
	piece := f.total / float64(f.o.Pieces)
	before, last, next := 0.0, 0.0, 0 // before is the weight of the keys below next, last that below the last cut
	start := f.o.Start
	for i := 1; i <= f.o.Pieces; i++ {
		target, end := piece*float64(i), f.o.End
		if i == f.o.Pieces {
			before = f.total
		} else {
			if jittered {
				target += piece * f.o.Jitter * (2*float64(f.o.Random()>>11)/(1<<53) - 1)
			}
			for next < len(f.keys) && before+f.keys[next].weight/2 < target {
				before += f.keys[next].weight
				next++
			}
			if next == len(f.keys) {
				return s, false
			}
			end = slices.Clone(f.keys[next].key)
		}
		share := (before - last) / f.total
		if share < f.o.MinShare || f.o.Size != nil && f.o.Size(start, end) < f.o.MinBytes {
			return s, false
		}
		s.Shares = append(s.Shares, share)
		if i < f.o.Pieces {
			s.Keys = append(s.Keys, end)
		}
		last, start = before, end
	}
	return s, true
}
