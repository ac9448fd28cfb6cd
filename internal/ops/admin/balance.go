package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
)

// balanceRoutes show what the balancer finds and decides, and steer it.
func (a *Admin) balanceRoutes() []route {
	return []route{
		newReadRoute(api.PathPlan, "plan", "What is hot, and what would be done about it now. Nothing is.", nil, a.getPlan),
		newListRoute(api.PathDecisions, "listDecisions", "What was decided about hot, large and cold shards, the newest first.", []param{
			{api.QueryShard, "integer", "only those about a shard, or its group"}, {api.QueryClass, "string", "only those about what is of a class, such as hot key"},
			{api.QuerySince, "string", "a time in RFC 3339: only those that were made at it or later"},
		}, a.listDecisions),
		newListRoute(api.PathAccepted, "listAccepted", "Hot shards that are left as they are, with price, reason and end.", nil, a.listAccepted),
		newListRoute(api.PathKnobs, "listKnobs", "What the loop of measuring and relieving is tuned by.", nil, a.listKnobs),
		newActionRoute(a, api.PathRebalance, "rebalance", "Do now what the plan says.", a.planRebalance),
		newActionRoute(a, api.PathAccept, "accept", "Leave a hot shard as it is for some time, or end that.", a.planAccept),
		newActionRoute(a, api.PathCritical, "markCritical", "Mark a keyspace, so that heat on it is never accepted, or take the mark away.", a.planMarkCritical),
		newActionRoute(a, api.PathSetKnobs, "setKnobs", "Change knobs, all or none.", a.planSetKnobs),
	}
}

// errHeatOff refuses what needs the balancer.
func errHeatOff() error {
	return newRefusedError("heat is off: nothing is measured, and nothing is decided", "start the server with --heat on")
}

func toDecision(d *balancer.ReliefDecision) api.Decision {
	one := api.Decision{
		ID: d.ID, Time: msTime(d.TimeMS), Last: msTime(d.LastMS), Times: d.Times, Shard: uint64(d.Shard), With: uint64(d.With), Group: uint64(d.Group), To: uint64(d.To),
		Change: d.Change, Reason: d.Reason, Class: d.Class, Evidence: d.Evidence, Remedy: d.Remedy, WorkBefore: d.Before, WorkPredicted: d.Predicted,
		Outcome: string(d.Outcome), Error: d.Error, ByHand: d.ByHand,
	}
	if d.Key != "" {
		one.Key = api.KeyOrNil([]byte(d.Key))
	}
	for _, c := range d.Cuts {
		one.Cuts = append(one.Cuts, api.Key(c))
	}
	if d.JudgedMS != 0 {
		at := msTime(d.JudgedMS)
		one.Judged, one.WorkMeasured = &at, &d.Measured
	}
	if d.Job != 0 {
		one.Job = strconv.FormatUint(uint64(d.Job), 10)
	}
	return one
}

func msTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func (a *Admin) getPlan(ctx context.Context, _ *query) (api.BalancePlan, error) {
	b := a.balancer
	if b == nil {
		return api.BalancePlan{}, errHeatOff()
	}
	p, err := b.Plan(ctx)
	if err != nil {
		return api.BalancePlan{}, err
	}
	told := api.BalancePlan{Manual: b.IsManual(), Imbalance: p.Imbalance, ExtraShards: p.ExtraShards, Groups: []api.GroupWork{}, Found: []api.Hot{}, Decisions: []api.Decision{}}
	for _, id := range slices.Sorted(maps.Keys(p.Work)) {
		told.Groups = append(told.Groups, api.GroupWork{Group: uint64(id), Work: p.Work[id]})
	}
	told.Found = append(told.Found, a.toHot(p.Findings)...)
	for i := range p.Decisions {
		told.Decisions = append(told.Decisions, toDecision(&p.Decisions[i]))
	}
	return told, nil
}

// maxListedDecisions is how many decisions are listed: all that are kept.
const maxListedDecisions = 1000

