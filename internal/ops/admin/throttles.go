package admin

import (
	"github.com/cleavekv/cleave/internal/shard/admission"
)

// addThrottleMetrics reports how writers were held up, by why: a cap, a hot shard, a move.
func (a *Admin) addThrottleMetrics(m *metricSet) {
	limits := a.node.WriteLimits()
	held := map[admission.LimitSource]int{}
	for _, l := range limits.List() {
		held[l.Key.Source]++
	}
	m.beginFamily("throttled_total", counter, "Writes that were refused because their turn would have come too late, by why writers were held up.")
	for _, s := range admission.LimitSources() {
		totals := limits.Totals(s)
		m.addSample(float64(totals.Refused), "by", s.String())
	}
	m.beginFamily("throttle_wait_seconds", 0, "How long writers waited for their turn that had to, by why.")
	for _, s := range admission.LimitSources() {
		totals := limits.Totals(s)
		m.addHistogram(&totals.Waits, "by", s.String())
	}
	m.beginFamily("write_limits", gauge, "Limits of writes that hold, by why.")
	for _, s := range admission.LimitSources() {
		m.addSample(float64(held[s]), "by", s.String())
	}
}
