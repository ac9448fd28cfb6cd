package sim

import (
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
)

// diskLog is the log of a group on a disk that may have no room, or fail. How a
// store finds out is for its own tests: here is what groups and all above them make
// of what it says then.
type diskLog struct {
	drive.Log
	d *disk
}

// Commit implements [group.Log].
func (l *diskLog) Commit(urgent bool, effects []byte) error {
	return l.d.commit(urgent, func() error { return l.Log.Commit(urgent, effects) }, group.JointPart{Log: l, Effects: effects})
}

// CommitJoint implements [group.JointLog].
func (l *diskLog) CommitJoint(urgent bool, parts []group.JointPart) error {
	inner := make([]group.JointPart, len(parts))
	for i, p := range parts {
		inner[i] = group.JointPart{Log: &p.Log.(*diskLog).Log, Effects: p.Effects}
	}
	return l.d.commit(urgent, func() error { return l.Log.CommitJoint(urgent, inner) }, parts...)
}

// commit writes, or does not, or does and says that it failed.
func (d *disk) commit(urgent bool, write func() error, parts ...group.JointPart) error {
	switch {
	case d.dead:
	case d.full > 0 && !urgent:
		d.w.count("commits that a full disk refused")
		return store.ErrDiskFull
	case !d.failing:
		err := write()
		if err == nil {
			d.witness(parts)
		}
		return err
	default:
		d.dead = true
		if d.w.chance(500) {
			d.w.must(write(), "a write of which nobody hears")
			d.witness(parts)
			d.w.unsure = true
		}
	}
	return errors.Join(group.ErrUncertain, store.ErrUnknown, store.ErrFailed)
}

// diskOf is the disk of an open group.
func (w *world) diskOf(p drive.Place) *disk {
	return w.disks[slices.IndexFunc(w.disks, func(d *disk) bool { return d.store == p.Store })]
}

// refused tells whether an error says that a disk is full: nothing has happened.
func refused(err error) bool { return errors.Is(err, store.ErrDiskFull) }

// silent tells whether an error is one of which nobody hears, because the store has
// died of it. Then nothing may have been acknowledged.
func (w *world) silent(d *disk, err error) bool {
	if d.dead && err == nil {
		w.failf("store %d has acknowledged what it could not write", d.number)
	}
	return d.dead
}
