package node

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// View is the state of some stores at one moment: what was committed by then,
// transactions across stores whole or not at all. Close it.
type View struct {
	node  *Node
	sides []side
	// judges is nil if no transaction had locked anything.
	judges *judges
}

// side is one store in a view.
type side struct {
	host   *Host
	moment Moment
	snap   *store.Snapshot // nil if the view is of the state itself
	// verdict is the last one, or what is seen if there is nothing to judge.
	verdict verdict
}

// patience is how often stores are looked at before their groups are held. A look
// takes a fraction of the millisecond in which the clocks must not move.
const patience = 10

// View returns the state of stores now.
//
// It looks without disturbing anybody. If the clocks and the ranges of the groups were
// the same before and after, it has seen one moment; if that does not work out, the
// groups stand still for a look.
func (n *Node) View(ctx context.Context, hosts ...*Host) (*View, error) {
	for {
		v, err := n.viewOnce(ctx, hosts)
		// A group that is no more does not matter, unless all are.
		if !errors.Is(err, group.ErrClosed) || n.ctx.Err() != nil {
			return v, err
		}
	}
}

func (n *Node) viewOnce(ctx context.Context, hosts []*Host) (*View, error) {
	if err := ready(ctx, hosts); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		var v *View
		var err error
		if attempt < patience {
			v, err = n.look(hosts, false)
		} else {
			v, err = n.lookStill(ctx, hosts)
		}
		if err != nil || v != nil {
			return v, err
		}
		if n.handing.now() {
			err = sleep(ctx, handingPause)
		} else {
			runtime.Gosched()
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// lookStill looks while the groups of the stores stand still.
func (n *Node) lookStill(ctx context.Context, hosts []*Host) (v *View, err error) {
	var groups []*group.Group
	for _, h := range hosts {
		groups = append(groups, h.groups()...)
	}
	var failed error
	err = group.Still(ctx, groups, func() { v, failed = n.look(hosts, true) })
	return v, errors.Join(err, failed)
}

// look takes the state of stores, or nil if it turns out not to be of one moment. If
// their groups are held they need not be watched.
func (n *Node) look(hosts []*Host, held bool) (*View, error) {
	handing := n.handing.mark()
	v := &View{node: n, sides: make([]side, len(hosts))}
	locked := false
	stores := make([]*store.Store, len(hosts), len(n.hosts))
	for i, h := range hosts {
		v.sides[i] = side{host: h, moment: h.Moment()}
		locked = locked || v.sides[i].moment.locked
		stores[i] = h.Store
	}
	if locked { // the decisions of all groups count
		for _, h := range n.hosts {
			if !slices.Contains(hosts, h) {
				stores = append(stores, h.Store)
			}
		}
	}
	snaps, err := store.Snapshots(stores...)
	if err != nil {
		return nil, err
	}
	for i := range v.sides {
		v.sides[i].snap, v.sides[i].verdict.from = snaps[i], snaps[i]
	}
	if locked {
		v.judges = newJudges(v.sides, snaps)
	}
	still := len(hosts) == 1 || n.handing.same(handing) // between two stores a range is nobody's for a moment
	for i := 0; i < len(hosts) && still && !held; i++ {
		still = v.sides[i].moment.stands() && (locked || v.sides[i].moment.Still())
	}
	if !still {
		v.Close()
		return nil, nil
	}
	return v, nil
}

// Close gives back what the view holds.
func (v *View) Close() {
	for i := range v.sides {
		if v.sides[i].snap != nil {
			v.sides[i].snap.Close()
		}
	}
	if v.judges != nil {
		for _, other := range v.judges.at[len(v.sides):] {
			other.Close()
		}
	}
}

// Has tells whether the view is of a store.
func (v *View) Has(h *Host) bool {
	return slices.ContainsFunc(v.sides, func(s side) bool { return s.host == h })
}

// Hosts returns the stores that the view is of.
func (v *View) Hosts() (hosts []*Host) {
	for i := range v.sides {
		hosts = append(hosts, v.sides[i].host)
	}
	return hosts
}

// find returns the side that served a position, with the group's place in it and the
// range.
func (v *View) find(p partition.Position) (*side, int, own.Range, error) {
	for i := range v.sides {
		s := &v.sides[i]
		if g, r, err := s.moment.find(p); err == nil {
			return s, g, r, nil
		}
	}
	return nil, 0, own.Range{}, own.ErrWrongGroup
}

// Get implements [command.Reader] for tables by position.
func (v *View) Get(key, dst []byte) ([]byte, bool, error) {
	s := &v.sides[0]
	if len(v.sides) > 1 {
		var err error
		if s, _, _, err = v.find(key[1:]); err != nil {
			return nil, false, err
		}
	}
	seen, err := v.judged(s, v.around(s, key[1:]))
	if err != nil {
		return nil, false, err
	}
	return seen.from.Get(key, dst)
}

// Scan implements [command.Reader] for tables by position. All of it must have been
// served.
func (v *View) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	span := partition.Span{Start: start[1:]}
	if end[0] == start[0] {
		span.End = end[1:]
	}
	stretches := []stretch{{&v.sides[0], span}}
	if len(v.sides) > 1 {
		var err error
		if stretches, err = v.stretches(span); err != nil {
			return err
		}
	}
	if reverse {
		slices.Reverse(stretches)
	}
	more := true
	for _, x := range stretches {
		from, to := append([]byte{start[0]}, x.span.Start...), end
		if len(x.span.End) > 0 {
			to = append([]byte{start[0]}, x.span.End...)
		}
		// The first key may begin before the span, and its locks with it.
		judged := x.span
		if around := v.around(x.side, judged.Start); bytes.Compare(around.Start, judged.Start) < 0 {
			judged.Start = around.Start
		}
		seen, err := v.judged(x.side, judged)
		if err != nil {
			return err
		}
		err = seen.from.Scan(from, to, reverse, func(key, value []byte) bool {
			more = visit(key, value)
			return more
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// stretch is what one store has of a span.
type stretch struct {
	side *side
	span partition.Span
}

// stretches cuts a span by the stores that served it.
func (v *View) stretches(s partition.Span) (list []stretch, err error) {
	for at := s.Start; ; {
		side, _, r, err := v.find(at)
		if err != nil {
			return nil, err
		}
		end := r.Span.End
		last := reaches(end, s.End)
		if last {
			end = s.End
		}
		if k := len(list) - 1; k >= 0 && list[k].side == side {
			list[k].span.End = end
		} else {
			list = append(list, stretch{side, partition.Span{Start: at, End: end}})
		}
		if last {
			return list, nil
		}
		at = end
	}
}

// NowMS returns the time by which a key was judged: that of the group that served it,
// or that of an undecided transaction that has locked it.
func (v *View) NowMS(p partition.Position) (int64, error) {
	s, g, _, err := v.find(p)
	if err != nil {
		return 0, err
	}
	now := s.moment.clocks[g]
	seen, err := v.judged(s, v.around(s, p))
	if err == nil && seen.locks != nil {
		now = seen.locks.JudgeMS(p, now)
	}
	return now, err
}

// Serves returns nil if all of a span was served, else own.ErrWrongGroup.
func (v *View) Serves(s partition.Span) error {
	if len(v.sides) == 1 {
		return v.sides[0].moment.Serves(s)
	}
	_, err := v.stretches(s)
	return err
}

// LatestMS returns the latest time that a group had, 0 if there is none: all groups of
// a store may have been removed.
func (v *View) LatestMS() (latest int64) {
	for i := range v.sides {
		for _, ms := range v.sides[i].moment.clocks {
			latest = max(latest, ms)
		}
	}
	return latest
}

// Judge returns the time by which a key is judged, or own.ErrWrongGroup if nobody
// serves it.
type Judge func(partition.Position) (nowMS int64, err error)

// glances is how often At looks at rows before it takes a snapshot.
const glances = 3

// sequences returns how often something became visible in stores.
func sequences(hosts []*Host) []uint64 {
	list := make([]uint64, len(hosts))
	for i, h := range hosts {
		list[i] = h.Store.Sequence()
	}
	return list
}

// At calls read with the state of stores at one moment. It is for a few rows: those
// are read from memory, and if something became visible meanwhile, read again. So
// read may be called several times, and what it got in the last call counts; its
// error is returned. It must not keep the reader.
func (n *Node) At(ctx context.Context, hosts []*Host, read func(from command.Reader, judge Judge) error) error {
	if err := ready(ctx, hosts); err != nil {
		return err
	}
	for range glances {
		handing, before := n.handing.mark(), sequences(hosts)
		v := View{node: n}
		locked := false
		for _, h := range hosts {
			m := h.Moment()
			locked = locked || m.locked
			v.sides = append(v.sides, side{host: h, moment: m, verdict: verdict{from: h.Store}})
		}
		if locked {
			break
		}
		err := read(&v, v.NowMS)
		still := slices.Equal(sequences(hosts), before) && (len(hosts) == 1 || n.handing.same(handing))
		for i := range v.sides {
			still = still && before[i]%2 == 0 && v.sides[i].moment.Still()
		}
		if still {
			return err
		}
		runtime.Gosched()
	}
	v, err := n.View(ctx, hosts...)
	if err != nil {
		return err
	}
	defer v.Close()
	return read(v, v.NowMS)
}

// handing counts ranges that are changing stores: the one that had them has given
// them up, and the other does not serve them yet. Then a look at several stores
// finds a range that is nobody's.
type handing struct {
	ranges  atomic.Int64
	changes atomic.Uint64
}

// handingPause is how long a look waits for that to be over: it takes two commands.
const handingPause = 200 * time.Microsecond

// begin notes that a range is about to be given up. Call what it returns when it is
// served again.
func (h *handing) begin() (end func()) {
	h.ranges.Add(1)
	h.changes.Add(1)
	return func() {
		h.changes.Add(1)
		h.ranges.Add(-1)
	}
}

func (h *handing) now() bool { return h.ranges.Load() > 0 }

func (h *handing) mark() uint64 { return h.changes.Load() }

// same tells whether nothing was being handed over since mark.
func (h *handing) same(mark uint64) bool { return !h.now() && h.changes.Load() == mark }

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error { return await(ctx, nil, d) }

// await waits until something has changed, but not for long, or until ctx ends.
func await(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	}
}
