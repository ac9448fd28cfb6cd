package group

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Looker is a State that knows some rows without a look at the disk.
type Looker interface {
	// Look appends the value of a key to dst, if it is known.
	Look(key, dst []byte) (value []byte, found, known bool)
}

// over is the context of those who do not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Look is Read for those who must not wait: it returns the row of a key if that is known
// in memory, and no lock, clock or hand-over is in the way. Otherwise known is false:
// use Read.
func (g *Group) Look(key partition.Position, dst []byte) (row command.Row, found, known bool) {
	look, ok := g.state.(Looker)
	if !ok || g.closed.Load() || g.log.ReadBarrier(over) != nil {
		return row, false, false
	}
	list := g.visible.list.Load()
	if !list.Reads(key) || g.visible.writer(key) != nil {
		return row, false, false
	}
	room := keyRoom.Get().(*[]byte)
	*room = effect.Rows.AppendKey((*room)[:0], key)
	value, found, known := look.Look(*room, dst)
	keyRoom.Put(room)
	if !known || g.visible.list.Load() != list {
		return row, false, false
	}
	if !found {
		return row, false, true
	}
	row, err := command.DecodeRow(value[len(dst):])
	if err != nil || row.ExpiryMS != 0 {
		return command.Row{}, false, false
	}
	return row, true, true
}
