// Package classify tells apart why a shard is hot: each class has another remedy. It is pure: it is given measures of a
// window and returns findings with their evidence.
//
// The rules compare shards with the median of all, never with fixed rates: what is much for one machine is little for
// another. A finding needs a load that matters, see [Rules]; below that nothing is hot.
package classify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/partition"
)

// ShardMeasures are what was measured of a shard over a window.
type ShardMeasures struct {
	ID    partition.ShardID
	Group partition.GroupID
	Bytes int64
	// Reads and Writes are operations in a second, ScanShare is which share of the reads are rows of scans.
	Reads, Writes, ScanShare float64
	// Work is the share of its time that its group serves it.
	Work float64
	// P99 is the service time in seconds that one operation in a hundred exceeds, QueueWait the mean wait before.
	P99, QueueWait float64
	// TopKeys are its hottest keys, the hottest first, with their shares of its operations.
	TopKeys []KeyShare
	// AtEnd is the share of its writes whose keys lie behind all that were written in windows before. It is known of
	// ordered keyspaces alone.
	AtEnd float64
	// CrossShard is the share of its operations that are part of a transaction over several shards, and Conflicts the
	// share of these that waited for another or were repeated.
	CrossShard, Conflicts float64
	// AgeWindows is for how many windows it has existed.
	AgeWindows int
}

// KeyShare is a key with its share, and by how much that may be too high.
type KeyShare struct {
	Key          []byte
	Share, Error float64
	// Reads is the share of its operations that are reads.
	Reads float64
}

// Machine is what was measured of the machine of a group over a window.
type Machine struct {
	Group partition.GroupID
	// CPU is the share of its processors in use.
	CPU float64
}

// Class is why a shard, or a machine, needs attention.
type Class uint8

const (
	// Even needs none.
	Even Class = iota
	// HotKey: one key has most of the operations. Splits do not help.
	HotKey
	// HotRange: many warm keys. A split and a move help.
	HotRange
	// MovingEdge: writes come in the order of the key. Splits do not help; another key layout does.
	MovingEdge
	// HotPrefix: reads of many keys that begin alike, or scans of them. Copies help, or a move.
	HotPrefix
	// CrossShard: transactions over several shards wait for each other here. Keys that are written together belong
	// together.
	CrossShard
	// Oversized: it has more bytes than a shard may have.
	Oversized
	// Cold: it is asked for next to nothing. A merge saves what a shard costs.
	Cold
	// Saturated: a machine has no time left, whatever its shards are.
	Saturated
)

var classNames = [...]string{"even", "hot key", "hot range", "moving edge", "hot prefix", "cross-shard contention", "oversized", "cold", "saturated"}

// String is the class in words.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
	return classNames[c]
}

// Classes are all that a finding may have.
func Classes() (all []Class) {
	for c := HotKey; int(c) < len(classNames); c++ {
		all = append(all, c)
	}
	return all
}

// Finding is a class with what shows it.
type Finding struct {
	Class Class
	Shard partition.ShardID // 0 of a machine
	Group partition.GroupID
	// Key is the hottest key of HotKey, and what the keys of HotPrefix begin with.
	Key []byte
	// Reads is the share of reads among the operations of the shard, or of the key of HotKey.
	Reads float64
	// Evidence is the figures that the finding rests on, in words.
	Evidence string
}

// Rules are what the rules go by. The zero value of each is its default.
type Rules struct {
	// TimesMedian is how many times the median of shards a hot one is asked. Default 10.
	TimesMedian float64
	// MinWork is the work below which no shard is hot. Default 0.1.
	MinWork float64
	// KeyShare is the share of a shard's operations that makes a key the reason. Default 0.5.
	KeyShare float64
	// EdgeShare is the share of writes at the end that makes an edge. Default 0.8.
	EdgeShare float64
	// PrefixKeys is how many hot keys with one prefix make a hot prefix. Default 10.
	PrefixKeys int
	// CrossShard and Conflicts are the shares that make contention. Default 0.3 and 0.2.
	CrossShard, Conflicts float64
	// MaxBytes is the size of a shard. 0 for no limit.
	MaxBytes int64
	// ColdShare is the part of the mean of shards below which one is cold. Default 0.01.
	ColdShare float64
	// CPU is the share of a machine's processors that saturates it. Default 0.9. One that uses CPULead more of its own
	// than the mean of the others is named from 0.7 on: it is the earliest sign. Default 0.3.
	CPU, CPULead float64
	// Settled is how many windows a shard exists before it is cold. Default 6.
	Settled int
}

