package sim

import (
	"context"
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// disk is a store with its groups on a file system that can crash.
type disk struct {
	w      *world
	number int
	fs     *store.Crashable
	store  *store.Store // nil while it is down
	places map[partition.GroupID]drive.Place
	groups []partition.GroupID

	full    int  // how many reasons there are to take nothing
	failing bool // the next write fails
	dead    bool // one has failed

	// commits are those that changed rows, in their order.
	commits []witnessed
}

// open opens the store and all its groups from what is on the disk.
func (d *disk) open() {
	w := d.w
	s, err := store.Open(store.Options{
		Dir: "store", FS: d.fs.FS(), CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20, SegmentBytes: 64 << 10,
		RetainBytes: 1 << 30, // all of it: when some is recycled is not for the seed to say
	})
	w.must(err, "open a store")
	d.store, d.places = s, map[partition.GroupID]drive.Place{}
	for _, id := range d.groups {
		if !d.host(id) {
			return
		}
	}
	w.note("open", uint64(d.number))
}

// host opens a group, unless the disk dies of what that writes.
func (d *disk) host(id partition.GroupID) bool {
	g, err := group.Open(&diskLog{drive.Log{Store: d.store, Group: id}, d}, d.store, group.Options{
		ID: id, Wall: d.w.wallMS, Decided: d.w.decided, ClockAhead: 200e6,
	})
	if d.dead {
		return false
	}
	d.w.must(err, "open a group")
	d.places[id] = drive.Place{Group: g, Store: d.store}
	return true
}

// home is the disk of a group, for ever. Those of the first map lie side by side.
func (w *world) home(id partition.GroupID) *disk {
	if first := w.cfg.Stores * w.cfg.Groups; int(id) <= first {
		return w.disks[(int(id)-1)/w.cfg.Groups]
	}
	return w.disks[int(id)%w.cfg.Stores]
}

// decided asks the decider of a lock, as a reader does that meets one.
func (w *world) decided(ctx context.Context, l txn.Lock) (txn.Outcome, error) {
	if drive.Removed(w.router, l.Decider) {
		return txn.Aborted, nil
	}
	p, err := w.find(l.Decider)
	if err != nil {
		return txn.Undecided, err
	}
	reply, err := p.Group.Try(ctx, group.Request{Command: drive.Inquire(l)})
	if err == nil {
		err = reply.Err
	}
	w.count("readers that asked a decider")
	return txn.OutcomeOf(reply), err
}

// find returns the place of a group that is up.
func (w *world) find(id partition.GroupID) (drive.Place, error) {
	place, ok := w.home(id).places[id]
	if !ok {
		return drive.Place{}, drive.ErrAway
	}
	return place, nil
}

// crash takes the store down as a power failure would, keeping that many percent
// of what was not synced.
func (d *disk) crash(percent int) {
	if d.store == nil {
		return
	}
	// What survives of unsynced bytes has no say in the rest of the run: nothing
	// that was acknowledged is among it.
	rng := rand.New(rand.NewPCG(d.w.cfg.Seed, uint64(d.w.events)))
	d.fs = d.fs.Crash(percent, rng)
	_ = d.store.Close() // cut off from the disk that goes on: only to end it
	d.store, d.places = nil, nil
	d.failing, d.dead = false, false
	d.w.note("crash", uint64(d.number))
}

// setUp makes the stores, the groups and the first map.
func (w *world) setUp() {
	for i := range w.cfg.Stores {
		d := &disk{w: w, number: i, fs: store.NewCrashable()}
		w.disks = append(w.disks, d)
		for range w.cfg.Groups {
			id := partition.GroupID(len(w.groups) + 1)
			w.groups = append(w.groups, id)
			d.groups = append(d.groups, id)
		}
	}
	m, err := partition.First(make([]partition.Group, len(w.groups)), &space, boundaries()...)
	w.must(err, "the first map")
	for _, d := range w.disks {
		d.open()
		for _, id := range d.groups {
			var ranges []own.Range
			for s := range m.Owned(id) {
				ranges = append(ranges, own.Range{Span: s.Span, Version: s.Changed, State: own.Serving})
			}
			w.mustDo(id, &own.Reown{Become: ranges})
		}
	}
	w.mustDo(catalogGroup, meta.FirstMap(m))
	w.router, w.newest = m, m.Version()
	for i := range w.cfg.Clients {
		w.clients = append(w.clients, &client{w: w, number: i, m: m, left: w.cfg.Ops})
	}
	w.reader, w.hub, w.cached = newFeedReader(w), newHub(w), newCached(w)
	for range 2 {
		w.drivers = append(w.drivers, newDriver(w))
	}
}
