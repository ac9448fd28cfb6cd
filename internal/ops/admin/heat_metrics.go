package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/partition"
)

// maxGroupSeries is how many groups have figures of their own: a store has 1024 at most, and as many as processors by
// default.
const maxGroupSeries = 32

// addHeatMetrics reports how even the load is, and what the balancer does about it.
func (a *Admin) addHeatMetrics(m *metricSet) {
	m.addSingle("heat_bytes", gauge, "What the sample of requests for hot keys, and the heat map, take; 0 if heat is off.", float64(a.node.HeatBytes()))
	if meter := a.node.Heat(); meter != nil {
		spread := meter.Spread()
		m.addSingle("heat_entropy_bits", gauge, "The entropy of the load by bucket of keys, of which there are 1024.", spread.Entropy)
		m.addSingle("heat_evenness", gauge, "How much of its maximum the entropy has: 1 is even, 0 is one key.", spread.Evenness)
		m.addSingle("heat_samples", gauge, "The operations that these two are known from.", spread.Samples)
	}
	if a.balancer != nil {
		s := a.balancer.Stats()
		addBalancerMetrics(m, &s)
	}
}

func addBalancerMetrics(m *metricSet, s *balancer.LoopStats) {
	m.beginFamily("balancer_rounds_total", counter, "Rounds of measuring and relieving, by whether they came to their end.")
	m.addSample(float64(s.Rounds), "result", "ok")
	m.addSample(float64(s.Failed), "result", "failed")
	m.beginFamily("balancer_round_seconds", 0, "How long these took.")
	m.addHistogram(&s.RoundTime)
	m.addSingle("balancer_last_round_age_seconds", gauge, "The time since a round has come to its end.", s.SinceLast.Seconds())
	m.beginFamily("balancer_decisions_total", counter, "How often decisions came to an outcome, by what was to be done: one that is carried out has several.")
	for _, o := range balancer.AllOutcomes() {
		m.addSample(float64(s.Outcomes[o]), "change", o.Change, "outcome", toLabel(string(o.Outcome)))
	}
	m.beginFamily("balancer_findings", gauge, "Shards, and machines, that need attention, by why.")
	for _, c := range classify.Classes() {
		m.addSample(float64(s.Found[c]), "class", toLabel(c.String()))
	}
	m.addSingle("balancer_imbalance", gauge, "The work of the busiest group beside the mean: 1 is even, 0 is without load.", s.Imbalance)
	m.beginFamily("group_work", gauge, fmt.Sprintf("The share of a processor that the shards of a group take: the %d that take most.", maxGroupSeries))
	groups := slices.SortedFunc(maps.Keys(s.Work), func(x, y partition.GroupID) int { return cmp.Or(cmp.Compare(s.Work[y], s.Work[x]), cmp.Compare(x, y)) })
	for _, id := range groups[:min(len(groups), maxGroupSeries)] {
		m.addSample(s.Work[id], "group", strconv.FormatUint(uint64(id), 10))
	}
}

// toLabel makes a label of words.
func toLabel(words string) string { return strings.NewReplacer(" ", "_", "-", "_").Replace(words) }
