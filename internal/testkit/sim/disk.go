package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// disk is a store with its groups on a file system that can crash.
type disk struct {
	w      *world
	number int
	fs     *store.CrashableFS
	store  *store.Store // nil while it is down
	hosts  map[partition.GroupID]protocol.GroupHost
	groups []partition.GroupID

	fullReasons   int  // how many reasons there are to take nothing
	failNextWrite bool // the next write fails
	hasFailed     bool // one has failed

	// commits are those that changed rows, in their order.
	commits []observedCommit
}

// openStore opens the store and all its groups from what is on the disk.
func (d *disk) openStore() {
	w := d.w
	s, err := store.Open(store.Options{
		Dir: "store", FS: d.fs.FS(), CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20, SegmentBytes: 64 << 10,
		RetainBytes: 1 << 30, // all of it: when some is recycled is not for the seed to say
	})
	w.must(err, "open a store")
	d.store, d.hosts = s, map[partition.GroupID]protocol.GroupHost{}
	for _, id := range d.groups {
		if !d.openGroup(id) {
			return
		}
	}
	w.recordTrace("open", uint64(d.number))
}

// openGroup opens a group, unless the disk dies of what that writes.
func (d *disk) openGroup(id partition.GroupID) bool {
	g, err := group.Open(&diskLog{protocol.LocalLog{Store: d.store, Group: id}, d}, d.store, group.Options{
		ID: id, Wall: d.w.wallMS, LookupOutcome: d.w.fetchOutcome, ClockAhead: 200e6,
	})
	if d.hasFailed {
		return false
	}
	d.w.must(err, "open a group")
	d.hosts[id] = protocol.GroupHost{Group: g, Store: d.store}
	delete(d.w.clocksMS, id) // what it has reported of the time holds, see leases.go; what it has not reported may not
	return true
}

// homeDisk is the disk of a group, for ever. Those of the first map lie side by side.
func (w *world) homeDisk(id partition.GroupID) *disk {
	if first := w.cfg.Stores * w.cfg.Groups; int(id) <= first {
		return w.disks[(int(id)-1)/w.cfg.Groups]
	}
	return w.disks[int(id)%w.cfg.Stores]
}

// fetchOutcome asks the coordinator group of a lock, as a reader does that meets one.
func (w *world) fetchOutcome(ctx context.Context, l txn.Lock) (txn.Outcome, error) {
	if protocol.IsGroupRemoved(w.router, l.CoordinatorGroup) {
		return txn.Aborted, nil
	}
	p, err := w.findHost(l.CoordinatorGroup)
	if err != nil {
		return txn.Undecided, err
	}
	reply, err := p.Group.Execute(ctx, group.Request{NoWait: true, Command: protocol.NewOutcomeQuery(l)})
	if err == nil {
		err = reply.Err
	}
	w.addCount("readers that asked a coordinator group")
	return txn.ParseOutcome(reply), err
}

// findHost returns the place of a group that is up.
func (w *world) findHost(id partition.GroupID) (protocol.GroupHost, error) {
	place, ok := w.homeDisk(id).hosts[id]
	if !ok {
		return protocol.GroupHost{}, protocol.ErrGroupNotOpen
	}
	return place, nil
}

// crashStore takes the store down as a power failure would, keeping that many percent
// of what was not synced.
func (d *disk) crashStore(percent int) {
	if d.store == nil {
		return
	}
	// What survives of unsynced bytes has no say in the rest of the run: nothing
	// that was acknowledged is among it.
	rng := rand.New(rand.NewPCG(d.w.cfg.Seed, uint64(d.w.events)))
	d.fs = d.fs.Crash(percent, rng)
	_ = d.store.Close() // cut off from the disk that goes on: only to end it
	d.store, d.hosts = nil, nil
	d.failNextWrite, d.hasFailed = false, false
	d.w.recordTrace("crash", uint64(d.number))
}

