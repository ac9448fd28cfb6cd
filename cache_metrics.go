package cleave

import "github.com/cleavekv/cleave/internal/rows"

// CacheMetrics are figures of the row cache for one keyspace, over all stores. A row is
// that of a key or of a field of a hash, or says that there is none. It is cached when it
// is written, and when it is read if there is room, or if it was asked for before, not long
// ago: reads that come once do not drive out rows that are read again and again. A cached
// row goes when others need the room, or when its key is written, deleted or has expired:
// it is never older than what the store has, so that it needs no time to live of its own.
type CacheMetrics struct {
	// Hits counts looks at rows since Open that the cache could answer, those of writes that
	// look at what they change included, and two for a read of a key that expires. Misses
	// counts rows that were looked for on disk.
	Hits, Misses uint64
	// Refused counts rows that were read and not cached, for want of room.
	Refused uint64
	// Evictions counts rows that made room for others.
	Evictions uint64
	// Rows are cached now, and Bytes is what they take.
	Rows, Bytes int64
	// Pinned are those of them that are pinned, PinnedBytes what they count against the
	// half that may be, and Outgrown how many have become too large for that.
	Pinned, PinnedBytes int64
	Outgrown            uint64
}

// HitRate is the share of hits, 0 if there was no look yet.
func (m CacheMetrics) HitRate() float64 {
	if m.Hits+m.Misses == 0 {
		return 0
	}
	return float64(m.Hits) / float64(m.Hits+m.Misses)
}

// CacheMetrics returns the figures of now. Of more than a thousand keyspaces, those that
// came last are counted in Metrics alone.
func (k *Keyspace) CacheMetrics() (sum CacheMetrics) {
	for _, h := range k.db.node.Hosts() {
		sum.add(h.Store.CacheOf(k.space.ID))
	}
	return sum
}

func (m *CacheMetrics) add(c rows.Class) {
	m.Hits, m.Misses, m.Refused, m.Evictions = m.Hits+c.Hits, m.Misses+c.Misses, m.Refused+c.Refused, m.Evictions+c.Evictions
	m.Rows, m.Bytes = m.Rows+int64(c.Rows), m.Bytes+c.RowBytes
	m.Pinned, m.PinnedBytes, m.Outgrown = m.Pinned+int64(c.Held), m.PinnedBytes+c.HeldBytes, m.Outgrown+c.Outgrown
}
