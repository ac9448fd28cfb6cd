package heat

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// summaryVersion is the first byte of an encoded summary. A change of the format takes another.
const summaryVersion = 1

// leastRangeBytes is what an encoded operation of a sample takes at least, and leastSlotBytes an encoded slot: they
// bound what a wrong number of them can allocate.
const leastRangeBytes, leastSlotBytes = 1 + 7*8 + 1, 1 + 4

// AppendBinary appends the summary's encoding, to be merged in another process.
func (s *Summary) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, summaryVersion)
	for _, t := range s.top {
		table, err := t.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		b = append(appendInt(b, len(table)), table...)
	}
	b = s.ranges.appendTo(b)
	b = appendInt(b, s.slotCount())
	if s.slots != nil {
		b = s.slots.appendTo(b)
	}
	return b, nil
}

// DecodeSummary returns the summary that AppendBinary has encoded. It fails with [ErrEncoding] for bytes that it did
// not write.
func DecodeSummary(b []byte) (*Summary, error) {
	d := &decoder{rest: b}
	if v := d.readByte(); v != summaryVersion {
		d.fail("version %d is not %d", v, summaryVersion)
	}
	s := new(Summary)
	for by := range measures {
		n := d.readInt(len(d.rest))
		if d.err != nil || n > len(d.rest) {
			d.fail("it ends too early")
			return nil, d.err
		}
		t, err := DecodeTopKeys(d.rest[:n])
		if err != nil {
			return nil, err
		}
		if t.by != by {
			return nil, fmt.Errorf("%w: a table by %v in place of one by %v", ErrEncoding, t.by, by)
		}
		s.top[by], d.rest = t, d.rest[n:]
	}
	s.ranges = decodeRanges(d, hash.XXH3(b).Uint64())
	if slots := d.readInt(maxSlots); slots > 0 {
		s.slots = decodeSlots(d, slots)
	}
	return s, d.end()
}

func (l *RangeLoad) fields() [5]*float64 {
	return [5]*float64{&l.Reads, &l.Writes, &l.BytesIn, &l.BytesOut, &l.Conflicts}
}

func (r *Ranges) appendTo(b []byte) []byte {
	b = appendCount(appendInt(b, r.capacity), r.threshold)
	for _, n := range r.total.fields() {
		b = appendCount(b, *n)
	}
	b = appendInt(b, len(r.entries))
	for i := range r.entries {
		e := &r.entries[i]
		b = appendCount(appendCount(appendString(b, string(e.key)), e.weight), e.priority)
		for _, n := range e.load.fields() {
			b = appendCount(b, *n)
		}
		b = binary.AppendUvarint(b, uint64(max(e.service, 0)))
	}
	return b
}

// decodeRanges reads a sample whose random numbers come from a seed from then on.
func decodeRanges(d *decoder, seed uint64) *Ranges {
	r := &Ranges{capacity: d.readInt(maxRangeSamples), threshold: d.readCount(), random: rand.NewPCG(seed, rangesStream)}
	for _, n := range r.total.fields() {
		*n = d.readCount()
	}
	n := d.readInt(len(d.rest) / leastRangeBytes)
	if r.capacity < minRangeSamples || n > r.capacity {
		d.fail("%d operations in a sample of %d", n, r.capacity)
		return r
	}
	for range n {
		e := rangeEntry{key: []byte(d.readString(MaxKeyBytes)), weight: d.readCount(), priority: d.readCount()}
		for _, n := range e.load.fields() {
			*n = d.readCount()
		}
		service, size := binary.Uvarint(d.rest)
		if size <= 0 || service > math.MaxInt64 {
			d.fail("a service time is cut off or too long")
			return r
		}
		d.rest, e.service = d.rest[size:], time.Duration(service)
		if !(e.weight >= leastWeight) || e.priority < e.weight*(1-1e-9) || e.priority < r.threshold {
			d.fail("an operation has weight %v and priority %v; the threshold is %v", e.weight, e.priority, r.threshold)
			return r
		}
		r.entries = append(r.entries, e)
		r.keyBytes += cap(e.key)
	}
	for i := n/2 - 1; i >= 0; i-- {
		r.siftDown(i)
	}
	return r
}

func (s *SlotCounts) appendTo(b []byte) []byte {
	used := 0
	for _, n := range s.counts {
		if n > 0 {
			used++
		}
	}
	b = appendInt(appendCount(b, s.samples), used)
	for slot, n := range s.counts {
		if n > 0 {
			b = binary.LittleEndian.AppendUint32(appendInt(b, slot), math.Float32bits(n))
		}
	}
	return b
}

func decodeSlots(d *decoder, slots int) *SlotCounts {
	s, err := NewSlotCounts(slots)
	if err != nil {
		d.fail("it has %d slots", slots)
		return nil
	}
	s.samples = d.readCount()
	next := 0
	for range d.readInt(len(d.rest) / leastSlotBytes) {
		slot := d.readInt(slots - 1)
		if len(d.rest) < 4 {
			d.fail("it ends too early")
			return s
		}
		n := math.Float32frombits(binary.LittleEndian.Uint32(d.rest))
		d.rest = d.rest[4:]
		if slot < next || !(n > 0 && n <= maxCount) {
			d.fail("slot %d is out of order, or its count is %v", slot, n)
			return s
		}
		s.counts[slot], next = n, slot+1
		s.total += float64(n)
	}
	return s
}
