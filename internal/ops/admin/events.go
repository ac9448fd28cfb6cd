package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/partition"
)

// maxStatusEvents is how many events a status has.
const maxStatusEvents = 10

// spanEvent is an event with the positions that it is about, if it is about some.
type spanEvent struct {
	api.Event
	span    partition.Span
	hasSpan bool
}

// changesMap reports whether it is drawn on a heat map: it has changed who has its keys, or who may write them.
func (e *spanEvent) changesMap() bool {
	return e.hasSpan && (e.Kind == api.EventThrottle || e.Outcome == api.JobDone)
}

var eventParams = []param{
	{api.QueryFrom, "string", "a time in RFC 3339: only what was at it or later"}, {api.QueryTo, "string", "a time in RFC 3339: only what was before it"},
	{api.QueryKind, "string", "start, split, merge, move, throttle, job, change or heat"}, keyspaceParam, {api.QueryShard, "integer", "only those about a shard"},
}

var eventKinds = []string{api.EventStart, api.EventSplit, api.EventMerge, api.EventMove, api.EventThrottle, api.EventJob, api.EventChange, api.EventHeat}

func (a *Admin) listEvents(ctx context.Context, q *query) (api.Page[api.Event], error) {
	none := api.Page[api.Event]{}
	from, err := q.getUnixTime(api.QueryFrom, a.o.Now())
	if err != nil {
		return none, err
	}
	to, err := q.getUnixTime(api.QueryTo, a.o.Now())
	if err != nil {
		return none, err
	}
	shard, err := q.getUint(api.QueryShard, 0)
	if err != nil {
		return none, err
	}
	kind := q.getString(api.QueryKind)
	if q.has(api.QueryKind) && !slices.Contains(eventKinds, kind) {
		return none, newInvalidError("there is no kind "+quoteText(kind), "give "+strings.Join(eventKinds, ", "))
	}
	if name := q.getString(api.QueryKeyspace); name != "" {
		if _, err := a.findKeyspace(name); err != nil {
			return none, err
		}
	}
	jobs, err := a.loadJobs(ctx)
	if err != nil {
		return none, err
	}
	all := []api.Event{}
	for _, e := range a.collectEvents(ctx, jobs) {
		isWanted := (kind == "" || e.Kind == kind) && (shard == 0 || e.Shard == shard) && e.overlaps(from, to)
		if isWanted && (!q.has(api.QueryKeyspace) || e.Keyspace == q.getString(api.QueryKeyspace)) {
			all = append(all, e.Event)
		}
	}
	// Several of one millisecond are told apart by their order, so that no page leaves one out.
	places := make([]uint64, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		places[i] = uint64(all[i].TimeMS) << 12
		if i+1 < len(all) && all[i].TimeMS == all[i+1].TimeMS {
			places[i] = places[i+1] + 1
		}
	}
	return cutPage(q, all, func(i int, _ api.Event) uint64 { return places[i] }, true)
}

// overlaps reports whether it was in a stretch of time, whose end is none if it is 0.
func (e *spanEvent) overlaps(from, to time.Duration) bool {
	end := e.TimeMS
	if e.Kind == api.EventThrottle {
		end = cmp.Or(e.EndMS, 1<<62/int64(time.Millisecond))
	}
	return end >= from.Milliseconds() && (to == 0 || e.TimeMS < to.Milliseconds())
}

// collectEvents are the things that happened, the newest first, from what is known anyway: jobs, decisions, and the audit
// log.
func (a *Admin) collectEvents(ctx context.Context, jobs []api.Job) []spanEvent {
	all := []spanEvent{{Event: api.Event{Time: a.startedAt.UTC(), Kind: api.EventStart, Message: "the server has started"}}}
	all = append(all, a.jobEvents(ctx, jobs)...)
	for _, e := range a.audit.listNewest() {
		if e.Outcome == api.AuditDone && e.Job == "" {
			all = append(all, spanEvent{Event: api.Event{Time: e.Time, Kind: api.EventChange, Message: e.What + ", from " + trimPort(e.From)}})
		}
	}
	_, changes := a.node.Evenness()
	for _, c := range changes {
		e := api.Event{Time: c.Time.UTC(), Kind: api.EventHeat, Message: fmt.Sprintf("the load is even again: evenness %.2f", c.Evenness.Evenness)}
		if c.Alarm {
			e.Message = fmt.Sprintf("the load has become uneven: evenness %.2f, usually %.2f", c.Evenness.Evenness, c.Usual)
			e.Command = "cleave hotkeys"
		}
		all = append(all, spanEvent{Event: e})
	}
	for i := range all {
		e := &all[i]
		e.TimeMS = e.Time.UnixMilli()
		if e.hasSpan {
			a.describeEventSpan(e)
		}
	}
	slices.Reverse(all) // of those of one time what was begun last is the newest
	slices.SortStableFunc(all, func(x, y spanEvent) int { return y.Time.Compare(x.Time) })
	return all
}

