package advisor

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// keyspaceID is that of the keyspace in simulations. Any would do.
const keyspaceID = 1

// element names an encoded form of a column: as itself, as a time bucket, or as its hash.
type element struct {
	column int
	typ    key.Type
	bucket key.Bucket
	hashed bool
}

// elementBytes is an element of all rows, encoded as in a key.
type elementBytes struct {
	data []byte
	ends []uint32
	null []bool
}

func (e *elementBytes) of(row int) []byte {
	if row == 0 {
		return e.data[:e.ends[0]]
	}
	return e.data[e.ends[row-1]:e.ends[row]]
}

// simulator places rows of the sample as a store would.
type simulator struct {
	columns []*column
	shards  int
	// rows are those of the sample, in the order of arrival, then those of the bursts.
	rows    []storedRow
	sampled int // how many are the sample
	bursts  []burstSpan
	encoded map[element]*elementBytes
	// slotGroups has the shard of each slot, for 1, 2 and 4 times the shards.
	slotGroups [3][]uint16
}

// burstSpan is a burst in simulator.rows, and how many rows of the sample came before it.
type burstSpan struct{ from, to, before int }

// multiples are how many times the shards are simulated.
var multiples = [3]int{1, 2, 4}

func newSimulator(columns []*column, rows []storedRow, bursts []burst, shards int) (*simulator, error) {
	s := &simulator{columns: columns, shards: shards, sampled: len(rows), encoded: map[element]*elementBytes{}}
	s.rows = slices.Clone(rows)
	for _, b := range bursts {
		if len(b.rows) < burstRows/2 {
			continue // the last one may have just begun
		}
		before, _ := slices.BinarySearchFunc(rows, b.rows[0].place, func(r storedRow, place uint64) int {
			if r.place < place {
				return -1
			}
			return 1
		})
		s.bursts = append(s.bursts, burstSpan{len(s.rows), len(s.rows) + len(b.rows), before})
		s.rows = append(s.rows, b.rows...)
	}
	for i, times := range multiples {
		groups, err := slotGroups(shards * times)
		if err != nil {
			return nil, err
		}
		s.slotGroups[i] = groups
	}
	return s, nil
}

// slotGroups asks the map of a hash keyspace for the group of each slot.
func slotGroups(shards int) ([]uint16, error) {
	space := partition.Keyspace{ID: keyspaceID, Name: "advised", Kind: partition.Hash}
	at, err := space.EvenSlots(shards)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	m, err := partition.NewMap(make([]partition.Group, shards), &space, at...)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	groups := make([]uint16, space.SlotCount())
	for slot := range groups {
		groups[slot] = uint16(m.Owner(space.SlotSpan(uint16(slot)).Start).Group - 1)
	}
	return groups, nil
}

// encode returns an element of all rows. It is made once.
func (s *simulator) encode(e element) *elementBytes {
	if made := s.encoded[e]; made != nil {
		return made
	}
	c := s.columns[e.column]
	made := &elementBytes{ends: make([]uint32, len(s.rows)), null: make([]bool, len(s.rows))}
	for i := range s.rows {
		text, ok := s.rows[i].value(e.column)
		if ok {
			made.data, ok = c.appendElement(made.data, e, text)
		}
		if !ok {
			made.null[i] = true
			made.data = key.AppendNil(made.data)
		}
		made.ends[i] = uint32(len(made.data))
	}
	s.encoded[e] = made
	return made
}

// appendElement encodes a value as a layout does; false means that it does not fit.
func (c *column) appendElement(dst []byte, e element, text string) ([]byte, bool) {
	if e.bucket != 0 {
		t, ok := c.timeOf(text)
		if !ok {
			return dst, false
		}
		span, err := e.bucket.Of(t)
		if err != nil {
			return dst, false
		}
		return key.AppendInt(dst, span.Index()), true
	}
	if e.hashed {
		e.hashed = false
		encoded, ok := c.appendElement(dst, e, text)
		if !ok {
			return dst, false
		}
		return key.AppendUint(dst, uint64(key.ColumnHash(encoded[len(dst):]))), true
	}
	v, ok := c.valueOf(e.typ, text)
	if !ok {
		return dst, false
	}
	if t, isTime := v.(timeValue); isTime {
		return key.AppendInt(dst, t.UnixNano()), true
	}
	out, err := key.AppendElement(dst, v)
	return out, err == nil
}

