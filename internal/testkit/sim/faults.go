package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

func newRequest(c command.Command) group.Request { return group.Request{Command: c} }

// rollbackPhases are phases that few come to unless a client cancels.
var rollbackPhases = []string{"undoing", "thawing", "abandoning", "wiping", "dismissing", "stopping", "unmarking"}

// cancelPerMille is how often one does, in a thousand.
func (w *world) cancelPerMille() int {
	for _, p := range rollbackPhases {
		if strings.HasSuffix(w.cfg.Aim.Phase, p) {
			return 300
		}
	}
	return 40
}

// pickJobPhase is the phase of a job that is done by others at which the run aims.
func (w *world) pickJobPhase() string {
	phase, _ := strings.CutPrefix(w.cfg.Aim.Phase, "job ")
	if phase == w.cfg.Aim.Phase {
		return ""
	}
	return phase
}

// compositePerMille is how often such a job is asked for, in a thousand wishes.
func (w *world) compositePerMille() int {
	if w.pickJobPhase() != "" {
		return 500
	}
	return 60
}

// onPhaseEntered is called with each phase that a transaction or a job comes to.
func (w *world) onPhaseEntered(phase string) {
	if w.isQuiescing {
		return
	}
	w.addCount("entered " + phase)
	if w.cfg.Aim.Phase != phase || w.hasHitAim {
		return
	}
	switch w.cfg.Aim.Fault {
	case StoreCrash, ProcessCrash, ClockJump, DiskFull, SyncFailure:
		w.hasHitAim = true
		w.injectFault(w.cfg.Aim.Fault)
	}
}

// injectFault lets a fault happen to all now.
func (w *world) injectFault(f Fault) {
	if w.isQuiescing {
		return
	}
	w.addCount(f.String())
	for _, phase := range w.listOpenPhases() {
		w.cells[Cell{f, phase}]++
	}
	switch f {
	case StoreCrash:
		w.crashDisk(pickOne(w, w.disks))
	case ProcessCrash:
		w.crashProcess()
	case ClockJump:
		w.clockOffsetMS += w.rng.Int64N(4000) - 1500
		w.recordTrace("jump", uint64(w.wallMS()))
	case DiskFull:
		d := pickOne(w, w.disks)
		d.fullReasons++
		w.scheduleAfter(millisecond+w.rng.Int64N(60*millisecond), func() { d.fullReasons-- })
	case SyncFailure:
		pickOne(w, w.disks).failNextWrite = true
	}
}

// listOpenPhases are the phases of all that has not ended.
func (w *world) listOpenPhases() (phases []string) {
	kept := w.txnDrivers[:0]
	for _, r := range w.txnDrivers {
		if !r.isDone() {
			kept = append(kept, r)
			phases = append(phases, r.phaseName())
		}
	}
	w.txnDrivers = kept
	for _, j := range w.listOpenJobs() {
		now := jobPhaseName(&j)
		for _, d := range w.jobDrivers { // a driver that goes by what is stored may be further
			if h := d.jobs[j.ID]; h != nil && h.stored.Rev == j.Rev && h.record.Rev > j.Rev {
				now = d.phaseName(&h.record)
			}
		}
		phases = append(phases, now)
	}
	return phases
}

// crashDisk takes a store down, and up again after a while.
func (w *world) crashDisk(d *disk) {
	d.crashStore(pickOne(w, []int{0, 50, 100}))
	if !w.isQuiescing {
		w.scheduleAfter(millisecond+w.rng.Int64N(30*millisecond), func() { w.reopenDisk(d) })
	}
}

// crashFailedDisks takes stores down that a failed write has ended: a client that waits for an
// answer waits in vain.
func (w *world) crashFailedDisks() {
	for _, d := range w.disks {
		if d.hasFailed {
			w.addCount("stores that died of a failed sync")
			w.crashDisk(d)
		}
	}
}

// reopenDisk opens a store that is down; it may crash again at once.
func (w *world) reopenDisk(d *disk) {
	if d.store != nil {
		return
	}
	d.openStore()
	w.crashFailedDisks()
	w.checkNewestVersion()
	if !w.isQuiescing && w.cfg.Faults&StoreCrash != 0 && w.drawChance(150) {
		w.addCount("crashes after opening")
		w.crashDisk(d)
	}
}

// checkNewestVersion looks which map there is, after one was stored whose answer was lost,
// or was not stored.
func (w *world) checkNewestVersion() {
	if !w.hasUnknownWrite {
		return
	}
	if reply, ok := w.tryRequest(catalogGroup, newRequest(&command.Get{Key: catalogKeys.MapKey()})); ok && reply.Err == nil {
		m, err := partition.Decode(reply.Bytes)
		w.must(err, "the map in the catalog")
		w.hasUnknownWrite, w.newestVersion = false, max(w.newestVersion, m.Version())
		w.closeRemovedGroups(m)
	}
}

