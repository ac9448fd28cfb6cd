package heat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrEncoding means that bytes are not the encoding of a summary of this version: they were cut or changed, or another
// version wrote them.
var ErrEncoding = errors.New("heat: bad encoding")

// maxCount bounds every number of an encoded summary, so that sums of merged ones stay finite.
const maxCount = 1e30

// decoder reads an encoding. After an error it yields zeroes.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrEncoding}, args...)...)
		d.rest = nil
	}
}

func (d *decoder) readByte() byte {
	if len(d.rest) == 0 {
		d.fail("it ends too early")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// readInt reads a number up to a limit.
func (d *decoder) readInt(limit int) int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(limit) {
		d.fail("a number is cut off or above %d", limit)
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

// readCount reads a number from 0 to maxCount.
func (d *decoder) readCount() float64 {
	if len(d.rest) < 8 {
		d.fail("it ends too early")
		return 0
	}
	n := math.Float64frombits(binary.LittleEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	if !(n >= 0 && n <= maxCount) {
		d.fail("a count is %v", n)
		return 0
	}
	return n
}

func (d *decoder) readString(limit int) string {
	n := d.readInt(limit)
	if n > len(d.rest) {
		d.fail("it ends too early")
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// end returns the error, also if something is left.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes are left", len(d.rest))
	}
	return d.err
}

func appendInt(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendCount(b []byte, n float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(min(n, maxCount)))
}

func appendString(b []byte, s string) []byte { return append(appendInt(b, len(s)), s...) }

// topKeysVersion is the first byte of an encoded table. A change of the format takes another.
const topKeysVersion = 2

// leastEntryBytes is what an encoded key takes at least: it bounds what a wrong number of keys can allocate.
const leastEntryBytes = 1 + 7*8 + 4

// AppendBinary appends the table's encoding, to be merged in another process.
func (t *TopKeys) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, topKeysVersion, byte(t.by))
	b = appendInt(b, t.capacity)
	b = appendCount(appendCount(b, t.total), t.floor)
	b = appendInt(b, len(t.heap))
	for _, k := range t.heap {
		b = appendString(b, k.key)
		for _, n := range []float64{k.count, k.errors, k.variance, k.ops, k.writes, k.bytes, k.service} {
			b = appendCount(b, n)
		}
		b = k.times.append(b)
		b = k.commands.append(b)
		b = k.clients.append(b)
		b = k.addresses.append(b)
	}
	return b, nil
}

// DecodeTopKeys returns the table that AppendBinary has encoded. It fails with [ErrEncoding] for bytes that it did not
// write.
func DecodeTopKeys(b []byte) (*TopKeys, error) {
	d := &decoder{rest: b}
	if v := d.readByte(); v != topKeysVersion {
		d.fail("version %d is not %d", v, topKeysVersion)
	}
	by, capacity := Measure(d.readByte()), d.readInt(maxTopKeys)
	total, floor := d.readCount(), d.readCount()
	n := d.readInt(len(d.rest) / leastEntryBytes)
	if d.err != nil {
		return nil, d.err
	}
	t, err := NewTopKeys(by, capacity)
	if err != nil || n > capacity {
		return nil, fmt.Errorf("%w: %d keys in a table of %d by %v", ErrEncoding, n, capacity, by)
	}
	t.total, t.floor = total, floor
	for range n {
		k := t.newEntry()
		k.key = d.readString(MaxKeyBytes)
		for _, to := range []*float64{&k.count, &k.errors, &k.variance, &k.ops, &k.writes, &k.bytes, &k.service} {
			*to = d.readCount()
		}
		k.times.decode(d)
		k.commands.decode(d)
		k.clients.decode(d)
		k.addresses.decode(d)
		if t.keys[k.key] != nil || k.errors > k.count || k.count < floor {
			d.fail("key %q is there twice, or its count %v is below its error %v or the floor %v", k.key, k.count, k.errors, floor)
		}
		if d.err != nil {
			return nil, d.err
		}
		t.keys[k.key] = k
		t.keyBytes += len(k.key)
		t.heap = append(t.heap, k)
	}
	t.heapify()
	return t, d.end()
}

// append encodes the bins that are not empty.
func (h *timeHistogram) append(b []byte) []byte {
	used := 0
	for _, n := range h {
		if n > 0 {
			used++
		}
	}
	b = appendInt(b, used)
	for bin, n := range h {
		if n > 0 {
			b = appendCount(append(b, byte(bin)), float64(n))
		}
	}
	return b
}

func (h *timeHistogram) decode(d *decoder) {
	next := 0
	for range d.readInt(timeBins) {
		bin, n := int(d.readByte()), float32(d.readCount())
		if bin < next || bin >= timeBins || n <= 0 {
			d.fail("bin %d of times is out of order, out of range or empty", bin)
			return
		}
		h[bin], next = n, bin+1
	}
}

func (c *nameCounts) append(b []byte) []byte {
	list := c.list()
	b = appendInt(b, len(list))
	for _, n := range list {
		b = appendCount(appendString(b, n.Name), n.Ops)
	}
	return b
}

func (c *nameCounts) decode(d *decoder) {
	for i := range d.readInt(keptNames) {
		n := NameCount{d.readString(maxNameBytes), d.readCount()}
		for _, other := range c[:i] {
			if n.Name == other.Name {
				d.fail("the name %q is there twice", n.Name)
			}
		}
		if n.Name == "" || n.Ops <= 0 {
			d.fail("a name or its count is empty")
		}
		c[i] = n
	}
}
