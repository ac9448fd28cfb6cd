package cleave

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// New groups get a fair share although there are fewer shards than groups: those that
// are too large are split, by their bytes, and no collection is.
func TestNewGroupsGetAFairShareOfFewShards(t *testing.T) {
	for _, stores := range []int{1, 2} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			o := memory(stores)
			o.Groups = stores
			db := mustOpen(t, o)
			defer mustClose(t, db)
			ks := rangeSpace(t, db, "r")
			const rows = 6000
			noise := make([]byte, 1<<10) // which cannot be compressed
			_, err := rand.NewChaCha8([32]byte{}).Read(noise)
			must(t, err)
			for i := 0; i < rows; i += 100 {
				var b Batch
				for j := i; j < i+100; j++ {
					b.Set(ks, number(j), noise[:200+i/20])
				}
				must(t, db.Write(ctx, &b))
			}
			hash := []byte("000100 a hash of many fields")
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
			for i := range rows {
				if _, err := ks.Get(ctx, number(i)); err != nil {
					t.Fatalf("key %d: %v", i, err)
				}
			}
		})
	}
}
