package sim

import (
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/partition"
)

func requestOf(c command.Command) group.Request { return group.Request{Command: c} }

// undoings are phases that few come to unless somebody changes their mind.
var undoings = []string{"undoing", "thawing", "abandoning", "wiping", "dismissing", "stopping", "unmarking"}

// cancelRate is how often somebody does, in a thousand.
func (w *world) cancelRate() int {
	for _, p := range undoings {
		if strings.HasSuffix(w.cfg.Aim.Phase, p) {
			return 300
		}
	}
	return 40
}

// aimedAt is the phase of a job that is done by others at which the run aims.
func (w *world) aimedAt() string {
	phase, _ := strings.CutPrefix(w.cfg.Aim.Phase, "job ")
	if phase == w.cfg.Aim.Phase {
		return ""
	}
	return phase
}

// compositeRate is how often somebody asks for such a job, in a thousand wishes.
func (w *world) compositeRate() int {
	if w.aimedAt() != "" {
		return 500
	}
	return 60
}

// entered is told of each phase that a transaction or a job comes to.
func (w *world) entered(phase string) {
	if w.healing {
		return
	}
	w.count("entered " + phase)
	if w.cfg.Aim.Phase != phase || w.aimed {
		return
	}
	switch w.cfg.Aim.Fault {
	case StoreCrash, ProcessCrash, ClockJump, DiskFull, SyncFailure:
		w.aimed = true
		w.strike(w.cfg.Aim.Fault)
	}
}

// strike lets a fault happen to everybody now.
func (w *world) strike(f Fault) {
	if w.healing {
		return
	}
	w.count(f.String())
	for _, phase := range w.underWay() {
		w.cells[Cell{f, phase}]++
	}
	switch f {
	case StoreCrash:
		w.crash(pick(w, w.disks))
	case ProcessCrash:
		w.crashAll()
	case ClockJump:
		w.jumpMS += w.rng.Int64N(4000) - 1500
		w.note("jump", uint64(w.wallMS()))
	case DiskFull:
		d := pick(w, w.disks)
		d.full++
		w.after(millisecond+w.rng.Int64N(60*millisecond), func() { d.full-- })
	case SyncFailure:
		pick(w, w.disks).failing = true
	}
}

// underWay are the phases of all that has not ended.
func (w *world) underWay() (phases []string) {
	kept := w.runs[:0]
	for _, r := range w.runs {
		if !r.over() {
			kept = append(kept, r)
			phases = append(phases, r.phase())
		}
	}
	w.runs = kept
	for _, j := range w.byPhase() {
		now := phaseOf(&j)
		for _, d := range w.drivers { // who goes by what is stored may be further
			if h := d.jobs[j.ID]; h != nil && h.stored.Rev == j.Rev && h.job.Rev > j.Rev {
				now = d.phase(&h.job)
			}
		}
		phases = append(phases, now)
	}
	return phases
}

// crash takes a store down, and up again after a while.
func (w *world) crash(d *disk) {
	d.crash(pick(w, []int{0, 50, 100}))
	if !w.healing {
		w.after(millisecond+w.rng.Int64N(30*millisecond), func() { w.raise(d) })
	}
}

// bury takes stores down that a failed write has ended: whoever waits for an answer
// waits in vain.
func (w *world) bury() {
	for _, d := range w.disks {
		if d.dead {
			w.count("stores that died of a failed sync")
			w.crash(d)
		}
	}
}

// raise opens a store that is down; it may crash again at once.
func (w *world) raise(d *disk) {
	if d.store != nil {
		return
	}
	d.open()
	w.bury()
	w.ascertain()
	if !w.healing && w.cfg.Faults&StoreCrash != 0 && w.chance(150) {
		w.count("crashes after opening")
		w.crash(d)
	}
}

// ascertain looks which map there is, after one was stored of which nobody heard,
// or was not.
func (w *world) ascertain() {
	if !w.unsure {
		return
	}
	if reply, ok := w.do(catalogGroup, requestOf(&command.Get{Key: meta.Map()})); ok && reply.Err == nil {
		m, err := partition.Decode(reply.Bytes)
		w.must(err, "the map in the catalog")
		w.unsure, w.newest = false, max(w.newest, m.Version())
		w.removeGroups(m)
	}
}

// crashAll ends the process: all that it had in memory is gone.
func (w *world) crashAll() {
	w.life++
	w.runs = nil
	for i := range w.drivers {
		w.drivers[i] = newDriver(w)
	}
	for _, d := range w.disks {
		d.crash(pick(w, []int{0, 50, 100}))
	}
	clear(w.seen)
	w.reader.die()
	w.hub.die()
	w.cached.die()
	w.after(millisecond+w.rng.Int64N(20*millisecond), func() {
		for _, d := range w.disks {
			w.raise(d)
		}
		w.refresh()
	})
}

// arrange lets faults, jobs and housekeeping happen again and again.
func (w *world) arrange() {
	for _, f := range []Fault{StoreCrash, ProcessCrash, ClockJump, DiskFull, SyncFailure} {
		if w.cfg.Faults&f != 0 {
			w.every(250*millisecond, func() { w.strike(f) })
		}
	}
	for _, g := range w.groups {
		w.every(100*millisecond, func() { w.tend(g) })
	}
	if w.cfg.Jobs {
		w.every(4*millisecond, w.operate)
	}
	w.every(20*millisecond, func() { w.drivers[0].look() })
	w.every(70*millisecond, func() { w.drivers[1].look() })
	w.pinRows()
	w.anon(w.reader.rng, 16*millisecond, w.reader.look)
	w.anon(w.hub.rng, 16*millisecond, w.hub.look)
	w.anon(w.cached.rng, 16*millisecond, w.cached.look)
	for _, c := range w.clients {
		w.after(w.rng.Int64N(millisecond), c.begin)
	}
}
