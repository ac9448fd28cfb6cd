package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/ratekeeper"
	"github.com/cleavekv/cleave/partition"
)

// Options configure a balancer. The zero value works.
type Options struct {
	// Knobs are those of the planner, and Rules those of the classifier. What was set at run time counts more.
	Knobs distributor.Knobs
	Rules classify.Rules
	// Interval is the time between rounds. Default a second.
	Interval time.Duration
	// Manual makes it propose only: an operator decides.
	Manual bool
	// Log gets what is changed, and why. Default none.
	Log *slog.Logger
}

// Balancer runs the loop. Its methods may be called by any goroutine.
type Balancer struct {
	node      *node.Node
	log       *slog.Logger
	interval  time.Duration
	startedAt time.Time
	startedMS int64 // the same as a time of day of the node
	decisions decisionLog
	stats     loopStats
	ctx       context.Context
	cancel    context.CancelFunc
	ended     chan struct{}

	// mu is held during a round.
	mu       sync.Mutex
	planner  *distributor.Planner
	observer *observer
	tuning   tuning
	// last is what the last round has seen, and found and proposed what it made of that.
	last     *observation
	found    []classify.Finding
	proposed []distributor.Proposal
	// accepted are shards that stay as they are, and critical the names of keyspaces none of whose shards may.
	accepted map[partition.ShardID]Acceptance
	critical map[string]bool
	// hotShards decides on throttles, and heldWriters is how many writers each of them had made wait or refused in the round
	// before.
	hotShards   ratekeeper.HotShards
	heldWriters map[partition.ShardID]uint64
	// failed is the error of the last round that was logged.
	failed string
}

// Start begins to balance the shards of a node.
func Start(n *node.Node, o Options) (*Balancer, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	b := &Balancer{node: n, log: o.Log, interval: o.Interval, startedAt: time.Now(), tuning: tuning{manual: manualRelief(o.Manual), knobs: o.Knobs, rules: o.Rules}, ended: make(chan struct{}), observer: newObserver(n)}
	b.startedMS = n.WallMS()
	b.decisions.node, b.decisions.stats, b.stats.lastAt = n, &b.stats, b.startedAt
	b.ctx, b.cancel = context.WithCancel(context.Background())
	err := errors.Join(b.decisions.load(b.ctx), b.loadAcceptances(b.ctx), b.loadKnobs(b.ctx))
	if err != nil {
		return nil, err
	}
	if b.planner, err = distributor.NewPlanner(b.tuning.knobs, b.decisions.pieces...); err != nil {
		return nil, err
	}
	b.stats.stats.Work = map[partition.GroupID]float64{} // of groups whose work is not measured yet
	for _, g := range n.Map().Groups() {
		b.stats.stats.Work[g.ID] = 0
	}
	go b.run()
	return b, nil
}

// Close ends the loop and waits for it. Jobs go on. It comes before the node is closed.
func (b *Balancer) Close() {
	b.cancel()
	<-b.ended
}

// run balances until the balancer is closed.
func (b *Balancer) run() {
	defer close(b.ended)
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		}
		if err := b.round(b.ctx, false); err != nil && b.ctx.Err() == nil {
			if text := err.Error(); text != b.failed { // a round that fails is tried again each second
				b.failed = text
				b.log.Warn("shards are not balanced", "error", err)
			}
			continue
		}
		b.failed = ""
	}
}

// round measures, plans, and begins what is planned.
func (b *Balancer) round(ctx context.Context, byHand bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	began := time.Now()
	err := b.balance(ctx, byHand)
	b.stats.recordRound(began, err)
	return err
}

// balance does a round. mu is held.
func (b *Balancer) balance(ctx context.Context, byHand bool) error {
	if byHand {
		b.node.SampleLoads()
	}
	if err := b.observe(ctx); err != nil {
		return err
	}
	return b.act(ctx, byHand)
}

// act judges what was done before, and does what is to be done now about what was measured. mu is held.
func (b *Balancer) act(ctx context.Context, byHand bool) error {
	planner := b.planner
	if bool(b.tuning.manual) && !byHand {
		planner.Observe(b.last.situation)
		planner = planner.Clone() // nothing of it is done
	}
	b.proposed = planner.Step(b.last.situation)
	if err := errors.Join(b.judge(ctx), b.endAcceptances(ctx)); err != nil {
		return err
	}
	var made []*ReliefDecision
	for i := range b.proposed {
		if d := b.decide(ctx, &b.proposed[i], byHand); d != nil {
			made = append(made, d)
		}
	}
	made = append(made, b.throttleHot()...)
	return errors.Join(b.decisions.add(ctx, made...), b.decisions.setPieces(ctx, b.planner.Pieces()))
}

