package sim

import (
	"errors"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/partition"
)

// letter is a message: whose it is, in which phase that one is, and whether it
// may come twice. A plain command without an id would be executed twice.
type letter struct {
	phase string
	twice bool
}

// send brings a message, or not, or late, or twice.
func (w *world) send(l letter, deliver func()) {
	if w.fault(Dropped, l.phase, 25) {
		return
	}
	delay := 50 + w.rng.Int64N(1200)
	if thought := w.cfg.thought(); thought > 0 && strings.HasPrefix(l.phase, "txn") {
		delay += w.rng.Int64N(thought)
	}
	if w.fault(Late, l.phase, 25) {
		delay += w.rng.Int64N(80 * millisecond)
	}
	w.after(delay, deliver)
	if l.twice && w.fault(Duplicated, l.phase, 25) {
		w.after(delay+w.rng.Int64N(20*millisecond), deliver)
	}
}

// fault tells whether a fault happens, and counts it.
func (w *world) fault(f Fault, phase string, perMille int) bool {
	if w.healing || w.cfg.Faults&f == 0 {
		return false
	}
	aim := Cell{f, phase} == w.cfg.Aim && !w.aimed
	if !w.chance(perMille) && !aim {
		return false
	}
	w.aimed = w.aimed || aim
	w.hit(f, phase)
	return true
}

// hit counts a fault.
func (w *world) hit(f Fault, phase string) {
	w.cells[Cell{f, phase}]++
	w.count(f.String())
}

// do gives a request to a group. If it is not there, or dies of it, there is no
// reply.
func (w *world) do(to partition.GroupID, r group.Request) (reply command.Reply, ok bool) {
	p, err := w.find(to)
	if err != nil {
		return reply, false
	}
	reply, err = p.Group.Try(ctx, r)
	news := w.news
	w.news = nil
	switch {
	case w.silent(w.home(to), err) || refused(err):
		return command.Reply{}, false
	case err != nil:
		// Its store is alive, so nothing but a bug stops a group.
		w.failf("%v fails: %w", to, err)
	}
	for _, j := range news {
		w.follow(j)
	}
	w.note("reply", uint64(to), uint64(reply.Kind), uint64(reply.Int), reply.Version)
	return reply, true
}

// mustDo gives a command to a group that is up.
func (w *world) mustDo(to partition.GroupID, c command.Command) command.Reply {
	reply, ok := w.do(to, group.Request{Command: c})
	if !ok || reply.Err != nil {
		w.failf("%v refuses %T: %w", to, c, reply.Err)
	}
	return reply
}

// ask sends a command to a group, and its reply back to what lives as long as
// the process does.
func (w *world) ask(l letter, to partition.GroupID, c func() command.Command, heard func(command.Reply)) {
	life := w.life
	if _, err := w.find(to); err != nil {
		w.refresh() // it may be gone for good
	}
	w.send(l, func() {
		reply, ok := w.do(to, group.Request{Command: c()})
		if !ok {
			return
		}
		w.send(l, func() {
			if w.life == life {
				heard(reply)
			}
		})
	})
}

// refresh brings the newest map to the router of the process.
func (w *world) refresh() {
	if _, err := w.find(catalogGroup); err != nil {
		return
	}
	w.ask(letter{"routing", true}, catalogGroup, func() command.Command { return &command.Get{Key: meta.Map()} }, func(r command.Reply) {
		w.learn(w.decode(r))
	})
}

func (w *world) decode(r command.Reply) *partition.Map {
	if r.Err != nil {
		w.failf("the catalog refuses: %w", r.Err)
	}
	m, err := partition.Decode(r.Bytes)
	w.must(err, "the map in the catalog")
	if m.Version() > w.newest {
		w.failf("the catalog has version %d of the map, %d is the last that was made", m.Version(), w.newest)
	}
	return m
}

// learn takes a map that is newer.
func (w *world) learn(m *partition.Map) {
	if w.router == nil || m.Version() > w.router.Version() {
		w.router = m
	}
}

// away tells whether an error says that a group is not there: the message is lost.
func away(err error) bool { return errors.Is(err, drive.ErrAway) }
