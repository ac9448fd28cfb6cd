package heat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
	"unsafe"
)

// Ranges is a sample of operations that answers how much any range of keys is asked, and where to cut a range so that
// its pieces are asked alike. It keeps a bounded number of operations, the expensive ones more likely, and estimates
// are right on average: those of a range with a share s of the load are off by about sqrt(s/capacity) of all of it.
//
// It belongs to one goroutine at a time.
type Ranges struct {
	capacity int
	// entries are those with the highest priorities, as a heap with the least first.
	entries []rangeEntry
	// threshold is the highest priority of those that were left out. An entry of weight w stands for max(1,
	// threshold/w) operations like it.
	threshold float64
	total     RangeLoad
	random    *rand.PCG
	keyBytes  int
}

// rangeEntry is an operation of the sample.
type rangeEntry struct {
	key []byte
	// weight is how much the operation matters, by its cost, and priority the weight divided by a random number from
	// 0 to 1: the entries with the highest are a fair sample, also if samples are merged and what is old weighs less.
	weight, priority float64
	load             RangeLoad
	service          time.Duration
}

// RangeLoad is how much a range was asked: operations and bytes.
type RangeLoad struct {
	Reads, Writes, BytesIn, BytesOut, Conflicts float64
}

// Ops is how many operations there were.
func (l RangeLoad) Ops() float64 { return l.Reads + l.Writes }

func (l *RangeLoad) add(o RangeLoad, factor float64) {
	l.Reads += o.Reads * factor
	l.Writes += o.Writes * factor
	l.BytesIn += o.BytesIn * factor
	l.BytesOut += o.BytesOut * factor
	l.Conflicts += o.Conflicts * factor
}

// loadOf is an operation as a load, so many times.
func loadOf(a *Access, weight float64) RangeLoad {
	l := RangeLoad{BytesIn: float64(max(a.BytesIn, 0)) * weight, BytesOut: float64(max(a.BytesOut, 0)) * weight}
	if a.Write {
		l.Writes = weight
	} else {
		l.Reads = weight
	}
	if a.Conflict {
		l.Conflicts = weight
	}
	return l
}

// NewRanges returns an empty sample of up to so many operations, 16 to 2^20, whose random numbers come from a seed.
func NewRanges(capacity int, seed uint64) (*Ranges, error) {
	if capacity < minRangeSamples || capacity > maxRangeSamples {
		return nil, fmt.Errorf("%w: a sample of %d operations: use %d to %d", ErrOptions, capacity, minRangeSamples, maxRangeSamples)
	}
	return &Ranges{capacity: capacity, random: rand.NewPCG(seed, rangesStream)}, nil
}

// Total is the load of all ranges together. It has no error.
func (r *Ranges) Total() RangeLoad { return r.total }

// Len is how many operations are in the sample.
func (r *Ranges) Len() int { return len(r.entries) }

// Bytes is how much memory the sample takes, about.
func (r *Ranges) Bytes() int {
	return cap(r.entries)*int(unsafe.Sizeof(rangeEntry{})) + r.keyBytes
}

// Add hands in an operation that stands for so many.
func (r *Ranges) Add(a *Access, weight float64) {
	if !(weight > 0) {
		return
	}
	load := loadOf(a, weight)
	r.total.add(load, 1)
	cost := weight * (1 + a.bytes()/costBytes)
	priority := cost / r.draw()
	if len(r.entries) == r.capacity && priority <= r.entries[0].priority {
		r.threshold = max(r.threshold, priority)
		return
	}
	if priority <= r.threshold { // as if it had come before the entries were forgotten
		return
	}
	r.keep(&rangeEntry{key: keptKey(a.Key), weight: cost, priority: priority, load: load, service: a.Service})
}

// keep takes an entry into the sample. Its key is copied.
func (r *Ranges) keep(from *rangeEntry) {
	i := 0
	switch n := len(r.entries); {
	case n == r.capacity:
		r.threshold = max(r.threshold, r.entries[0].priority)
	case n < cap(r.entries):
		i, r.entries = n, r.entries[:n+1] // with the memory of a key
	default:
		i, r.entries = n, append(r.entries, rangeEntry{})
	}
	e := &r.entries[i]
	r.keyBytes -= cap(e.key)
	key := append(e.key[:0], from.key...)
	*e = *from
	e.key = key
	r.keyBytes += cap(key)
	for ; i > 0 && r.entries[i].priority < r.entries[(i-1)/2].priority; i = (i - 1) / 2 {
		r.entries[i], r.entries[(i-1)/2] = r.entries[(i-1)/2], r.entries[i]
	}
	r.siftDown(i)
}

