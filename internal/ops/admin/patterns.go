package admin

import (
	"context"
	"fmt"
	"math"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/partition"
)

// addPatterns adds the shapes in a view, with what they mean. One view at a time is searched, and none whose client has left:
// large ones take long.
func (a *Admin) addPatterns(ctx context.Context, m *api.HeatMap, v *heat.View, scale float64) error {
	a.patternSearch.Lock()
	defer a.patternSearch.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range heat.FindPatterns(*v) {
		told := api.HeatPattern{
			Kind: p.Kind.String(), FirstRow: p.FirstRow, LastRow: p.LastRow, FirstColumn: p.FirstColumn, LastColumn: p.LastColumn,
			Strength: math.Round(1000*p.Strength) / 1000, Rate: math.Round(p.Rate * scale),
		}
		end := p.LastRow
		if p.Kind == heat.Diagonal && p.Steps < 0 {
			end = p.FirstRow
		}
		if p.Kind != heat.Vertical {
			told.Keyspace, told.Shard = m.Rows[end].Keyspace, m.Rows[end].Shard
		}
		if p.Kind == heat.Horizontal && p.FirstRow == p.LastRow && m.Rows[end].Single {
			told.Key = m.Rows[end].StartKey
		}
		told.Text, told.Remedy = a.explainPattern(&p, &told, m.Metric)
		m.Patterns = append(m.Patterns, told)
	}
	return nil
}

// patternNouns are what is counted.
var patternNouns = map[string]string{
	api.MetricOps: "operations", api.MetricReads: "reads", api.MetricWrites: "writes", api.MetricBytesIn: "bytes written", api.MetricBytesOut: "bytes read",
	api.MetricConflicts: "conflicts",
}

// explainPattern says what is seen, and what helps.
func (a *Admin) explainPattern(p *heat.Pattern, told *api.HeatPattern, metric string) (text, remedy string) {
	noun, part := patternNouns[metric], fmt.Sprintf("%.0f %%", 100*p.Strength)
	switch p.Kind {
	case heat.Diagonal:
		where := "to larger keys"
		if p.Steps < 0 {
			where = "to smaller keys"
		}
		if p.Lines > 1 {
			where += fmt.Sprintf(", on %d tracks", p.Lines)
		}
		text = fmt.Sprintf("moving edge in %s: %s of %s move %s as time goes by", quoteText(told.Keyspace), part, noun, where)
		if metric == api.MetricReads || metric == api.MetricBytesOut {
			return text, "a scan in the order of keys: it passes, and loads one shard at a time; run several over parts of the keys, or let it go slower"
		}
		return text, a.remedyFor(&classify.Finding{Class: classify.MovingEdge}, told.Keyspace)
	case heat.Horizontal:
		if told.Key != nil {
			return fmt.Sprintf("hot key %s in %s: %s of %s", told.Key, quoteText(told.Keyspace), part, noun),
				a.remedyFor(&classify.Finding{Class: classify.HotKey, Reads: readShares[metric]}, told.Keyspace) + ". cleave hotkeys names its clients"
		}
		return fmt.Sprintf("hot narrow range in %s: %s of %s on %s", quoteText(told.Keyspace), part, noun, output.Plural(p.LastRow-p.FirstRow+1, "row")),
			"a split in the middle of it, which is done by itself once the shard is hot (cleave plan)"
	}
	return fmt.Sprintf("burst: %.1f times the usual %s, on most keys", p.Strength, noun),
		"many keys at once are no matter of a shard: look for a job that starts at this time, a cache that was emptied or clients that try again (cleave client list)"
}

// readShares is the share of reads in what a metric counts; of operations either may be most.
var readShares = map[string]float64{api.MetricOps: 0.5, api.MetricReads: 1, api.MetricBytesOut: 1}

// remedyFor is what helps against a finding in a keyspace.
func (a *Admin) remedyFor(f *classify.Finding, keyspace string) string {
	var k *partition.Keyspace
	if of, err := a.node.Keyspace(keyspace); err == nil {
		k = &of.Keyspace
	}
	return balancer.RemedyOf(f, k, len(a.node.Map().Groups()))
}
