package cleave

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// Too many scans are open, which is an error of whoever opens another one. A shard that
// changes hands meanwhile is served all the same.
func TestAShardIsTakenOverBesideTooManyScans(t *testing.T) {
	o := tiny(wal.Never, nil, store.Memory())
	o.Groups = 2
	var db *DB
	var held []*store.Snapshot
	o.OnJob = func(j mover.Job) {
		for j.Phase == mover.Releasing {
			snap, err := db.node.Hosts()[0].Store.Snapshot()
			if errors.Is(err, store.ErrSnapshots) {
				return
			}
			must(t, err)
			held = append(held, snap)
			for i := range 40 {
				must(t, db.Default().Set(ctx, fmt.Appendf(nil, "fill %d", i), make([]byte, 10<<10)))
			}
		}
	}
	db = mustOpen(t, o)
	ks := db.Default()
	must(t, ks.Set(ctx, []byte("k"), []byte("0")))
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := mustStart(t, db, Move{Shard: shardAt(ks, "k"), To: 3 - groupAt(ks, "k")}).Wait(limited)
	if err != nil || len(held) == 0 {
		t.Fatalf("the move, with %d snapshots: %v: %+v", len(held), err, s)
	}
	if v, err := ks.Get(limited, []byte("k")); err != nil || string(v) != "0" {
		t.Errorf("it is %q, %v", v, err)
	}
	if err := ks.Set(limited, []byte("k"), nil); err != nil {
		t.Error(err)
	}
	for _, snap := range held {
		snap.Close()
	}
	mustClose(t, db)
}