func (a *Admin) listDecisions(_ context.Context, q *query) (api.Page[api.Decision], error) {
	none := api.Page[api.Decision]{}
	id, err := q.getUint(api.QueryShard, 0)
	if err != nil {
		return none, err
	}
	since, err := q.getUnixTime(api.QuerySince, a.o.Now())
	if err != nil {
		return none, err
	}
	class := q.getString(api.QueryClass)
	if q.has(api.QueryClass) && !slices.ContainsFunc(classify.Classes(), func(c classify.Class) bool { return c.String() == class }) {
		var names []string
		for _, c := range classify.Classes() {
			names = append(names, c.String())
		}
		return none, newInvalidError("there is no class "+quoteText(class), "give "+strings.Join(names, ", "))
	}
	if a.balancer == nil {
		return none, errHeatOff()
	}
	all := []api.Decision{}
	for _, d := range a.balancer.Decisions(cleave.ShardID(id), maxListedDecisions) {
		if (class == "" || d.Class == class) && d.LastMS >= since.Milliseconds() {
			all = append(all, toDecision(&d))
		}
	}
	return cutPage(q, all, func(_ int, d api.Decision) uint64 { return d.ID }, true)
}

func (a *Admin) listAccepted(_ context.Context, q *query) (api.Page[api.Acceptance], error) {
	if a.balancer == nil {
		return api.Page[api.Acceptance]{}, errHeatOff()
	}
	all := []api.Acceptance{}
	for _, accepted := range a.balancer.Acceptances() {
		all = append(all, toAcceptance(&accepted))
	}
	return cutPage(q, all, func(_ int, accepted api.Acceptance) uint64 { return accepted.Shard }, false)
}

func toAcceptance(a *balancer.Acceptance) api.Acceptance {
	return api.Acceptance{Shard: uint64(a.Shard), Ground: string(a.Ground), Price: a.Price, Reason: a.Reason, Made: msTime(a.MadeMS), Until: msTime(a.UntilMS)}
}

func (a *Admin) listKnobs(_ context.Context, q *query) (api.Page[api.Knob], error) {
	if a.balancer == nil {
		return api.Page[api.Knob]{}, errHeatOff()
	}
	all := []api.Knob{}
	for _, k := range a.balancer.Knobs() {
		all = append(all, api.Knob(k))
	}
	return cutPage(q, all, byIndex[api.Knob], false)
}

