package server

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/stats"
)

func init() {
	registerBlockingHandlers(map[string]func(*call){"cluster|slot-stats": handleSlotStats})
}

// slotMetrics are what CLUSTER SLOT-STATS has of a slot, in the order of the reply. All but the first are there only if
// they are counted.
var slotMetrics = []slotMetric{
	{"key-count", func(u *slotUsage) int64 { return u.keys }},
	{"cpu-usec", func(u *slotUsage) int64 { return u.Busy.Microseconds() }},
	{"network-bytes-in", func(u *slotUsage) int64 { return int64(u.BytesIn) }},
	{"network-bytes-out", func(u *slotUsage) int64 { return int64(u.BytesOut) }},
}

type slotMetric struct {
	name  string
	value func(*slotUsage) int64
}

// slotUsage is what a slot has, and what was asked of it.
type slotUsage struct {
	slot int
	keys int64
	stats.SlotStats
}

// handleSlotStats answers CLUSTER SLOT-STATS, about the default keyspace as a cluster of Redis has no other.
func handleSlotStats(t *call) {
	k, counters := t.s.defaultKeyspace(), t.s.slotCounters.Load()
	var usage []slotUsage
	var err error
	switch {
	case len(t.Args) == 5 && redis.IsKeyword(t.Args[2], "SLOTSRANGE"):
		usage, err = t.findSlotRange(k, counters)
	case len(t.Args) >= 4 && redis.IsKeyword(t.Args[2], "ORDERBY"):
		usage, err = t.findTopSlots(k, counters)
	default:
		err = redis.Error("ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.")
	}
	if err != nil {
		t.out.Fail(err)
		return
	}
	metrics := slotMetrics[:countSlotMetrics(counters)]
	t.out.Array(len(usage))
	for i := range usage {
		t.out.Array(2)
		t.out.Int(int64(usage[i].slot))
		t.out.Map(len(metrics))
		for _, m := range metrics {
			t.out.Text(m.name)
			t.out.Int(m.value(&usage[i]))
		}
	}
}

// countSlotMetrics is how many of slotMetrics there are.
func countSlotMetrics(counters *stats.SlotCounters) int {
	if counters == nil {
		return 1
	}
	return len(slotMetrics)
}

// findSlotRange returns the slots from one to another.
func (t *call) findSlotRange(k *node.Keyspace, counters *stats.SlotCounters) ([]slotUsage, error) {
	first, err1 := parseSlotNumber(t.Args[3])
	last, err2 := parseSlotNumber(t.Args[4])
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	if first > last {
		return nil, redis.Error("ERR Start slot number " + strconv.Itoa(first) + " is greater than end slot number " + strconv.Itoa(last))
	}
	return t.readSlots(k, counters, first, last)
}

func parseSlotNumber(arg []byte) (int, error) {
	n, ok := redis.ParseInteger(arg)
	if !ok || n < 0 || n >= hash.Slots {
		return 0, redis.Error("ERR Invalid or out of range slot")
	}
	return int(n), nil
}

// readSlots counts the keys of the slots from first to last, and returns what was asked of each.
func (t *call) readSlots(k *node.Keyspace, counters *stats.SlotCounters, first, last int) ([]slotUsage, error) {
	usage := make([]slotUsage, last-first+1)
	for i := range usage {
		usage[i].slot = first + i
		if counters != nil {
			usage[i].SlotStats = counters.Of(uint16(first + i))
		}
	}
	span := k.SlotSpan(uint16(first))
	span.End = k.SlotSpan(uint16(last)).End
	err := t.s.surveyKeys(t.ctx, k, span, 0, func(found foundKey) bool {
		usage[int(k.SlotOf(found.name))-first].keys++
		return true
	})
	return usage, err
}

// findTopSlots returns the slots that have most, or least, of something.
func (t *call) findTopSlots(k *node.Keyspace, counters *stats.SlotCounters) ([]slotUsage, error) {
	metrics := slotMetrics[:countSlotMetrics(counters)]
	by := slices.IndexFunc(metrics, func(m slotMetric) bool { return strings.EqualFold(string(t.Args[3]), m.name) })
	if by < 0 {
		return nil, redis.Error("ERR Unrecognized sort metric for ORDERBY.")
	}
	limit, ascending, err := parseSlotOrder(t.Args[4:])
	if err != nil {
		return nil, err
	}
	usage, err := t.readSlots(k, counters, 0, hash.Slots-1)
	if err != nil {
		return nil, err
	}
	value := metrics[by].value
	slices.SortStableFunc(usage, func(p, q slotUsage) int {
		if ascending {
			p, q = q, p
		}
		return cmp.Compare(value(&q), value(&p))
	})
	return usage[:min(limit, len(usage))], nil
}

// parseSlotOrder reads LIMIT, ASC and DESC.
func parseSlotOrder(args [][]byte) (limit int, ascending bool, err error) {
	limit = hash.Slots
	limits, orders := 0, 0
	for len(args) > 0 {
		switch {
		case redis.IsKeyword(args[0], "LIMIT") && len(args) > 1:
			n, ok := redis.ParseInteger(args[1])
			if !ok || n < 1 || n > hash.Slots {
				return 0, false, redis.Error("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).")
			}
			limit, limits, args = int(n), limits+1, args[1:]
		case redis.IsKeyword(args[0], "ASC"):
			ascending, orders = true, orders+1
		case redis.IsKeyword(args[0], "DESC"):
			ascending, orders = false, orders+1
		default:
			return 0, false, redis.Error("ERR syntax error")
		}
		if limits > 1 || orders > 1 {
			return 0, false, redis.Error("ERR Multiple filters of the same type are disallowed.")
		}
		args = args[1:]
	}
	return limit, ascending, nil
}
