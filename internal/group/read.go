package group

import (
	"context"
	"sync"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Read returns the row of a key on the caller's goroutine, past the queue. It
// is linearizable: it sees everything that was acknowledged before the call,
// and nothing that is not durable. The row's payload is appended to dst.
func (g *Group) Read(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	if err := g.Ready(ctx); err != nil {
		return row, false, err
	}
	row, ok, err = g.row(key, dst)
	if err != nil || !ok || row.ExpiryMS == 0 {
		return row, ok, err
	}
	// The clock comes before the row that it judges. The other way round a
	// write that kept the key from expiring could fall in between.
	now := g.NowMS()
	row, ok, err = g.row(key, dst)
	if err != nil || !ok || !row.Alive(now) {
		return command.Row{}, false, err
	}
	return row, true, nil
}

// row returns the newest row of a key, dead or alive.
func (g *Group) row(key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	room := keyRoom.Get().(*[]byte)
	*room = effect.Rows.AppendKey((*room)[:0], key)
	value, ok, err := g.state.Get(*room, dst)
	keyRoom.Put(room)
	if err != nil || !ok {
		return row, false, err
	}
	row, err = command.DecodeRow(value[len(dst):])
	return row, err == nil, err
}

// keyRoom holds memory for store keys, which a State does not keep.
var keyRoom = sync.Pool{New: func() any { return new([]byte) }}

// NowMS is the group's clock, in Unix milliseconds.
func (g *Group) NowMS() int64 {
	if g.clock.short(0) {
		g.wake() // it stands still until more time is reserved
	}
	return g.clock.now()
}

func (g *Group) wake() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}
