package node

import (
	"context"
	"runtime"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Judge returns the time by which a key is judged, or own.ErrWrongGroup if nobody
// serves it.
type Judge func(partition.Position) (nowMS int64, err error)

// glances is how often At looks at rows before it takes a snapshot.
const glances = 3

// sequences returns how often something became visible in stores.
func sequences(hosts []*Host) []uint64 {
	list := make([]uint64, len(hosts))
	for i, h := range hosts {
		list[i] = h.Store.Sequence()
	}
	return list
}

// At calls read with the state of stores at one moment. It is for a few rows: those
// are read from memory, and if something became visible meanwhile, read again. So
// read may be called several times, and what it got in the last call counts; its
// error is returned. It must not keep the reader.
func (n *Node) At(ctx context.Context, hosts []*Host, read func(from command.Reader, judge Judge) error) error {
	if err := ready(ctx, hosts); err != nil {
		return err
	}
	for range glances {
		handing, before := n.handing.mark(), sequences(hosts)
		v := View{node: n}
		locked := false
		for _, h := range hosts {
			m := h.Moment()
			locked = locked || m.locked
			v.sides = append(v.sides, side{host: h, moment: m, verdict: verdict{from: h.Store}})
		}
		if locked {
			break
		}
		err := read(&v, v.NowMS)
		still := slices.Equal(sequences(hosts), before) && (len(hosts) == 1 || n.handing.same(handing))
		for i := range v.sides {
			still = still && before[i]%2 == 0 && v.sides[i].moment.Still()
		}
		if still {
			return err
		}
		runtime.Gosched()
	}
	v, err := n.View(ctx, hosts...)
	if err != nil {
		return err
	}
	defer v.Close()
	return read(v, v.NowMS)
}
