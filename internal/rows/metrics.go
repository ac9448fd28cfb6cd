package rows

// Metrics is a snapshot of a table, stripe by stripe, not of one moment.
type Metrics struct {
	Bytes       int64 // of all blocks, indexes and marks
	PinnedBytes int64 // of rows that are not yet applied, 32 for the index included
	Class             // of all classes
}

// Metrics adds up the stripes.
func (t *Table) Metrics() Metrics {
	var m Metrics
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		s.pins.settle(t.applied.Load())
		m.Bytes += int64(s.bytes())
		m.PinnedBytes += int64(s.pins.total)
		for j := range s.counts.few {
			m.Class.add(&s.counts.few[j])
		}
		for _, c := range s.counts.many {
			m.Class.add(c)
		}
		s.mu.Unlock()
	}
	return m
}

// Class are the figures of the keys of one class, from a table's beginning on.
type Class struct {
	Hits   uint64
	Misses uint64 // tickets for keys that were unknown
	// Refused are rows that were not cached: there was no room, and their keys had not
	// been asked for lately.
	Refused   uint64
	Evictions uint64 // rows forgotten to make room or by Drop
	Rows      int    // present and absent ones
	RowBytes  int64  // of them, headers included
	Held      int    // rows
	HeldBytes int64  // 32 for the index included
	// Outgrown are rows that were held no longer because they had become too large.
	Outgrown uint64
}

func (c *Class) add(d *Class) {
	c.Hits, c.Misses, c.Refused, c.Evictions = c.Hits+d.Hits, c.Misses+d.Misses, c.Refused+d.Refused, c.Evictions+d.Evictions
	c.Rows, c.RowBytes = c.Rows+d.Rows, c.RowBytes+d.RowBytes
	c.Held, c.HeldBytes, c.Outgrown = c.Held+d.Held, c.HeldBytes+d.HeldBytes, c.Outgrown+d.Outgrown
}

// came and went count a row.
func (c *Class) came(extent int) { c.Rows, c.RowBytes = c.Rows+1, c.RowBytes+int64(extent) }
func (c *Class) went(extent int) { c.Rows, c.RowBytes = c.Rows-1, c.RowBytes-int64(extent) }

// Class returns the figures of a class. Those of the classes that came last are counted
// under class 0 if there are very many.
func (t *Table) Class(class uint32) (sum Class) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		if c := s.counts.look(class); c != nil {
			sum.add(c)
		}
		s.mu.Unlock()
	}
	return sum
}

const (
	// fewClasses are found by their number, others by a map.
	fewClasses = 256
	// mostClasses bounds that map: a stripe must not grow with everything that ever was.
	mostClasses = 1024
)

// counts has the figures of a stripe by class.
type counts struct {
	few  []Class
	many map[uint32]*Class
}

// of returns the figures of a class. They may be elsewhere after the next call.
func (c *counts) of(class uint32) *Class {
	if class < uint32(len(c.few)) {
		return &c.few[class]
	}
	return c.more(class)
}

// more makes room for a class that is new, or one of many.
func (c *counts) more(class uint32) *Class {
	if class < fewClasses {
		few := make([]Class, class+1)
		copy(few, c.few)
		c.few = few
		return &c.few[class]
	}
	if found := c.many[class]; found != nil {
		return found
	}
	if len(c.many) >= mostClasses {
		return c.of(0)
	}
	if c.many == nil {
		c.many = map[uint32]*Class{}
	}
	made := new(Class)
	c.many[class] = made
	return made
}

// look returns the figures of a class, nil if there are none.
func (c *counts) look(class uint32) *Class {
	if class < uint32(len(c.few)) {
		return &c.few[class]
	}
	return c.many[class]
}

// classOf returns the class of a key.
func (t *Table) classOf(key []byte) uint32 {
	if t.class == nil {
		return 0
	}
	return t.class(key)
}

func (s *stripe) class(key []byte) *Class { return s.counts.of(s.table.classOf(key)) }