// keyFields says how the key of a candidate is made.
type keyFields struct {
	kind   partition.Kind
	fields []keyField
}

type keyField struct {
	element   *elementBytes // nil for a salt that is picked
	salts     int
	derived   key.DerivedSalt
	partition bool
}

// appendKey appends the key of a row: of a hash keyspace the partition alone, because what follows
// is kept with it as elements of one key.
func (k *keyFields) appendKey(dst []byte, s *simulator, row int) []byte {
	for i := range k.fields {
		f := &k.fields[i]
		switch {
		case k.kind == partition.Hash && !f.partition:
			return dst
		case f.salts == 0:
			dst = append(dst, f.element.of(row)...)
		case f.element != nil:
			dst = key.AppendInt(dst, int64(f.derived.Salt(f.element.of(row))))
		default:
			dst = key.AppendInt(dst, int64(s.rows[row].place%uint64(f.salts)))
		}
	}
	return dst
}

// isComplete reports whether a row has all columns of the key.
func (k *keyFields) isComplete(row int) bool {
	for i := range k.fields {
		f := &k.fields[i]
		if f.element != nil && f.element.null[row] && (f.partition || k.kind == partition.Range) {
			return false
		}
	}
	return true
}

// placement is what a simulation has found.
type placement struct {
	present sketch.Interval
	// keys is how many distinct keys the sample has, partitions how many partitions.
	keys, partitions int
	// largestKey is the share of all bytes that one key has: no split divides it.
	largestKey sketch.Interval
	// skews are the most loaded shard over the mean, by bytes, for 1, 2 and 4 times the shards.
	skews [3]sketch.Interval
	// writes is the most written shard of a moment over the mean.
	writes      sketch.Interval
	writesKnown bool
	// heat are the writes of each shard over the mean at each moment, if all moments were looked at.
	heat [][]float64
	// locality is the part of a partition that is found in one shard, on average over rows.
	locality float64
}

// place simulates a candidate on every step-th row of the sample and every step-th burst.
func (s *simulator) place(k *keyFields, step int) (placement, error) {
	var rows []int
	complete := 0
	for row := 0; row < s.sampled; row += step {
		rows = append(rows, row)
		if k.isComplete(row) {
			complete++
		}
	}
	p := placement{present: sketch.Proportion(float64(complete), float64(len(rows)))}
	s.countKeys(k, rows, &p)
	var err error
	if k.kind == partition.Hash {
		s.placeHash(k, rows, step, &p)
	} else {
		err = s.placeRange(k, rows, step, &p)
	}
	return p, err
}

// countKeys counts keys and partitions.
func (s *simulator) countKeys(k *keyFields, rows []int, p *placement) {
	keys := make(map[uint64]float64) // bytes of each
	partitions := make(map[uint64]int)
	var buf []byte
	total, squares := 0.0, 0.0
	for _, row := range rows {
		buf = k.appendKey(buf[:0], s, row)
		b := float64(s.rows[row].bytes)
		h := hash.XXH3(buf).Uint64()
		keys[h] += b
		total += b
		squares += b * b
		if k.kind == partition.Range {
			parts := keyFields{partition.Hash, k.fields}
			buf = parts.appendKey(buf[:0], s, row)
			h = hash.XXH3(buf).Uint64()
		}
		partitions[h]++
	}
	largest := 0.0
	for _, n := range keys {
		largest = max(largest, n)
	}
	p.keys, p.partitions = len(keys), len(partitions)
	p.largestKey = sketch.ProportionOf(len(keys), largest/total*total*total/squares, total*total/squares)
	p.locality = 1
	if k.kind == partition.Range {
		p.locality = 0
		for _, n := range partitions {
			share := float64(n) / float64(len(rows))
			p.locality += share / (1 + share*float64(s.shards))
		}
		// Even the smallest of partitions has a share in a sample.
		p.locality = min(1, p.locality*(1+float64(s.shards)/float64(len(rows))))
	}
}

// loads sums weights per shard.
type loads struct {
	sum            []float64
	total, squares float64
}

func newLoads(shards int) *loads { return &loads{sum: make([]float64, shards)} }

