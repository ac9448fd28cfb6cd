package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/mover"
)

// New groups get a fair share although there are fewer shards than groups: those that
// are too large are split, by their bytes, and no collection is.
func TestNewGroupsGetAFairShareOfFewShards(t *testing.T) {
	for stores := 1; stores <= min(2, soaking(1)); stores++ {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			o := memory(stores)
			o.Groups = stores
			db := mustOpen(t, o)
			defer mustClose(t, db)
			ks := rangeSpace(t, db, "r")
			const rows = 1200
			noise := make([]byte, 1<<10) // which cannot be compressed
			_, err := rand.NewChaCha8([32]byte{}).Read(noise)
			must(t, err)
			for i := 0; i < rows; i += 100 {
				var b Batch
				for j := i; j < i+100; j++ {
					b.Set(ks, number(j), noise[:200+i/5])
				}
				must(t, db.Write(ctx, &b))
			}
			hash := []byte("000600 a hash of many fields")
			var fields []Field
			for i := range 300 {
				fields = append(fields, Field{Name: number(i), Value: noise[:500]})
			}
			_, err = ks.HSet(ctx, hash, fields...)
			must(t, err)
			price, err := db.Plan(ctx, Regroup{Groups: 4})
			must(t, err)
			if price.Moves < 3 || stores == 1 && price.SkewAfter > 1.5 {
				t.Errorf("the plan is %+v", price)
			}
			mustDo(t, db, Regroup{Groups: 4, Parallel: 4})
			bytes, sum := map[GroupID]uint64{}, uint64(0)
			shards, err := db.Shards(ctx)
			must(t, err)
			for _, s := range shards {
				bytes[s.Group] += s.Bytes
				sum += s.Bytes
			}
			for _, g := range db.Groups() {
				if stores == 2 && g.ID <= 2 {
					continue // those that are added are filled, not those that were empty before
				}
				if share := float64(4*bytes[g.ID]) / float64(sum); share < 0.5 || share > 1.6 {
					t.Errorf("%v has %.2f of the mean: %v", g.ID, share, bytes)
				}
			}
			span := ks.space.KeySpan(hash)
			if m := db.Map(); m.Find(span.Start).ID != m.Find(append(slices.Clip(span.Start), 0xff)).ID {
				t.Error("a collection is in two shards")
			}
			found := 0
			for _, err := range ks.All(ctx, ScanOptions{}) {
				must(t, err)
				found++
			}
			if found != rows+1 {
				t.Errorf("there are %d keys, want %d", found, rows+1)
			}
		})
	}
}

// A group that was drained can be used again, but not while it is drained: who changes
// his mind cancels that.
func TestADrainedGroupCanBeUsedAgain(t *testing.T) {
	var once sync.Once
	var early error
	var db *DB
	db = watched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Drain && j.Phase == mover.Surveying {
			once.Do(func() { _, early = db.Start(ctx, Undrain{Group: 4}) })
		}
	})
	drain := mustDo(t, db, Drain{Group: 4, Parallel: 4})
	if !errors.Is(early, ErrBusy) {
		t.Errorf("while the group is drained: %v", early)
	}
	shard := db.Map().Find(db.Default().space.Span().Start).ID
	if _, err := db.Start(ctx, Move{Shard: shard, To: 4}); !errors.Is(err, ErrDraining) {
		t.Errorf("a move to a group that was drained by job %d: %v", drain.ID, err)
	}
	if p, err := db.Plan(ctx, Undrain{Group: 4}); err != nil || p.Moves > 0 {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if s := mustDo(t, db, Undrain{Group: 4}); s.Kind != "undrain" || db.Groups()[3].Draining || db.Groups()[3].Shards > 0 {
		t.Errorf("%+v, and the group is %+v", s, db.Groups()[3])
	}
	mustDo(t, db, Move{Shard: shard, To: 4})
	for group, want := range map[GroupID]error{4: ErrNoChange, 9: ErrNoGroup} {
		if _, err := db.Start(ctx, Undrain{Group: group}); !errors.Is(err, want) {
			t.Errorf("an undrain of %v: %v, want %v", group, err, want)
		}
	}
}

// Who cancels a Regroup takes back what that has done, not what a Drain has done before.
func TestACancelledRegroupLeavesGroupsDrainedThatWereSo(t *testing.T) {
	var once sync.Once
	var cancelled error
	var db *DB
	db = watched(t, 2, func(j mover.Job) {
		if j.Kind == mover.Regroup && j.Phase == mover.Surveying {
			once.Do(func() { cancelled = mustJob(t, db, JobID(j.ID)).Cancel(ctx) })
		}
	})
	mustDo(t, db, Drain{Group: 4})
	job := mustStart(t, db, Regroup{Groups: 2})
	if s, _ := job.Wait(ctx); cancelled != nil || s.Phase != "rolled back" {
		t.Fatalf("the regroup is %+v, cancelled: %v", s, cancelled)
	}
	for _, g := range db.Groups() {
		if want := g.ID == 4; g.Draining != want {
			t.Errorf("%v drains: %v, want %v", g.ID, g.Draining, want)
		}
	}
}