// setUp makes the stores, the groups and the first map.
func (w *world) setUp() {
	for i := range w.cfg.Stores {
		d := &disk{w: w, number: i, fs: store.NewCrashableFS()}
		w.disks = append(w.disks, d)
		for range w.cfg.Groups {
			id := partition.GroupID(len(w.groups) + 1)
			w.groups = append(w.groups, id)
			d.groups = append(d.groups, id)
		}
	}
	m, err := partition.NewMap(make([]partition.Group, len(w.groups)), &dataKeyspace, firstBoundaries()...)
	w.must(err, "the first map")
	for _, d := range w.disks {
		d.openStore()
		for _, id := range d.groups {
			var ranges []ownership.Range
			for s := range m.Owned(id) {
				ranges = append(ranges, ownership.Range{Span: s.Span, Version: s.Changed, State: ownership.Serving})
			}
			w.mustDo(id, &ownership.ChangeOwnership{Become: ranges})
		}
	}
	w.mustDo(catalogGroup, catalogKeys.InsertFirstMap(m))
	w.router, w.newestVersion = m, m.Version()
	for i := range w.cfg.Clients {
		w.clients = append(w.clients, &client{w: w, id: i, m: m, opsLeft: w.cfg.Ops})
	}
	w.feedReader, w.hub, w.cache = newFeedReader(w), newHub(w), newCacheModel(w)
	if w.cfg.Heat != "" {
		w.heat = newHeatLoop(w, nil)
	}
	for range 2 {
		w.jobDrivers = append(w.jobDrivers, newJobDriver(w))
	}
}

// diskLog is the log of a group on a disk that may have no room, or fail. How a
// store finds out is for its own tests: here is what groups and all above them make
// of what it says then.
type diskLog struct {
	protocol.LocalLog
	d *disk
}

// Commit implements [group.Log].
func (l *diskLog) Commit(urgent bool, effects []byte) error {
	return l.d.commitEntries(urgent, func() error { return l.LocalLog.Commit(urgent, effects) }, group.JointEntry{Log: l, Effects: effects})
}

// CommitJoint implements [group.JointLog].
func (l *diskLog) CommitJoint(urgent bool, parts []group.JointEntry) error {
	inner := make([]group.JointEntry, len(parts))
	for i, p := range parts {
		inner[i] = group.JointEntry{Log: &p.Log.(*diskLog).LocalLog, Effects: p.Effects}
	}
	return l.d.commitEntries(urgent, func() error { return l.LocalLog.CommitJoint(urgent, inner) }, parts...)
}

// commitEntries writes, or does not, or does and says that it failed.
func (d *disk) commitEntries(urgent bool, write func() error, parts ...group.JointEntry) error {
	switch {
	case d.hasFailed:
	case d.fullReasons > 0 && !urgent:
		d.w.addCount("commits that a full disk refused")
		return store.ErrDiskFull
	case !d.failNextWrite:
		err := write()
		if err == nil {
			d.recordCommit(parts)
		}
		return err
	default:
		d.hasFailed = true
		if d.w.drawChance(500) {
			d.w.must(write(), "a write of which nobody hears")
			d.recordCommit(parts)
			d.w.hasUnknownWrite = true
		}
	}
	return errors.Join(group.ErrUncertain, store.ErrUnknown, store.ErrFailed)
}

// findDisk is the disk of an open group.
func (w *world) findDisk(p protocol.GroupHost) *disk {
	return w.disks[slices.IndexFunc(w.disks, func(d *disk) bool { return d.store == p.Store })]
}

// isDiskFull reports whether an error says that a disk is full: nothing has happened.
func isDiskFull(err error) bool { return errors.Is(err, store.ErrDiskFull) }

// isReplyLost reports whether the reply with an error gets lost, because the store has
// died of it. Then nothing may have been acknowledged.
func (w *world) isReplyLost(d *disk, err error) bool {
	if d.hasFailed && err == nil {
		w.failf("store %d has acknowledged what it could not write", d.number)
	}
	return d.hasFailed
}