// draw returns a random number above 0 and up to 1.
func (r *Ranges) draw() float64 { return float64(r.random.Uint64()>>11+1) / (1 << 53) }

func (r *Ranges) siftDown(i int) {
	for e := r.entries; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(e); child++ {
			if e[child].priority < e[least].priority {
				least = child
			}
		}
		if least == i {
			return
		}
		e[i], e[least] = e[least], e[i]
		i = least
	}
}

// Merge adds what another sample has seen, and leaves that as it is.
func (r *Ranges) Merge(o *Ranges) {
	r.total.add(o.total, 1)
	r.threshold = max(r.threshold, o.threshold)
	for i := range o.entries {
		from := &o.entries[i]
		if len(r.entries) == r.capacity && from.priority <= r.entries[0].priority {
			r.threshold = max(r.threshold, from.priority)
			continue
		}
		r.keep(from)
	}
	r.dropBelowThreshold()
}

// dropBelowThreshold leaves out entries that the other sample of a merge would have left out.
func (r *Ranges) dropBelowThreshold() {
	for len(r.entries) > 0 && r.entries[0].priority < r.threshold {
		last := len(r.entries) - 1
		r.entries[0], r.entries[last] = r.entries[last], r.entries[0]
		r.entries = r.entries[:last]
		r.siftDown(0)
	}
}

// Scale multiplies all that was seen by a factor above 0 and up to 1, so that what is older counts less. Operations
// of which less than a millionth is left are forgotten.
func (r *Ranges) Scale(factor float64) {
	kept := 0
	for i := range r.entries {
		e := &r.entries[i]
		e.weight, e.priority = e.weight*factor, e.priority*factor
		var load RangeLoad
		load.add(e.load, factor)
		e.load = load
		if e.weight >= leastWeight {
			r.entries[kept], r.entries[i] = r.entries[i], r.entries[kept]
			kept++
		}
	}
	r.entries = r.entries[:kept]
	for i := kept/2 - 1; i >= 0; i-- {
		r.siftDown(i)
	}
	var total RangeLoad
	total.add(r.total, factor)
	r.total = total
	r.threshold *= factor
}

// Reset forgets all operations, and keeps the memory for others.
func (r *Ranges) Reset() {
	r.entries, r.threshold, r.total = r.entries[:0], 0, RangeLoad{}
}

// standsFor is how many operations like it an entry stands for.
func (r *Ranges) standsFor(e *rangeEntry) float64 { return max(1, r.threshold/e.weight) }

// Load estimates the load of the keys from start up to end, which is not included. An end that is nil is that of all
// keys.
func (r *Ranges) Load(start, end []byte) RangeLoad {
	var l RangeLoad
	for i := range r.entries {
		if e := &r.entries[i]; isInRange(e.key, start, end) {
			l.add(e.load, r.standsFor(e))
		}
	}
	return l
}

// Loads estimates the loads of all ranges between boundaries, which are in order: the first is that of the keys below
// bounds[0], the last that of the others from the last boundary on. For many ranges it takes far less time than Load
// for each.
func (r *Ranges) Loads(bounds [][]byte) []RangeLoad {
	loads := make([]RangeLoad, len(bounds)+1)
	for i := range r.entries {
		e := &r.entries[i]
		at := sort.Search(len(bounds), func(j int) bool { return bytes.Compare(bounds[j], e.key) > 0 })
		loads[at].add(e.load, r.standsFor(e))
	}
	return loads
}

func isInRange(key, start, end []byte) bool {
	return bytes.Compare(key, start) >= 0 && (end == nil || bytes.Compare(key, end) < 0)
}

// keyWeight is a key of the sample and what its operations weigh.
type keyWeight struct {
	key     []byte
	weight  float64
	samples int
}

// weighKeys returns the keys of a range in order.
func (r *Ranges) weighKeys(start, end []byte, weigh func(RangeLoad) float64) (keys []keyWeight) {
	for i := range r.entries {
		e := &r.entries[i]
		if w := weigh(e.load) * r.standsFor(e); w > 0 && isInRange(e.key, start, end) {
			keys = append(keys, keyWeight{e.key, w, 1})
		}
	}
	slices.SortFunc(keys, func(a, b keyWeight) int { return bytes.Compare(a.key, b.key) })
	merged := keys[:0]
	for _, k := range keys {
		if n := len(merged); n > 0 && bytes.Equal(merged[n-1].key, k.key) {
			merged[n-1].weight += k.weight
			merged[n-1].samples++
			continue
		}
		merged = append(merged, k)
	}
	return merged
}
