package node

import (
	"context"
	"runtime"

	"github.com/cleavekv/cleave/internal/command"
)

// patience is how often At looks before it takes a snapshot.
const patience = 3

// At calls read with the state of the part at one moment and the time then. It
// is for a few rows: those are read from memory, and if something became visible
// meanwhile, read again. So read may be called several times, and what it got in
// the last call counts; its error is returned. It must not keep the reader.
func (p *Part) At(ctx context.Context, read func(from command.Reader, nowMS int64) error) error {
	if err := p.Group.Ready(ctx); err != nil {
		return err
	}
	for range patience {
		if ok, err := p.look(read); ok {
			return err
		}
		runtime.Gosched()
	}
	snap, now, err := p.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	return read(snap, now)
}

// look reads what is newest. It is of one moment, ok, if neither the position
// nor the time has changed after that.
//
// A commit sets the position first, then shows its rows, and returns then. If
// the position is that of the last commit that has returned, none is in between:
// the next one that shows rows will have set the position before.
func (p *Part) look(read func(from command.Reader, nowMS int64) error) (ok bool, err error) {
	pos, now := p.Store.Position(), p.Group.NowMS()
	if pos != p.log.last() {
		return false, nil
	}
	err = read(p.Store, now)
	return p.Store.Position() == pos && p.Group.NowMS() == now, err
}