// jobEvents are the jobs that are known, and what was decided: to throttle, and by jobs that are forgotten.
func (a *Admin) jobEvents(ctx context.Context, jobs []api.Job) (all []spanEvent) {
	records := map[string]mover.Job{}
	if stored, err := a.node.Jobs(ctx); err == nil { // without it events have no keys, which is better than no events
		for _, r := range stored {
			records[formatJobID(uint64(r.ID))] = r
		}
	}
	decisions := map[string]*balancer.ReliefDecision{}
	if a.balancer != nil {
		for _, d := range a.balancer.Decisions(0, maxListedDecisions) {
			if d.Job != 0 {
				decisions[formatJobID(uint64(d.Job))] = &d
			}
			if e, ok := a.throttleEvent(&d); ok {
				all = append(all, e)
			}
		}
	}
	for i := range jobs {
		j := &jobs[i]
		e := newJobEvent(j)
		if r, ok := records[j.ID]; ok && e.Kind != api.EventJob {
			e.span, e.hasSpan, e.From, e.To = r.Span, true, uint64(r.From), uint64(r.To)
			for _, at := range r.At {
				e.Cuts = append(e.Cuts, a.toBound(at))
			}
		}
		if d := decisions[j.ID]; d != nil {
			e.Decision, e.Message = d.ID, e.Message+"; decided because: "+d.Reason
			delete(decisions, j.ID)
		}
		all = append(all, e)
	}
	for _, d := range decisions { // of jobs that are forgotten
		if e, ok := newDecisionEvent(d); ok {
			all = append(all, e)
		}
	}
	return all
}

func formatJobID(id uint64) string { return strconv.FormatUint(id, 10) }

// newJobEvent is a job as an event.
func newJobEvent(j *api.Job) spanEvent {
	e := spanEvent{Event: api.Event{Time: j.Created, Kind: api.EventJob, Outcome: j.State, Job: j.ID, Shard: j.Shard, Command: "cleave job show " + j.ID}}
	what := fmt.Sprintf("job %s, a %s", j.ID, j.Kind)
	switch j.Kind {
	case api.EventSplit, api.EventMerge, api.EventMove:
		e.Kind = j.Kind
		what += fmt.Sprintf(" of shard %d", j.Shard)
		if j.Kind == api.EventMove {
			what += fmt.Sprintf(" to group %d", j.To)
		}
	}
	if j.Ended == nil {
		e.Message = what + ", has begun"
		return e
	}
	e.Time = *j.Ended // its end says all, and few events are shown
	e.Message = what + map[string]string{api.JobDone: ", is done", api.JobUndone: ", was taken back", api.JobFailed: ", has failed"}[j.State]
	if j.Why != "" {
		e.Message += ": " + j.Why
	}
	return e
}

// newDecisionEvent is what was decided and done by a job that is forgotten.
func newDecisionEvent(d *balancer.ReliefDecision) (e spanEvent, ok bool) {
	switch d.Outcome {
	case balancer.Done, balancer.Helped, balancer.DidNotHelp:
	default:
		return e, false
	}
	e = spanEvent{span: spanOf(d), hasSpan: d.Start != nil || d.End != nil, Event: api.Event{
		Time: msTime(d.TimeMS), Kind: d.Change, Outcome: api.JobDone, Job: formatJobID(uint64(d.Job)), Decision: d.ID, Shard: uint64(d.Shard), From: uint64(d.Group), To: uint64(d.Group),
		Message: fmt.Sprintf("a %s of shard %d, is done; decided because: %s", d.Change, uint64(d.Shard), d.Reason), Command: fmt.Sprint("cleave explain shard ", uint64(d.Shard)),
	}}
	if d.To != 0 {
		e.To = uint64(d.To)
	}
	return e, true
}