func (l *loads) add(shard int, weight float64) {
	l.sum[shard] += weight
	l.total += weight
	l.squares += weight * weight
}

// overMean returns each load over the mean of all.
func (l *loads) overMean() []float64 {
	over := make([]float64, len(l.sum))
	for i, sum := range l.sum {
		over[i] = sum / l.total * float64(len(l.sum))
	}
	return over
}

// skew returns the largest load over the mean, without what chance adds to it in a sample.
func (l *loads) skew() sketch.Interval {
	n := len(l.sum)
	if l.total == 0 {
		return sketch.Exactly(1)
	}
	trials := l.total * l.total / l.squares // as many rows of equal weight would know as much
	var most sketch.Interval
	for _, sum := range l.sum {
		i := sketch.ProportionOf(n, sum/l.total*trials, trials)
		most = sketch.Interval{Low: max(most.Low, i.Low), Value: max(most.Value, i.Value), High: max(most.High, i.High)}
	}
	shards := float64(n)
	return sketch.Interval{
		Low:   max(1, most.Low*shards),
		Value: max(1, most.Low*shards, withoutNoise(most.Value*shards, evenSkew(n, trials))),
		High:  most.High * shards,
	}
}

// evenSkew is the largest over the mean that rows show on average when every shard is as likely. The
// quantile is Blom's (1958) for the largest of n normal variables.
func evenSkew(shards int, rows float64) float64 {
	return largestOf(shards, float64(shards-1)/rows)
}

// largestOf is the largest of some loads over the mean, if they vary by chance alone.
func largestOf(shards int, variance float64) float64 {
	if shards < 2 {
		return 1
	}
	n := float64(shards)
	return 1 + sketch.NormalQuantile((n-0.375)/(n+0.25))*math.Sqrt(variance)
}

// withoutNoise takes the skew of an even placement out of one that was seen. The two are independent,
// so their squares add up.
func withoutNoise(seen, even float64) float64 {
	excess := (seen-1)*(seen-1) - (even-1)*(even-1)
	return 1 + math.Sqrt(max(0, excess))
}

func (s *simulator) placeHash(k *keyFields, rows []int, step int, p *placement) {
	space := partition.Keyspace{ID: keyspaceID, Name: "advised", Kind: partition.Hash}
	var buf []byte
	var byBytes [3]*loads
	for i, times := range multiples {
		byBytes[i] = newLoads(s.shards * times)
	}
	for _, row := range rows {
		buf = k.appendKey(buf[:0], s, row)
		slot := space.SlotOf(buf)
		for i := range byBytes {
			byBytes[i].add(int(s.slotGroups[i][slot]), float64(s.rows[row].bytes))
		}
	}
	for i := range byBytes {
		p.skews[i] = byBytes[i].skew()
	}
	var moments []float64
	for n := 0; n < len(s.bursts); n += step {
		b := s.bursts[n]
		l := newLoads(s.shards)
		for row := b.from; row < b.to; row++ {
			buf = k.appendKey(buf[:0], s, row)
			l.add(int(s.slotGroups[0][space.SlotOf(buf)]), 1)
		}
		moments = append(moments, slices.Max(l.sum)/l.total*float64(s.shards))
		if step == 1 {
			p.heat = append(p.heat, l.overMean())
		}
	}
	p.setWrites(moments, s.shards, 0)
}

// setWrites takes the skews of moments. The shares of shards vary by themselves if few rows were there
// to cut them by.
func (p *placement) setWrites(moments []float64, shards int, cutVariance float64) {
	if len(moments) == 0 {
		return
	}
	p.writesKnown = true
	even := largestOf(shards, float64(shards-1)/burstRows+cutVariance)
	m := sketch.Mean(moments)
	most := float64(shards)
	p.writes = sketch.Interval{
		Low:   withoutNoise(max(1, min(most, m.Low)), even),
		Value: withoutNoise(m.Value, even),
		High:  max(1, min(most, m.High)),
	}
	if m.Low <= even && m.Value <= evenEnough*even {
		p.writes.Value = 1 // chance explains it, and with few moments it must be little, too
	}
}