// observe measures, and classifies what it finds. mu is held.
func (b *Balancer) observe(ctx context.Context) error {
	seen, err := b.observer.observe(ctx, time.Since(b.startedAt), b.planner, func(id partition.ShardID) bool { _, ok := b.accepted[id]; return ok })
	if err != nil {
		return fmt.Errorf("measure the shards: %w", err)
	}
	b.last = seen
	rules := b.tuning.rules
	if rules.MaxBytes == 0 {
		rules.MaxBytes = b.planner.MaxBytes(seen.situation.Shards)
	}
	b.found = classify.Classify(seen.measures, seen.machines, rules)
	b.stats.recordFound(b.found, seen)
	return nil
}

// decide begins what is proposed, and returns the decision; nil if there is nothing to say. mu is held.
func (b *Balancer) decide(ctx context.Context, p *distributor.Proposal, byHand bool) *ReliefDecision {
	switch p.Reason {
	case distributor.Even, distributor.Settling, distributor.JobsRunning, distributor.Undecided:
		if !byHand {
			return nil // all is well, or it is decided in a moment
		}
	}
	d := b.describe(p)
	d.ByHand = byHand
	switch {
	case p.Change == distributor.Keep:
		d.Outcome = Kept
		if f := b.findingAbout(p); f != nil {
			if a, ok := b.accepted[f.Shard]; ok {
				d.Shard, d.Reason = a.Shard, "it is accepted as it is: "+a.Reason
			}
		}
	case bool(b.tuning.manual) && !byHand:
		// As a decision to do nothing: it is made again each round until an operator acts.
		d.Outcome, d.Change = Kept, "keep"
		d.Reason = "relief is manual: cleave rebalance would " + p.Change.String() + " it, as " + d.Reason
	default:
		b.start(ctx, p, d)
	}
	return d
}

// start begins the job of a proposal. mu is held.
func (b *Balancer) start(ctx context.Context, p *distributor.Proposal, d *ReliefDecision) {
	r, err := b.toRequest(p)
	var job *node.Job
	if err == nil {
		job, err = b.node.StartJob(ctx, r)
	}
	if err != nil {
		d.Outcome, d.Error = Refused, err.Error()
		b.log.Info("heat: not done", "decision", d.String(), "error", err)
		return
	}
	d.Outcome, d.Job = Running, job.ID
	b.log.Info("heat: "+p.Change.String(), "decision", d.String(), "job", uint64(job.ID), "before", d.Before, "predicted", d.Predicted)
}

// toRequest makes the job that a proposal wants.
func (b *Balancer) toRequest(p *distributor.Proposal) (mover.Request, error) {
	s, ok := b.last.m.Shard(p.Shard)
	if !ok {
		return mover.Request{}, fmt.Errorf("%w: %v is gone", partition.ErrUnknownShard, p.Shard)
	}
	return p.Request(s, &b.last.keyspaces[p.Shard].Keyspace), nil
}

// judge looks what became of decisions: whether their jobs have ended, and, of moves that were to relieve a group, whether
// the planner has found that they helped. It comes after a step of the planner, which judges once. mu is held.
func (b *Balancer) judge(ctx context.Context) error {
	for _, d := range b.decisions.open() {
		change, err := b.judgeOne(ctx, &d)
		if err != nil {
			return err
		}
		if change == nil {
			continue
		}
		if err := b.decisions.update(ctx, d.ID, change); err != nil {
			return err
		}
	}
	return nil
}

// judgeOne returns how a decision changes, nil if it does not yet.
func (b *Balancer) judgeOne(ctx context.Context, d *ReliefDecision) (change func(*ReliefDecision), err error) {
	j, err := b.node.Job(ctx, d.Job)
	if errors.Is(err, node.ErrNoJob) { // it ended long ago, and nothing is known of it
		return func(d *ReliefDecision) { d.Outcome, d.IsFinal = Done, true }, nil
	}
	if err != nil {
		return nil, err
	}
	record, err := j.Record(ctx)
	if err != nil {
		return nil, err
	}
	ended, undone := record.HasEnded()
	switch {
	case !ended:
		return nil, nil
	case undone:
		return func(d *ReliefDecision) { d.Outcome, d.Error = Refused, record.Reason }, nil
	}
	helped, judged := b.planner.Helped(d.Group)
	isRelief := d.Change == distributor.Move.String() && d.Reason == distributor.GroupHot.String() && d.TimeMS >= b.startedMS
	switch {
	case isRelief && judged:
		now, measured := b.node.WallMS(), b.last.workOf(d.Group)
		return func(d *ReliefDecision) {
			d.Measured, d.JudgedMS, d.Outcome = measured, now, DidNotHelp
			if helped {
				d.Outcome = Helped
			}
		}, nil
	case isRelief && b.planner.IsJudging(d.Group):
		if d.Outcome == Done {
			return nil, nil
		}
		return func(d *ReliefDecision) { d.Outcome = Done }, nil
	}
	return func(d *ReliefDecision) { d.Outcome, d.IsFinal = Done, true }, nil // nothing of it is judged
}

