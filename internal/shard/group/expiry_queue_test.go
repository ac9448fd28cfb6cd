package group

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTheExpiryQueueWithItsTableMissesNothingThatIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newExpiryQueue(rapid.IntRange(1, 5).Draw(t, "most"))
		table := map[uint32]int64{} // the truth, which the queue may ask for
		now, key := int64(0), uint32(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				key++
				at := now + rapid.Int64Range(0, 20).Draw(t, "ttl")
				table[key] = at
				q.add(binary.BigEndian.AppendUint32(nil, key), at)
				continue
			}
			now += rapid.Int64Range(0, 10).Draw(t, "pass")
			var got, want []uint32
			for {
				if q.needsFill(now) {
					q.reset()
					for k, at := range table {
						q.add(binary.BigEndian.AppendUint32(nil, k), at)
					}
				}
				p, ok := q.next(now)
				if !ok {
					break
				}
				k := binary.BigEndian.Uint32(p)
				if _, there := table[k]; there {
					got = append(got, k)
					delete(table, k)
				}
			}
			for k, at := range table {
				if at <= now {
					want = append(want, k)
				}
			}
			if len(want) > 0 {
				slices.Sort(want)
				t.Fatalf("at %d the queue gave %v and missed %v", now, got, want)
			}
			if len(q.soonest) > 2*q.maxEntries {
				t.Fatalf("the queue holds %d, more than twice %d", len(q.soonest), q.maxEntries)
			}
		}
	})
}
