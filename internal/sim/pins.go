package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/store"
)

// sweep is how many keys that nobody asks for again are read in a row. Some sweeps fill a
// cache.
const sweep = 60

// pinRows lets somebody pin and unpin the rows of clients in the stores, whether the keys
// are theirs or not, and sweep over keys that are not there, so that rows are evicted,
// and turned away. Nobody may notice. It draws by itself: the rest of the world is what it
// would be without.
func (w *world) pinRows() {
	draw := rand.New(rand.NewPCG(w.cfg.Seed, 0x9145))
	swept := 0
	var step func()
	step = func() {
		if w.healing {
			return
		}
		if d := w.disks[draw.IntN(len(w.disks))]; d.store != nil {
			if draw.IntN(16) > 0 {
				w.pinRow(d, draw)
			} else {
				for range sweep {
					swept++
					_, _, _ = d.store.Get(effect.Rows.AppendKey(nil, at(fmt.Sprint("swept", swept))), nil)
				}
				w.count("sweeps")
			}
		}
		w.after(millisecond/2+draw.Int64N(2*millisecond), step)
	}
	w.after(0, step)
}

// pinRow pins or unpins a row of a store.
func (w *world) pinRow(d *disk, draw *rand.Rand) {
	p := at(key(letters[draw.IntN(len(letters))], whats[draw.IntN(len(whats))], draw.IntN(2)))
	if draw.IntN(4) == 0 {
		p = command.FieldPosition(p, fields[draw.IntN(len(fields))])
	}
	row := effect.Rows.AppendKey(nil, p)
	if draw.IntN(3) == 0 {
		d.store.Release(row)
		w.count("rows unpinned")
		return
	}
	switch err := d.store.Hold(row); {
	case err == nil:
		w.count("rows pinned")
	case errors.Is(err, store.ErrNoRoom):
		w.count("rows that could not be pinned")
	case !d.dead:
		w.failf("pin a row of a store that is up: %w", err)
	}
}

// turnedAway counts what the cache of a store that ends has not taken in, and evicted.
func (w *world) turnedAway(s *store.Store) {
	m := s.Metrics().Cache
	w.counts["rows turned away"] += int(m.Refused)
	w.counts["rows evicted"] += int(m.Evictions)
}
