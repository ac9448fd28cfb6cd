package rowcache

// Metrics is a snapshot of a table, stripe by stripe, not of one moment.
type Metrics struct {
	Bytes          int64 // of all blocks, indexes and marks
	SlabBytes      int64 // of memory that blocks are cut from, those without rows included
	UnappliedBytes int64 // of rows that are not yet applied, 32 for the index included
	ClassMetrics         // of all classes
}

// Metrics adds up the stripes.
func (t *Cache) Metrics() Metrics {
	m := Metrics{SlabBytes: t.slab.sizeBytes()}
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		s.unapplied.discardApplied(t.appliedGen.Load())
		m.Bytes += int64(s.sizeBytes())
		m.UnappliedBytes += int64(s.unapplied.totalBytes)
		for j := range s.counts.dense {
			m.ClassMetrics.add(&s.counts.dense[j])
		}
		for _, c := range s.counts.sparse {
			m.ClassMetrics.add(c)
		}
		s.mu.Unlock()
	}
	return m
}

// ClassMetrics are the figures of the keys of one class, from a table's beginning on.
type ClassMetrics struct {
	Hits   uint64
	Misses uint64 // tickets for keys that were unknown
	// Refused are rows that were not cached: there was no room, and their keys had not
	// been asked for lately.
	Refused     uint64
	Evictions   uint64 // rows forgotten to make room or by Drop
	Rows        int    // present and absent ones
	RowBytes    int64  // of them, headers included
	PinnedRows  int    // rows
	PinnedBytes int64  // 32 for the index included
	// Outgrown are rows that were held no longer because they had become too large.
	Outgrown uint64
}

func (c *ClassMetrics) add(d *ClassMetrics) {
	c.Hits, c.Misses, c.Refused, c.Evictions = c.Hits+d.Hits, c.Misses+d.Misses, c.Refused+d.Refused, c.Evictions+d.Evictions
	c.Rows, c.RowBytes = c.Rows+d.Rows, c.RowBytes+d.RowBytes
	c.PinnedRows, c.PinnedBytes, c.Outgrown = c.PinnedRows+d.PinnedRows, c.PinnedBytes+d.PinnedBytes, c.Outgrown+d.Outgrown
}

// addRow and went count a row.
func (c *ClassMetrics) addRow(extent int)    { c.Rows, c.RowBytes = c.Rows+1, c.RowBytes+int64(extent) }
func (c *ClassMetrics) removeRow(extent int) { c.Rows, c.RowBytes = c.Rows-1, c.RowBytes-int64(extent) }

// ClassMetrics returns the figures of a class. Those of the classes that came last are counted
// under class 0 if there are very many.
func (t *Cache) ClassMetrics(class uint32) (sum ClassMetrics) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		if c := s.counts.lookup(class); c != nil {
			sum.add(c)
		}
		s.mu.Unlock()
	}
	return sum
}

const (
	// maxDenseClasses are found by their number, others by a map.
	maxDenseClasses = 256
	// maxSparseClasses bounds that map: a stripe must not grow with everything that ever was.
	maxSparseClasses = 1024
)

// classCounts has the figures of a stripe by class.
type classCounts struct {
	dense  []ClassMetrics
	sparse map[uint32]*ClassMetrics
}

// getOrAdd returns the figures of a class. They may be elsewhere after the next call.
func (c *classCounts) getOrAdd(class uint32) *ClassMetrics {
	if class < uint32(len(c.dense)) {
		return &c.dense[class]
	}
	return c.addClass(class)
}

// addClass makes room for a class that is new, or one of many.
func (c *classCounts) addClass(class uint32) *ClassMetrics {
	if class < maxDenseClasses {
		few := make([]ClassMetrics, class+1)
		copy(few, c.dense)
		c.dense = few
		return &c.dense[class]
	}
	if found := c.sparse[class]; found != nil {
		return found
	}
	if len(c.sparse) >= maxSparseClasses {
		return c.getOrAdd(0)
	}
	if c.sparse == nil {
		c.sparse = map[uint32]*ClassMetrics{}
	}
	made := new(ClassMetrics)
	c.sparse[class] = made
	return made
}

// lookup returns the figures of a class, nil if there are none.
func (c *classCounts) lookup(class uint32) *ClassMetrics {
	if class < uint32(len(c.dense)) {
		return &c.dense[class]
	}
	return c.sparse[class]
}

// classOf returns the class of a key.
func (t *Cache) classOf(key []byte) uint32 {
	if t.classFunc == nil {
		return 0
	}
	return t.classFunc(key)
}

func (s *stripe) metricsOf(key []byte) *ClassMetrics { return s.counts.getOrAdd(s.cache.classOf(key)) }
