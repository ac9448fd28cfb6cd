package counter

import (
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

func TestSpread_PartsOfACounterGoToDifferentGroupsAndStores(t *testing.T) {
	db := openMemory(t, cleave.Options{Stores: 2, Groups: 4})
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "counts", Kind: cleave.Range})
	must(t, err)
	c := newCounters(t, ks, db, unwatchedOptions)
	names := counterNames(9)
	for _, name := range names {
		must(t, c.Add(ctx, name, 1))
		must(t, c.Resize(ctx, name, 4))
	}
	for range 2 { // the second has nothing to do
		must(t, c.Spread(ctx))
	}
	for _, name := range names {
		for parts, want := range map[int]struct{ groups, stores int }{2: {2, 2}, 4: {4, 2}, 16: {4, 2}} {
			groups, stores := map[cleave.GroupID]int{}, map[int]int{}
			for _, k := range spread.NewPartKeys(ks, "").Parts(name, parts) {
				at := ks.Locate(k)
				groups[at.Group]++
				stores[at.Store]++
			}
			if len(groups) != want.groups || len(stores) != want.stores {
				t.Errorf("%d parts of %q are in the groups %v of the stores %v", parts, name, groups, stores)
			}
		}
		wantSum(t, c, name, 1)
	}
}

func TestSpread_LeavesAHashKeyspaceAsItIs(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4})
	c := newCounters(t, db.Default(), db, unwatchedOptions)
	before := db.Map().Version()
	must(t, c.Spread(ctx))
	if after := db.Map().Version(); after != before {
		t.Errorf("the map went from version %d to %d", before, after)
	}
}