// WithDefaults returns the rules with a default in the place of each zero.
func (l Rules) WithDefaults() Rules {
	l.TimesMedian, l.MinWork, l.KeyShare = cmp.Or(l.TimesMedian, 10), cmp.Or(l.MinWork, 0.1), cmp.Or(l.KeyShare, 0.5)
	l.EdgeShare, l.PrefixKeys = cmp.Or(l.EdgeShare, 0.8), cmp.Or(l.PrefixKeys, 10)
	l.CrossShard, l.Conflicts = cmp.Or(l.CrossShard, 0.3), cmp.Or(l.Conflicts, 0.2)
	l.ColdShare, l.CPU, l.CPULead, l.Settled = cmp.Or(l.ColdShare, 0.01), cmp.Or(l.CPU, 0.9), cmp.Or(l.CPULead, 0.3), cmp.Or(l.Settled, 6)
	return l
}

// Validate returns an error that names the rule which cannot be as it is.
func (l Rules) Validate() error {
	l = l.WithDefaults()
	for _, c := range []struct {
		name       string
		value, max float64
	}{
		{"TimesMedian", l.TimesMedian, math.Inf(1)}, {"MinWork", l.MinWork, 1}, {"KeyShare", l.KeyShare, 1}, {"EdgeShare", l.EdgeShare, 1},
		{"PrefixKeys", float64(l.PrefixKeys), math.Inf(1)}, {"CrossShard", l.CrossShard, 1}, {"Conflicts", l.Conflicts, 1},
		{"ColdShare", l.ColdShare, 1}, {"CPU", l.CPU, 1}, {"CPULead", l.CPULead, 1}, {"Settled", float64(l.Settled), math.Inf(1)},
	} {
		if !(c.value > 0 && c.value <= c.max) {
			return fmt.Errorf("classify: %s is %v: use more than 0 and at most %v", c.name, c.value, c.max)
		}
	}
	return nil
}

// Classify returns what it finds: of each shard the one class whose remedy comes first, and of machines that they are
// saturated. Shards and machines that are even have no finding.
func Classify(shards []ShardMeasures, machines []Machine, l Rules) (found []Finding) {
	l = l.WithDefaults()
	rates, works := make([]float64, len(shards)), map[partition.GroupID]float64{}
	mean := 0.0
	for i, s := range shards {
		rates[i] = s.Reads + s.Writes
		mean += rates[i] / float64(len(shards))
		works[s.Group] += s.Work
	}
	median := medianOf(rates)
	for i := range shards {
		if f := l.classifyShard(&shards[i], median, mean, works); f.Class != Even {
			f.Shard, f.Group = shards[i].ID, shards[i].Group
			if f.Class != HotKey {
				f.Reads = shards[i].Reads / max(rates[i], 1e-9)
			}
			found = append(found, f)
		}
	}
	return append(found, l.findSaturated(machines)...)
}

// classifyShard tries the rules in the order in which their remedies help: contention and edges first, as no split of
// a shard cures them; then one key, which no split divides; then prefixes and ranges.
func (l *Rules) classifyShard(s *ShardMeasures, median, mean float64, works map[partition.GroupID]float64) Finding {
	rate := s.Reads + s.Writes
	if s.CrossShard >= l.CrossShard && s.Conflicts >= l.Conflicts && s.Work >= l.MinWork/2 {
		return Finding{Class: CrossShard, Evidence: fmt.Sprintf("%.0f %% of its operations are in transactions over several shards, and %.0f %% of these conflict", 100*s.CrossShard, 100*s.Conflicts)}
	}
	if isHot, why := l.isHot(s, rate, median, works[s.Group]); isHot {
		if s.AtEnd >= l.EdgeShare && s.Writes >= s.Reads {
			return Finding{Class: MovingEdge, Evidence: fmt.Sprintf("%s; %.0f %% of its writes come behind all keys that were written before", why, 100*s.AtEnd)}
		}
		if len(s.TopKeys) > 0 && s.TopKeys[0].Share-s.TopKeys[0].Error >= l.KeyShare {
			k := s.TopKeys[0]
			return Finding{Class: HotKey, Key: k.Key, Reads: k.Reads, Evidence: fmt.Sprintf("%s; one key has %.0f %% of its operations, %.0f %% at least", why, 100*k.Share, 100*(k.Share-k.Error))}
		}
		if prefix, n, share := l.hotPrefix(s); n > 0 {
			return Finding{Class: HotPrefix, Key: prefix, Evidence: fmt.Sprintf("%s; %d hot keys that are read begin alike, and have %.0f %% of its operations", why, n, 100*share)}
		}
		if s.ScanShare >= 0.8 && s.Reads >= 4*s.Writes {
			return Finding{Class: HotPrefix, Evidence: fmt.Sprintf("%s; %.0f %% of what is read are rows of scans", why, 100*s.ScanShare)}
		}
		return Finding{Class: HotRange, Evidence: why + "; no key has most of it"}
	}
	if l.MaxBytes > 0 && s.Bytes > l.MaxBytes && s.AtEnd < l.EdgeShare { // a shard with an edge may have more
		return Finding{Class: Oversized, Evidence: fmt.Sprintf("it has %s, a shard may have %s", output.Bytes(s.Bytes), output.Bytes(l.MaxBytes))}
	}
	if s.AgeWindows >= l.Settled && mean > 0 && rate < mean*l.ColdShare && (l.MaxBytes == 0 || s.Bytes < l.MaxBytes/4) {
		return Finding{Class: Cold, Evidence: fmt.Sprintf("%s operations a second, %.1f %% of the mean", countOf(rate), 100*rate/mean)}
	}
	return Finding{}
}

