package shardmap

// ShardStats describes one shard. Counts are as of about one moment.
type ShardStats struct {
	Entries         int
	Segments        int // independently growing parts
	Buckets         int // that the hash addresses; OverflowBuckets come on top
	OverflowBuckets int // in use
	Bytes           int // of buckets, spare ones included; not of entries outside them
	Growths         int // segments that were enlarged, split or tidied up
	Shrinks         int // segments that were halved or merged
	LargestMove     int // most entries copied by one growth or shrink
}

// Stats is a snapshot of a map's shards.
type Stats struct {
	Shards []ShardStats
	// SlotsPerBucket is how many entries a bucket holds.
	SlotsPerBucket int
	// EntriesInBuckets tells that keys and values lie in the buckets
	// themselves, in memory that the garbage collector does not scan; else
	// each entry is an object of its own.
	EntriesInBuckets bool
}

// Total adds the shards up; LargestMove is the largest of them.
func (s Stats) Total() ShardStats {
	var sum ShardStats
	for _, sh := range s.Shards {
		sum.Entries += sh.Entries
		sum.Segments += sh.Segments
		sum.Buckets += sh.Buckets
		sum.OverflowBuckets += sh.OverflowBuckets
		sum.Bytes += sh.Bytes
		sum.Growths += sh.Growths
		sum.Shrinks += sh.Shrinks
		sum.LargestMove = max(sum.LargestMove, sh.LargestMove)
	}
	return sum
}

// Stats returns figures about the map's shards. It takes each shard's growth
// lock for a moment and reads no entries.
func (m *Map[K, V]) Stats() Stats {
	s := m.ready()
	t := s.table()
	stats := Stats{SlotsPerBucket: t.slots, EntriesInBuckets: s.layout != layoutEntry}
	for i := range t.shardCount() {
		stats.Shards = append(stats.Shards, t.shardStats(t.shardAt(i)))
	}
	return stats
}

func (t *table) shardStats(s *shard) ShardStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := ShardStats{
		Entries: int(max(0, s.count.Load())),
		Growths: int(s.grown), Shrinks: int(s.shrunk), LargestMove: int(s.moved),
	}
	for _, seg := range segments(s.directory()) {
		if seg.isEmptySegment() {
			continue
		}
		st.Segments++
		st.Buckets += int(seg.buckets())
		st.OverflowBuckets += int(seg.sparesUsed(t.bucketBytes))
		st.Bytes += int(seg.buckets()+1+seg.spares()) * int(t.bucketBytes)
	}
	return st
}