// describe makes a decision of a proposal, with what was found about its shard. mu is held.
func (b *Balancer) describe(p *distributor.Proposal) *ReliefDecision {
	d := &ReliefDecision{
		TimeMS: b.node.WallMS(), Shard: p.Shard, With: p.With, Group: p.Group, To: p.To, Change: p.Change.String(), Reason: p.Reason.String(),
		Before: round3(p.Before), Predicted: round3(p.After),
	}
	if s, ok := b.last.m.Shard(p.Shard); ok {
		d.Start, d.End = s.Span.Start, s.Span.End
		if with, ok := b.last.m.Shard(p.With); ok {
			d.End = with.Span.End
		}
	}
	k := b.last.keyspaces[p.Shard]
	if k != nil {
		d.Keyspace = k.Name
	}
	if p.Key != nil {
		d.Key = keyText(k, p.Key)
	}
	for _, at := range p.At {
		d.Cuts = append(d.Cuts, keyText(k, at))
	}
	if d.Change == distributor.Keep.String() {
		d.Predicted = d.Before
	}
	if f := b.findingAbout(p); f != nil {
		d.Class, d.Evidence, d.Remedy = f.Class.String(), f.Evidence, b.Remedy(f)
		if d.Key == "" && f.Key != nil {
			d.Key = keyText(b.last.keyspaces[f.Shard], f.Key)
		}
	}
	return d
}

// findingAbout returns what was found about the shard of a proposal, or about the one of its group with the most work;
// nil if nothing was. mu is held.
func (b *Balancer) findingAbout(p *distributor.Proposal) (about *classify.Finding) {
	most := -1.0
	for i := range b.found {
		f := &b.found[i]
		s, ok := b.last.shard(f.Shard)
		if isAbout := f.Shard == p.Shard || p.Shard == 0 && f.Group == p.Group; ok && isAbout && s.Work > most {
			about, most = f, s.Work
		}
	}
	return about
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// IsManual reports whether the balancer proposes only.
func (b *Balancer) IsManual() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bool(b.tuning.manual)
}

// Decisions returns the newest decisions about a shard, those of its group that are about no shard included; 0 for all
// shards.
func (b *Balancer) Decisions(about partition.ShardID, n int) []ReliefDecision {
	group := partition.GroupID(0)
	if s, ok := b.node.Map().Shard(about); ok {
		group = s.Group
	}
	return b.decisions.newest(n, func(d *ReliefDecision) bool {
		return about == 0 || d.Shard == about || d.With == about || d.Shard == 0 && d.Group == group && group != 0
	})
}

// ReliefPlan is what the last round has seen, and what the next would do.
type ReliefPlan struct {
	// Findings say of hot shards, too, whether their writers are limited, and why not.
	Findings  []classify.Finding
	Decisions []ReliefDecision
	// Work is that of groups, and Imbalance the highest beside the mean.
	Work      map[partition.GroupID]float64
	Imbalance float64
	// ExtraShards is about how many shards splits for this load may add: see [distributor.Planner.ExtraShards].
	ExtraShards int
}

// Plan returns what would be done about what the last round has seen. Nothing changes: to measure restarts windows and counts
// rounds, so that frequent looks would change what the next rounds decide.
func (b *Balancer) Plan(ctx context.Context) (ReliefPlan, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil { // there was no round yet
		if err := b.observe(ctx); err != nil {
			return ReliefPlan{}, err
		}
	}
	p := ReliefPlan{Findings: slices.Clone(b.found), ExtraShards: b.planner.ExtraShards(b.last.situation)}
	for i := range p.Findings {
		if why := b.describeThrottle(&p.Findings[i]); why != "" {
			p.Findings[i].Evidence += "; " + why
		}
	}
	p.Work, p.Imbalance = b.last.groupWorks()
	for _, proposal := range b.planner.Clone().Step(b.last.situation) {
		d := b.describe(&proposal)
		d.Outcome = Proposed
		if proposal.Change == distributor.Keep {
			d.Outcome = Kept
		}
		p.Decisions = append(p.Decisions, *d)
	}
	return p, nil
}

// Rebalance does one round now, also if relief is manual, and returns what was decided.
func (b *Balancer) Rebalance(ctx context.Context) ([]ReliefDecision, error) {
	before := b.decisions.lastID()
	if err := b.round(ctx, true); err != nil {
		return nil, err
	}
	made := b.decisions.newest(maxDecisions, func(d *ReliefDecision) bool { return d.ID > before })
	slices.Reverse(made)
	return made, nil
}

// Finding returns what the last round has found about a shard; false if nothing. It waits for no round.
func (b *Balancer) Finding(id partition.ShardID) (classify.Finding, bool) {
	all := b.Findings()
	i := slices.IndexFunc(all, func(f classify.Finding) bool { return f.Shard == id })
	if i < 0 {
		return classify.Finding{}, false
	}
	return all[i], true
}

// Findings returns what the last round has found. It waits for no round.
func (b *Balancer) Findings() []classify.Finding {
	b.stats.mu.Lock()
	defer b.stats.mu.Unlock()
	return slices.Clone(b.stats.findings)
}
