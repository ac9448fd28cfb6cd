package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/shard/load"
)

// sumGroupLoads adds up what is asked of the shards of each group.
func (a *Admin) sumGroupLoads(shards []cleave.Shard) (map[cleave.GroupID]load.ShardLoad, map[cleave.GroupID]heat.Rate) {
	counts, perSecond := a.node.ReadLoads(), a.node.LoadRates()
	loads, rates := map[cleave.GroupID]load.ShardLoad{}, map[cleave.GroupID]heat.Rate{}
	for _, s := range shards {
		l, of := loads[s.Group], counts.Of(s.ID)
		l.Merge(&of)
		loads[s.Group], rates[s.Group] = l, addRates(rates[s.Group], perSecond[s.ID])
	}
	return loads, rates
}

func addRates(r, o heat.Rate) heat.Rate {
	return heat.Rate{
		Reads: r.Reads + o.Reads, Writes: r.Writes + o.Writes, BytesIn: r.BytesIn + o.BytesIn, BytesOut: r.BytesOut + o.BytesOut,
		ScanReads: r.ScanReads + o.ScanReads, CrossShard: r.CrossShard + o.CrossShard, Conflicts: r.Conflicts + o.Conflicts,
		Errors: r.Errors + o.Errors, Service: r.Service + o.Service,
	}
}

func toShardLoad(l load.ShardLoad, r heat.Rate) api.ShardLoad {
	return api.ShardLoad{
		Reads: l.Reads, Writes: l.Writes, BytesIn: l.BytesIn, BytesOut: l.BytesOut, Errors: l.Errors, BusySeconds: l.Busy.Seconds(),
		ServiceP99Seconds: l.Service.Quantile(0.99).Seconds(), WaitP99Seconds: l.Wait.Quantile(0.99).Seconds(),
		ReadsPerSecond: r.Reads, WritesPerSecond: r.Writes, BytesInPerSecond: r.BytesIn, BytesOutPerSecond: r.BytesOut, ErrorsPerSecond: r.Errors, Busy: r.Service,
	}
}

// loadMetrics are those that each of the shards has of which most is asked.
var loadMetrics = []struct {
	name, help string
	value      func(*load.ShardLoad) float64
}{
	{"shard_reads_total", "Reads of keys of these.", func(l *load.ShardLoad) float64 { return float64(l.Reads) }},
	{"shard_writes_total", "Writes of keys of these.", func(l *load.ShardLoad) float64 { return float64(l.Writes) }},
	{"shard_bytes_in_total", "Bytes of requests to these.", func(l *load.ShardLoad) float64 { return float64(l.BytesIn) }},
	{"shard_bytes_out_total", "Bytes of their replies.", func(l *load.ShardLoad) float64 { return float64(l.BytesOut) }},
	{"shard_errors_total", "Replies of these that are errors.", func(l *load.ShardLoad) float64 { return float64(l.Errors) }},
	{"shard_busy_seconds_total", "The time that was spent on these.", func(l *load.ShardLoad) float64 { return l.Busy.Seconds() }},
}

// sumOps is how many operations there are in a second.
func sumOps[K comparable](rates map[K]heat.Rate) (ops float64) {
	for _, r := range rates {
		ops += r.Ops()
	}
	return ops
}

// addSpreadMetrics adds how evenly the load is spread.
func (a *Admin) addSpreadMetrics(m *metricSet, shards []cleave.Shard, rates map[cleave.ShardID]heat.Rate) {
	e, _ := a.node.Evenness()
	m.addSingle("heat_evenness_usual", gauge, "The same as it was lately.", e.Usual)
	m.addSingle("heat_top_bucket_share", gauge, "The share of the bucket that has most operations.", e.TopShare)
	m.addSingle("heat_uneven", gauge, "Whether the load is far less even than usual.", boolToFloat(e.Alarm))
	var ops, bytes []float64
	for _, s := range shards {
		if s.Keyspace != "" {
			ops, bytes = append(ops, rates[s.ID].Ops()), append(bytes, float64(s.Bytes))
		}
	}
	m.beginFamily("shard_skew", gauge, "How many times the mean the largest shard has, by operations a second and by bytes.")
	m.addSample(heat.SkewOf(ops).MaxByMean, "by", "operations")
	m.addSample(heat.SkewOf(bytes).MaxByMean, "by", "bytes")
}

// addLoadMetrics adds what is asked of all shards, and of those of which most is asked.
func (a *Admin) addLoadMetrics(m *metricSet, shards []cleave.Shard) {
	loads, rates := a.node.ReadLoads(), a.node.LoadRates()
	total := loads.Total()
	m.beginFamily("operations_total", counter, "What requests have done with a key, by kind.")
	m.addSample(float64(total.Reads), "kind", "read")
	m.addSample(float64(total.Writes), "kind", "write")
	m.addSingle("scan_reads_total", counter, "Reads that are rows of scans.", float64(total.ScanReads))
	m.addSingle("cross_shard_operations_total", counter, "Operations of transactions over several shards.", float64(total.CrossShard))
	m.addSingle("conflicts_total", counter, "How often a transaction was repeated, or waited, because of another one on the same key.", float64(total.Conflicts))
	m.beginFamily("loop_round_seconds", 0, "How long rounds of loops took, once for each socket that was read in one: so long a request waits at most before it is read.")
	m.addHistogram(&loads.Rounds)
	a.addSpreadMetrics(m, shards, rates)
	m.addSingle("operation_errors_total", counter, "Operations whose reply is an error.", float64(total.Errors))
	top := slices.Clone(shards)
	slices.SortStableFunc(top, func(p, q cleave.Shard) int { return cmp.Compare(rates[q.ID].Ops(), rates[p.ID].Ops()) })
	top = top[:min(len(top), maxShardSeries)]
	label := func(s cleave.Shard) string { return strconv.FormatUint(uint64(s.ID), 10) }
	m.beginFamily("shard_operations_per_second", gauge, fmt.Sprintf("Reads and writes in the last seconds: the %d shards that have most.", maxShardSeries))
	for _, s := range top {
		m.addSample(rates[s.ID].Ops(), "shard", label(s))
	}
	for _, f := range loadMetrics {
		m.beginFamily(f.name, counter, f.help)
		for _, s := range top {
			l := loads.Of(s.ID)
			m.addSample(f.value(&l), "shard", label(s))
		}
	}
	for _, h := range []struct {
		name, help string
		histogram  func(*load.ShardLoad) *actor.Histogram
	}{
		{"shard_service_seconds", "How long operations on these took from the begin of their execution to their reply.", func(l *load.ShardLoad) *actor.Histogram { return &l.Service }},
		{"shard_wait_seconds", "How long operations on these waited for their execution to begin.", func(l *load.ShardLoad) *actor.Histogram { return &l.Wait }},
	} {
		m.beginFamily(h.name, 0, h.help)
		for _, s := range top {
			l := loads.Of(s.ID)
			m.addHistogram(h.histogram(&l), "shard", label(s))
		}
	}
}