// crashProcess ends the process: all that it had in memory is gone.
func (w *world) crashProcess() {
	w.life++
	w.txnDrivers = nil
	for i := range w.jobDrivers {
		w.jobDrivers[i] = newJobDriver(w)
	}
	for _, d := range w.disks {
		d.crashStore(pickOne(w, []int{0, 50, 100}))
	}
	if w.heat != nil {
		w.heat = newHeatLoop(w, w.heat.pieces)
	}
	clear(w.seenDecisions)
	w.feedReader.crash()
	w.hub.crash()
	w.cache.interrupt()
	w.scheduleAfter(millisecond+w.rng.Int64N(20*millisecond), func() {
		for _, d := range w.disks {
			w.reopenDisk(d)
		}
		w.refreshMap()
	})
}

// scheduleBackground lets faults, jobs and housekeeping happen again and again.
func (w *world) scheduleBackground() {
	for _, f := range []Fault{StoreCrash, ProcessCrash, ClockJump, DiskFull, SyncFailure} {
		if w.cfg.Faults&f != 0 {
			w.scheduleEvery(250*millisecond, func() { w.injectFault(f) })
		}
	}
	for _, g := range w.groups {
		w.scheduleEvery(100*millisecond, func() { w.housekeep(g) })
	}
	if w.cfg.Jobs {
		w.scheduleEvery(4*millisecond, w.runOperator)
	}
	if w.heat != nil {
		w.scheduleEvery(heatRound, func() { w.heat.runRound() })
	}
	w.scheduleEvery(20*millisecond, func() { w.jobDrivers[0].pollJobs() })
	w.scheduleEvery(70*millisecond, func() { w.jobDrivers[1].pollJobs() })
	w.schedulePins()
	w.scheduleEveryWith(w.feedReader.rng, 16*millisecond, w.feedReader.readSome)
	w.scheduleEveryWith(w.hub.rng, 16*millisecond, w.hub.runFollowers)
	w.scheduleEveryWith(w.cache.rng, 16*millisecond, w.cache.runCache)
	for _, c := range w.clients {
		w.scheduleAfter(w.rng.Int64N(millisecond), c.beginNext)
	}
}

// sweepKeys is how many keys that are never asked for again are read in a row. Some sweeps fill a
// cache.
const sweepKeys = 60

// schedulePins pins and unpins the rows of clients in the stores, whether the keys
// are theirs or not, and sweeps over keys that do not exist, so that rows are evicted,
// and turned away. No client may notice. It draws by itself: the rest of the world is what it
// would be without.
func (w *world) schedulePins() {
	draw := rand.New(rand.NewPCG(w.cfg.Seed, 0x9145))
	swept := 0
	var step func()
	step = func() {
		if w.isQuiescing {
			return
		}
		if d := w.disks[draw.IntN(len(w.disks))]; d.store != nil {
			if draw.IntN(16) > 0 {
				w.pinOrUnpin(d, draw)
			} else {
				for range sweepKeys {
					swept++
					_, _, _ = d.store.Get(effect.Rows.AppendKey(nil, positionOf(fmt.Sprint("swept", swept))), nil)
				}
				w.addCount("sweeps")
			}
		}
		w.scheduleAfter(millisecond/2+draw.Int64N(2*millisecond), step)
	}
	w.scheduleAfter(0, step)
}

// pinOrUnpin pins or unpins a row of a store.
func (w *world) pinOrUnpin(d *disk, draw *rand.Rand) {
	p := positionOf(makeKey(letters[draw.IntN(len(letters))], keyKinds[draw.IntN(len(keyKinds))], draw.IntN(2)))
	if draw.IntN(4) == 0 {
		p = command.FieldPosition(p, hashFields[draw.IntN(len(hashFields))])
	}
	row := effect.Rows.AppendKey(nil, p)
	if draw.IntN(3) == 0 {
		d.store.UnpinRow(row)
		w.addCount("rows unpinned")
		return
	}
	switch err := d.store.PinRow(row); {
	case err == nil:
		w.addCount("rows pinned")
	case errors.Is(err, store.ErrNoRoom):
		w.addCount("rows that could not be pinned")
	case !d.hasFailed:
		w.failf("pin a row of a store that is up: %w", err)
	}
}

// countEvictions counts what the cache of a store that ends has not taken in, and evicted.
func (w *world) countEvictions(s *store.Store) {
	m := s.Metrics().Cache
	w.counts["rows turned away"] += int(m.Refused)
	w.counts["rows evicted"] += int(m.Evictions)
}
