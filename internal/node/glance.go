package node

import (
	"context"
	"runtime"
	"slices"
)

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
// error is returned. It must not keep the view.
func (n *Node) At(ctx context.Context, hosts []*Host, read func(*View) error) error {
	if err := ready(ctx, hosts); err != nil {
		return err
	}
	for range glances {
		handing, before := n.handing.mark(), sequences(hosts)
		v := &View{node: n, sides: make([]side, len(hosts))}
		locked := false
		for i, h := range hosts {
			m := h.Moment()
			locked = locked || m.locked
			v.sides[i] = side{host: h, moment: m, verdict: verdict{from: h.Store}}
		}
		if locked {
			break
		}
		err := read(v)
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
	return read(v)
}