func (a *Admin) planRebalance(ctx context.Context, _ *query, _ api.Rebalance) (*plannedChange, error) {
	if a.balancer == nil {
		return nil, errHeatOff()
	}
	p, err := a.balancer.Plan(ctx)
	if err != nil {
		return nil, err
	}
	plan := api.Plan{Steps: []string{}}
	changes := 0
	for _, d := range p.Decisions {
		if d.Outcome == balancer.Proposed {
			changes++
		}
		plan.Steps = append(plan.Steps, d.String())
	}
	plan.Summary = fmt.Sprintf("make %s", output.Plural(changes, "change"))
	if changes == 0 {
		plan.Summary = "change nothing"
	}
	return &plannedChange{plan: plan, apply: func(ctx context.Context) (*api.Job, error) {
		made, err := a.balancer.Rebalance(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range made {
			if d.Job != 0 { // the others are seen beside it
				return a.loadStoreJob(ctx, cleave.JobID(d.Job))
			}
		}
		return nil, nil
	}}, nil
}

func (a *Admin) planAccept(_ context.Context, _ *query, r api.Accept) (*plannedChange, error) {
	b := a.balancer
	if b == nil {
		return nil, errHeatOff()
	}
	id := cleave.ShardID(r.Shard)
	if _, ok := a.o.DB.Map().Shard(id); !ok {
		return nil, notFoundError(fmt.Sprintf("there is no shard %d", r.Shard), "list the shards")
	}
	if r.End {
		if _, ok := b.Acceptance(id); !ok {
			return nil, newRefusedError(fmt.Sprintf("shard %d is not accepted as it is", r.Shard), "")
		}
		return &plannedChange{
			plan:  api.Plan{Summary: fmt.Sprintf("relieve shard %d again when it is hot", r.Shard), Steps: []string{}},
			apply: func(ctx context.Context) (*api.Job, error) { return nil, b.Revoke(ctx, id) },
		}, nil
	}
	accept := balancer.Acceptance{
		Shard: id, Ground: balancer.Ground(r.Ground), Price: r.Price, Reason: r.Reason, UntilMS: a.node.WallMS() + time.Duration(r.Seconds*float64(time.Second)).Milliseconds(),
	}
	if err := b.CheckAcceptance(&accept); err != nil {
		return nil, toAcceptError(err)
	}
	return &plannedChange{
		plan: api.Plan{
			Summary: fmt.Sprintf("leave shard %d as it is until %s, hot or not", r.Shard, msTime(accept.UntilMS).Format(time.DateTime+" MST")),
			Steps:   []string{"It is not split, moved or merged by itself until then.", "Its price is: " + r.Price + "."},
		},
		apply: func(ctx context.Context) (*api.Job, error) { return nil, toAcceptError(b.Accept(ctx, accept)) },
	}, nil
}

func toAcceptError(err error) error {
	if errors.Is(err, balancer.ErrAcceptance) {
		return newInvalidError(err.Error(), "")
	}
	return err
}

func (a *Admin) planMarkCritical(_ context.Context, _ *query, r api.MarkCritical) (*plannedChange, error) {
	if a.balancer == nil {
		return nil, errHeatOff()
	}
	if _, err := a.findKeyspace(r.Keyspace); err != nil {
		return nil, err
	}
	k, err := a.node.Keyspace(r.Keyspace)
	if err != nil {
		return nil, err
	}
	summary := "mark keyspace " + k.Name + " as critical"
	steps := []string{"Heat on it is never accepted. What was accepted before ends."}
	if r.Off {
		summary, steps = "take the mark of keyspace "+k.Name+" away", []string{"Heat on it may be accepted."}
	}
	return &plannedChange{
		plan:  api.Plan{Summary: summary, Steps: steps},
		apply: func(ctx context.Context) (*api.Job, error) { return nil, a.balancer.SetCritical(ctx, k, !r.Off) },
	}, nil
}

func (a *Admin) planSetKnobs(_ context.Context, _ *query, r api.SetKnobs) (*plannedChange, error) {
	b := a.balancer
	if b == nil {
		return nil, errHeatOff()
	}
	if len(r.Values) == 0 {
		return nil, newInvalidError("no knob is named", "give at least one")
	}
	toError := func(err error) error {
		if errors.Is(err, balancer.ErrKnob) {
			return newInvalidError(err.Error(), "")
		}
		return err
	}
	if err := b.CheckKnobs(r.Values); err != nil {
		return nil, toError(err)
	}
	steps := []string{}
	for _, k := range b.Knobs() {
		if v, ok := r.Values[k.Name]; ok {
			if v == "" {
				v = k.Default
			}
			steps = append(steps, fmt.Sprintf("%s: %s becomes %s", k.Name, k.Value, v))
		}
	}
	return &plannedChange{
		plan:  api.Plan{Summary: "change " + output.Plural(len(r.Values), "knob"), Steps: steps},
		apply: func(ctx context.Context) (*api.Job, error) { return nil, toError(b.SetKnobs(ctx, r.Values)) },
	}, nil
}

// explainHeat adds what is found about the shard of an explanation, and what was decided.
func (a *Admin) explainHeat(e *api.Explanation) {
	b, id := a.balancer, cleave.ShardID(e.Shard.ID)
	if b == nil {
		return
	}
	e.Class = classify.Even.String()
	if f, ok := b.Finding(id); ok {
		e.Class = f.Class.String()
		if f.Class != classify.Cold {
			hot := a.toOneHot(&f, a.node.Throttles().List())
			e.Hot = &hot
		}
		e.Why = append(e.Why, fmt.Sprintf("Its shard is found to be %s: %s.", f.Class, f.Evidence))
		if f.Key != nil && e.Key != nil && f.Class == classify.HotKey && !bytes.Equal([]byte(b.KeyText(id, f.Key)), *e.Key) {
			e.Why = append(e.Why, fmt.Sprintf("That is because of another key, %s.", quoteKey(*e.Hot.Key)))
		}
		if r := b.Remedy(&f); r != "" {
			e.Why = append(e.Why, "What an application can do: "+r+".")
		}
	}
	if accepted, ok := b.Acceptance(id); ok {
		e.Why = append(e.Why, fmt.Sprintf("It is accepted as it is until %s: %s. Price: %s.", msTime(accepted.UntilMS).Format(time.DateTime+" MST"), accepted.Reason, accepted.Price))
	}
	for _, d := range b.Decisions(id, explainedDecisions) {
		e.Decisions = append(e.Decisions, toDecision(&d))
	}
}

// explainedDecisions is how many decisions an explanation has.
const explainedDecisions = 5