// isHot reports whether the load of a shard matters: it is far above the median, it saturates its group, or its queue
// is long while its group does little else.
func (l *Rules) isHot(s *ShardMeasures, rate, median, groupWork float64) (hot bool, why string) {
	switch {
	case s.Work < l.MinWork:
		return false, ""
	case rate >= l.TimesMedian*median && median > 0:
		return true, fmt.Sprintf("%s operations a second, %s times the median", countOf(rate), countOf(rate/median))
	case median == 0:
		return true, fmt.Sprintf("%s operations a second, and next to none for most others", countOf(rate))
	case groupWork >= 0.8 && s.Work >= groupWork/2:
		return true, fmt.Sprintf("it takes %.0f %% of the time of a group that has %.0f %% in use", 100*s.Work, 100*groupWork)
	case s.QueueWait >= 0.005 && s.QueueWait >= 4*s.P99:
		return true, fmt.Sprintf("its requests wait %.1f ms before they are executed, in %.1f ms", 1e3*s.QueueWait, 1e3*s.P99)
	}
	return false, ""
}

// countOf is a rate, or how many times something is, for people.
func countOf(x float64) string { return output.Count(int64(math.Round(x))) }

// hotPrefix finds the longest prefix that enough of the hottest keys share, if these are read far more than written.
func (l *Rules) hotPrefix(s *ShardMeasures) (prefix []byte, n int, share float64) {
	var read []KeyShare
	for _, k := range s.TopKeys {
		if k.Reads >= 0.8 && k.Share-k.Error > 0.005 {
			read = append(read, k)
		}
	}
	if len(read) <= l.PrefixKeys {
		return nil, 0, 0
	}
	// The shortest prefix that says anything has two bytes; of longer ones the longest that keeps enough keys counts.
	slices.SortFunc(read, func(a, b KeyShare) int { return slices.Compare(a.Key, b.Key) })
	for i := 0; i+l.PrefixKeys < len(read); i++ {
		p := commonPrefix(read[i].Key, read[i+l.PrefixKeys].Key)
		if len(p) >= 2 && len(p) > len(prefix) {
			prefix = p
		}
	}
	for _, k := range read {
		if len(prefix) > 0 && len(commonPrefix(prefix, k.Key)) == len(prefix) {
			n++
			share += k.Share
		}
	}
	if share < 0.5 {
		return nil, 0, 0
	}
	return prefix, n, share
}

func commonPrefix(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// findSaturated finds machines without time left, or that leave the others.
func (l *Rules) findSaturated(machines []Machine) (found []Finding) {
	sum := 0.0
	for _, m := range machines {
		sum += m.CPU
	}
	for _, m := range machines {
		others := math.Inf(1)
		if len(machines) > 1 {
			others = (sum - m.CPU) / float64(len(machines)-1)
		}
		switch {
		case m.CPU >= l.CPU:
			found = append(found, Finding{Class: Saturated, Group: m.Group, Evidence: fmt.Sprintf("%.0f %% of its processors are in use", 100*m.CPU)})
		case m.CPU >= 0.7 && m.CPU-others >= l.CPULead:
			found = append(found, Finding{Class: Saturated, Group: m.Group, Evidence: fmt.Sprintf("%.0f %% of its processors are in use, %.0f %% of those of others", 100*m.CPU, 100*others)})
		}
	}
	return found
}

// medianOf is the lower median, 0 of none.
func medianOf(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return s[(len(s)-1)/2]
}
