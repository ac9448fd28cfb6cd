package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// How often is looked at what the server finds, and at jobs. It measures once a second itself.
const (
	pollInterval    = 250 * time.Millisecond
	jobPollInterval = 10 * time.Millisecond
)

// rest waits for some time, with a line of progress.
func (st *stage) rest(d time.Duration, text string) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		st.show(text)
		if err := st.pause(min(pollInterval, time.Until(end))); err != nil {
			return err
		}
	}
	return st.checkClients()
}

// pause waits, or returns the error of the context.
func (st *stage) pause(d time.Duration) error {
	select {
	case <-st.ctx.Done():
		return st.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// checkClients returns the error of clients that have failed.
func (st *stage) checkClients() error {
	for _, c := range st.clients {
		c.mu.Lock()
		err := c.failed
		c.mu.Unlock()
		if err != nil {
			return fmt.Errorf("a client has failed: %w", err)
		}
	}
	return nil
}

// await asks again and again until the answer is yes.
func (st *stage) await(what string, ask func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < st.pace.Patience; {
		yes, err := ask()
		if err != nil || yes {
			return err
		}
		st.show("waiting for " + what)
		if err := st.pause(pollInterval); err != nil {
			return err
		}
		if err := st.checkClients(); err != nil {
			return err
		}
	}
	return fmt.Errorf("no %s within %v", what, st.pace.Patience)
}

// awaitFinding waits until the server names a shard of a keyspace for a reason, prints that, and returns it.
func (st *stage) awaitFinding(class, keyspace string) (found api.Hot, err error) {
	began := time.Now()
	err = st.await("the store to name the "+class, func() (bool, error) {
		p, err := st.operator.Plan(st.ctx)
		if err != nil {
			return false, err
		}
		ours, err := st.shardsOf(keyspace)
		if err != nil {
			return false, err
		}
		for _, f := range p.Found {
			if f.Class == class && slices.ContainsFunc(ours, func(s api.Shard) bool { return s.ID == f.Shard }) {
				found = f
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return found, err
	}
	st.result.Found = append(st.result.Found, found)
	st.say("After %.1f s the store names it:", time.Since(began).Seconds())
	st.item("found", fmt.Sprintf("shard %d: %s", found.Shard, found.Class))
	if found.Key != nil {
		st.item("key", found.Key.String())
	}
	st.item("because", found.Evidence)
	if found.Remedy != "" {
		st.item("remedy", found.Remedy)
	}
	return found, nil
}

// awaitDecision waits for a decision, the newest first, that is the wanted one, prints it, and returns it.
func (st *stage) awaitDecision(what string, wanted func(*api.Decision) bool) (d api.Decision, err error) {
	var newest string // in the place of the wanted one
	err = st.await(what, func() (bool, error) {
		all, err := st.operator.Decisions(st.ctx, api.DecisionFilter{N: api.MaxPageItems})
		if err != nil {
			return false, err
		}
		if len(all) > 0 {
			newest = describeDecision(&all[0])
		}
		i := slices.IndexFunc(all, func(d api.Decision) bool { return wanted(&d) })
		if i >= 0 {
			d = all[i]
		}
		return i >= 0, nil
	})
	if err != nil {
		return d, fmt.Errorf("%w; the newest decision is to %s", err, newest)
	}
	st.result.Decisions = append(st.result.Decisions, d)
	st.item("decision", describeDecision(&d))
	return d, nil
}

// listDecisions prints what else was decided about a class since some moment, the oldest first and each reason once.
func (st *stage) listDecisions(class string, since time.Time) error {
	all, err := st.operator.Decisions(st.ctx, api.DecisionFilter{N: api.MaxPageItems})
	if err != nil {
		return err
	}
	said := map[string]bool{}
	for _, d := range st.result.Decisions {
		said[d.Change+d.Reason] = true
	}
	for _, d := range slices.Backward(all) {
		if d.Class != class || d.Time.Before(since) || said[d.Change+d.Reason] {
			continue
		}
		said[d.Change+d.Reason] = true
		st.result.Decisions = append(st.result.Decisions, d)
		st.item("decision", describeDecision(&d))
	}
	return nil
}

// describeDecision is a decision in a sentence.
func describeDecision(d *api.Decision) string {
	switch d.Change {
	case "keep":
		what := fmt.Sprintf("leave shard %d as it is", d.Shard)
		if d.Shard == 0 {
			what = fmt.Sprintf("leave group %d as it is", d.Group)
		}
		return what + ": " + d.Reason
	case "move":
		return fmt.Sprintf("move shard %d from group %d to group %d: %s; the group works %.0f %% of its time, %.0f %% afterwards",
			d.Shard, d.Group, d.To, d.Reason, 100*d.WorkBefore, 100*d.WorkPredicted)
	case "split":
		return fmt.Sprintf("split shard %d: %s", d.Shard, d.Reason)
	}
	return fmt.Sprintf("%s shard %d: %s", d.Change, d.Shard, d.Reason)
}

// shardsOf returns the shards of a keyspace in the order of their keys.
func (st *stage) shardsOf(keyspace string) ([]api.Shard, error) {
	return st.operator.Shards(st.ctx, api.ShardFilter{Keyspace: keyspace})
}

// spreadFigures are how the writes of a window fall on the shards and groups of a keyspace.
type spreadFigures struct {
	shares  []float64 // of shards, in the order of their keys
	busiest float64
	// overMean is how many times the mean of all shards the busiest has.
	overMean float64
	// written is how many shards have at least one in a hundred of the writes.
	written int
	// group is the share of the group that has most.
	group float64
}

// spreadOf compares two looks at the same shards. Those that were split meanwhile count from then on.
func spreadOf(before, after []api.Shard) (f spreadFigures) {
	counted := map[uint64]uint64{}
	for _, s := range before {
		counted[s.ID] = s.Load.Writes
	}
	total, groups := 0.0, map[uint64]float64{}
	for _, s := range after {
		n := float64(s.Load.Writes - min(s.Load.Writes, counted[s.ID]))
		f.shares = append(f.shares, n)
		groups[s.Group] += n
		total += n
	}
	if total == 0 {
		return f
	}
	for i := range f.shares {
		f.shares[i] /= total
		f.busiest = max(f.busiest, f.shares[i])
		if f.shares[i] >= 0.01 {
			f.written++
		}
	}
	for _, n := range groups {
		f.group = max(f.group, n/total)
	}
	f.overMean = f.busiest * float64(len(f.shares))
	return f
}

// measurement is what was measured in a window.
type measurement struct {
	spreadFigures
	perSecond, refused, p99 float64
	// neighborP99 is that of clients of other keys.
	neighborP99 float64
}

// measure takes figures for some time: of clients that write to a keyspace, and of their neighbors, if there are any.
func (st *stage) measure(keyspace string, c, neighbors *clients) (m measurement, err error) {
	before, err := st.shardsOf(keyspace)
	if err != nil {
		return m, err
	}
	c.cut()
	if neighbors != nil {
		neighbors.cut()
	}
	if err := st.rest(st.pace.Measure, "measuring"); err != nil {
		return m, err
	}
	w := c.cut()
	m.perSecond, m.p99 = w.perSecond(), w.p99()
	m.refused = float64(w.refusals) / time.Since(w.began).Seconds()
	if neighbors != nil {
		n := neighbors.cut()
		m.neighborP99 = n.p99()
	}
	after, err := st.shardsOf(keyspace)
	m.spreadFigures = spreadOf(before, after)
	return m, err
}

// compare adds a table to the result and prints it.
func (st *stage) compare(c Comparison) {
	st.result.Tables = append(st.result.Tables, c)
	st.table(c)
}

// figureOf takes a figure of each measurement.
func figureOf(name string, format func(float64) string, ms []measurement, value func(*measurement) float64) Figure {
	f := Figure{Name: name, format: format}
	for i := range ms {
		f.Values = append(f.Values, value(&ms[i]))
	}
	return f
}
