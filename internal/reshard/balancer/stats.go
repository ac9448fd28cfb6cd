package balancer

import (
	"maps"
	"math/bits"
	"sync"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/partition"
)

// LoopStats is what the loop has done since the process began, and what its last round has found.
type LoopStats struct {
	// Rounds have ended well, and Failed have not. RoundTime is how long both took.
	Rounds, Failed uint64
	RoundTime      actor.Histogram
	// SinceLast is the time since a round has ended well, or since the loop began.
	SinceLast time.Duration
	// Outcomes counts how often decisions came to an outcome: one that was carried out and judged counts under each that
	// it had, one that repeats the last once.
	Outcomes map[ChangeOutcome]uint64
	// Found is how many shards, and machines, are of a class.
	Found map[classify.Class]int
	// Work is that of groups, and Imbalance the highest beside the mean: 0 without load.
	Work      map[partition.GroupID]float64
	Imbalance float64
}

// ChangeOutcome is what was to be done, and what became of it.
type ChangeOutcome struct {
	Change  string
	Outcome ReliefOutcome
}

// AllOutcomes are those that decisions can have.
func AllOutcomes() (all []ChangeOutcome) {
	all = append(all, ChangeOutcome{"keep", Kept}, ChangeOutcome{"throttle", Kept}, ChangeOutcome{"throttle", Refused})
	for _, change := range []string{"split", "move", "merge"} {
		for _, o := range []ReliefOutcome{Running, Done, Refused} {
			all = append(all, ChangeOutcome{change, o})
		}
	}
	return append(all, ChangeOutcome{"move", Helped}, ChangeOutcome{"move", DidNotHelp})
}

// loopStats collects LoopStats. It has a lock of its own: a round that hangs holds the others, and must be seen.
type loopStats struct {
	mu     sync.Mutex
	stats  LoopStats
	lastAt time.Time
	// findings are those of the last round, and accepted a copy of what is accepted.
	findings []classify.Finding
	accepted map[partition.ShardID]Acceptance
}

// recordAccepted keeps what is accepted.
func (l *loopStats) recordAccepted(accepted map[partition.ShardID]Acceptance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = maps.Clone(accepted)
}

// recordRound counts a round.
func (l *loopStats) recordRound(began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	ns := uint64(max(now.Sub(began), 0))
	h := &l.stats.RoundTime
	h.Counts[min(bits.Len64(ns), len(h.Counts)-1)]++
	h.SumNS += ns
	h.MaxNS = max(h.MaxNS, ns)
	if err != nil {
		l.stats.Failed++
		return
	}
	l.stats.Rounds++
	l.lastAt = now
}

// recordFound keeps what a round has measured and found.
func (l *loopStats) recordFound(found []classify.Finding, o *observation) {
	classes := map[classify.Class]int{}
	for i := range found {
		classes[found[i].Class]++
	}
	work, imbalance := o.groupWorks()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Found, l.stats.Work, l.stats.Imbalance, l.findings = classes, work, imbalance, found
}

// recordOutcome counts what became of a decision.
func (l *loopStats) recordOutcome(d *ReliefDecision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stats.Outcomes == nil {
		l.stats.Outcomes = map[ChangeOutcome]uint64{}
	}
	l.stats.Outcomes[ChangeOutcome{d.Change, d.Outcome}]++
}

// Stats returns what the loop has done. It waits for no round.
func (b *Balancer) Stats() LoopStats {
	l := &b.stats
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.SinceLast = time.Since(l.lastAt)
	s.Outcomes, s.Found, s.Work = maps.Clone(s.Outcomes), maps.Clone(s.Found), maps.Clone(s.Work)
	return s
}