func spanOf(d *balancer.ReliefDecision) partition.Span {
	return partition.Span{Start: d.Start, End: d.End}
}

// The outcomes of throttles.
const (
	throttleHolds = "holds"
	throttleEnded = "ended"
)

// throttleEvent is a throttle that was decided, and whether it holds still.
func (a *Admin) throttleEvent(d *balancer.ReliefDecision) (e spanEvent, ok bool) {
	if d.Change != api.EventThrottle || d.Outcome != balancer.Kept {
		return e, false
	}
	e = spanEvent{span: spanOf(d), hasSpan: d.Start != nil || d.End != nil, Event: api.Event{
		Time: msTime(d.TimeMS), Kind: api.EventThrottle, EndMS: d.LastMS, Outcome: throttleEnded, Decision: d.ID, Shard: uint64(d.Shard), From: uint64(d.Group), To: uint64(d.Group),
		Message: fmt.Sprintf("writers of shard %d were held up: %s", uint64(d.Shard), d.Evidence), Command: fmt.Sprint("cleave explain shard ", uint64(d.Shard)),
	}}
	for _, t := range a.node.Throttles().List() {
		if t.Shard == d.Shard && d.LastMS >= a.o.Now().Add(-time.Minute).UnixMilli() {
			e.EndMS, e.Outcome = 0, throttleHolds
			e.Message = fmt.Sprintf("writers of shard %d are held up: %s", uint64(d.Shard), d.Evidence)
		}
	}
	return e, true
}

// describeEventSpan adds the keys that an event is about.
func (a *Admin) describeEventSpan(e *spanEvent) {
	first := a.decodePosition(e.span.Start)
	if e.Keyspace = first.keyspace; e.Keyspace == "" {
		return // it was dropped, or has no keys
	}
	start := toBoundOf(first)
	if start.Slot != nil || start.Key != nil {
		e.Start = &start
	}
	k, err := a.node.Keyspace(e.Keyspace)
	if err == nil && len(e.span.End) > 0 && k.Span().Contains(e.span.End) {
		end := a.toBound(e.span.End)
		e.End = &end
	}
}

func (a *Admin) toBound(p partition.Position) api.Bound { return toBoundOf(a.decodePosition(p)) }

func toBoundOf(at place) api.Bound {
	b := api.Bound{Slot: at.slot, After: at.isAfter}
	if len(at.key) > 0 {
		b.Key = api.KeyOrNil(at.key)
	}
	return b
}

// fillHeatEvents adds what has happened to the keys of a view during its columns, with the rows that it is about. The last
// row ends at end, none for no end.
func (a *Admin) fillHeatEvents(ctx context.Context, m *api.HeatMap, v *heat.View, end []byte) {
	m.Events = []api.HeatEvent{}
	if len(m.Columns) == 0 || len(v.Rows) == 0 {
		return
	}
	from := time.Duration(m.Columns[0].UnixNano())
	to := time.Duration(m.Columns[len(m.Columns)-1].UnixNano()) + time.Duration(m.StepSeconds*float64(time.Second))
	jobs, err := a.loadJobs(ctx)
	if err != nil {
		return // a map without events is better than none
	}
	for _, e := range slices.Backward(a.collectEvents(ctx, jobs)) {
		if !e.changesMap() || !e.overlaps(from, to) || end != nil && string(e.span.Start) >= string(end) {
			continue
		}
		// firstBehind is the first row that begins behind a position.
		firstBehind := func(p []byte) int {
			return sort.Search(len(v.Rows), func(r int) bool { return v.Rows[r] > string(p) })
		}
		one := api.HeatEvent{Event: e.Event, FirstRow: max(0, firstBehind(e.span.Start)-1), LastRow: len(v.Rows) - 1}
		if len(e.span.End) > 0 {
			if one.LastRow = sort.SearchStrings(v.Rows, string(e.span.End)) - 1; one.LastRow < 0 {
				continue // it is before the first row
			}
		}
		m.Events = append(m.Events, one)
	}
}

// trimPort is an address without its port, which says nothing to people.
func trimPort(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i > 0 {
		return addr[:i]
	}
	return addr
}