// placeRange cuts the ordered keys into shards with as many bytes each, as splits of a store do. At
// rest the cuts follow all rows; at the moment of a burst they follow the rows before it.
func (s *simulator) placeRange(k *keyFields, rows []int, step int, p *placement) error {
	space := partition.Keyspace{ID: keyspaceID, Name: "advised", Kind: partition.Range}
	positions := make([]partition.Position, len(rows))
	var arena, buf []byte
	for i, row := range rows {
		buf = k.appendKey(buf[:0], s, row)
		start := len(arena)
		arena = space.AppendPosition(arena, buf)
		positions[i] = partition.Position(arena[start:len(arena):len(arena)])
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(positions[a], positions[b]) })

	weight := func(i int) float64 { return float64(s.rows[rows[i]].bytes) }
	for n, times := range multiples {
		m, err := k.cut(&space, positions, order, s.shards*times, len(rows), weight)
		if err != nil {
			return err
		}
		l := newLoads(s.shards * times)
		for i, position := range positions {
			l.add(int(m.Owner(position).Group-1), weight(i))
		}
		// The cuts were made for these rows, so chance adds nothing; only a key that no cut divides
		// makes a shard larger than others.
		shards := float64(s.shards * times)
		p.skews[n] = sketch.Interval{
			Low:   max(1, p.largestKey.Low*shards),
			Value: max(1, slices.Max(l.sum)/l.total*shards),
			High:  max(1, slices.Max(l.sum)/l.total*shards, p.largestKey.High*shards),
		}
		p.skews[n].Low = min(p.skews[n].Low, p.skews[n].Value)
	}
	var moments []float64
	var at partition.Position
	cutVariance := 0.0
	for n := 0; n < len(s.bursts); n += step {
		b := s.bursts[n]
		before := (b.before + step - 1) / step // of rows
		if before < 10*s.shards {
			continue // too little was there to cut
		}
		if k.fields[0].salts < s.shards {
			cutVariance += float64(s.shards) / float64(before)
		}
		m, err := k.cut(&space, positions, order, s.shards, before, weight)
		if err != nil {
			return err
		}
		l := newLoads(s.shards)
		for row := b.from; row < b.to; row++ {
			buf = k.appendKey(buf[:0], s, row)
			at = space.AppendPosition(at[:0], buf)
			l.add(int(m.Owner(at).Group-1), 1)
		}
		moments = append(moments, slices.Max(l.sum)/l.total*float64(s.shards))
		if step == 1 {
			p.heat = append(p.heat, l.overMean())
		}
	}
	p.setWrites(moments, s.shards, cutVariance/float64(max(1, len(moments))))
	return nil
}

// cut returns a map of shards. A key that begins with a salt is cut between salts, if those are
// enough: an operator splits there at once, and by bytes alone the ends of two salts, where rows
// are added, could lie in one shard.
func (k *keyFields) cut(space *partition.Keyspace, positions []partition.Position, order []int, shards, first int, weight func(int) float64) (*partition.Map, error) {
	salts := k.fields[0].salts
	if salts < shards {
		return cutRange(space, positions, order, shards, first, weight)
	}
	var at []partition.Position
	for i := 1; i < shards; i++ {
		at = append(at, space.PrefixSpan(key.AppendInt(nil, int64(i*salts/shards))).Start)
	}
	m, err := partition.NewMap(make([]partition.Group, shards), space, at...)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	return m, nil
}

// cutRange returns a map whose shards have about as many bytes of the first rows each: it goes over
// the keys in order and ends a shard where it comes nearest to its part of what is left.
func cutRange(space *partition.Keyspace, positions []partition.Position, order []int, shards, first int, weight func(int) float64) (*partition.Map, error) {
	left, shard := 0.0, 0.0 // bytes from the start of this shard on, and in it so far
	for i := range first {
		left += weight(i)
	}
	var at []partition.Position
	for n := 0; n < len(order); {
		here, unit := positions[order[n]], 0.0
		for ; n < len(order) && bytes.Equal(positions[order[n]], here); n++ {
			if order[n] < first {
				unit += weight(order[n])
			}
		}
		if target := left / float64(shards-len(at)); shard > 0 && shard+unit/2 >= target && len(at) < shards-1 {
			at = append(at, here)
			left -= shard
			shard = 0
		}
		shard += unit
	}
	m, err := partition.NewMap(make([]partition.Group, len(at)+1), space, at...)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	return m, nil
}
