package node

import (
	"context"
	"runtime"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Judge returns the time by which a key is judged, or own.ErrWrongGroup if no group
// of the host serves it.
type Judge func(partition.Position) (nowMS int64, err error)

// At calls read with the state of the host at one moment. It is for a few rows:
// those are read from memory, and if something became visible meanwhile, read again.
// So read may be called several times, and what it got in the last call counts; its
// error is returned. It must not keep the reader.
func (h *Host) At(ctx context.Context, read func(from command.Reader, judge Judge) error) error {
	if err := h.Ready(ctx); err != nil {
		return err
	}
	for range patience {
		m, before := h.Moment(), h.Store.Sequence()
		if before%2 != 0 {
			runtime.Gosched()
			continue
		}
		err := read(h.Store, m.NowMS)
		if h.Store.Sequence() == before && h.Still(&m) {
			return err
		}
	}
	v, err := h.View(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	return read(v, v.NowMS)
}
