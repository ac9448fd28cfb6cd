package counter

import (
	"bytes"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

// No two counters share a key, and none of a counter's own is another's.
func TestKeysOfCountersAreDifferent(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4})
	for kind, ks := range testKeyspaces(t, db) {
		l, owner := spread.NewPartKeys(ks, ""), map[string]string{}
		for _, name := range counterNames(3) {
			for _, k := range append(l.Parts(name, MaxParts), l.Manifest(name)) {
				if other, taken := owner[string(k)]; taken {
					t.Fatalf("%s: %q is of %q and of %q", kind, k, other, name)
				}
				owner[string(k)] = name
			}
		}
	}
}

// n parts fall into n groups, or as many as there are, and the manifest to part 0.
func TestPartsFallIntoDifferentGroupsAndStores(t *testing.T) {
	for _, o := range []cleave.Options{{Groups: 4}, {Stores: 2}} {
		db := openMemory(t, o)
		for kind, ks := range testKeyspaces(t, db) {
			if kind == "few" {
				continue // as many slots as groups: chance decides
			}
			l := spread.NewPartKeys(ks, "")
			for _, name := range counterNames(9) {
				for _, n := range []int{2, 4, 16} {
					groups, stores := map[cleave.GroupID]int{}, map[int]int{}
					for _, k := range l.Parts(name, n) {
						at := ks.Locate(k)
						groups[at.Group]++
						stores[at.Store]++
					}
					// Two parts are half a keyspace apart, give or take a stretch.
					if want := min(n, len(db.Groups())); len(groups) < want && n != len(db.Groups()) || len(groups) < want-1 {
						t.Errorf("%s, %+v: %d parts of %q are in the groups %v", kind, o, n, name, groups)
					}
					if n >= 4 && len(stores) < max(o.Stores, 1) {
						t.Errorf("%s, %+v: %d parts of %q are in the stores %v", kind, o, n, name, stores)
					}
				}
				if ks.Locate(l.Manifest(name)) != ks.Locate(l.Part(name, 0)) && kind == "hash" {
					t.Errorf("%s: the manifest of %q is not at part 0", kind, name)
				}
			}
		}
	}
}

// What is written down stays where it is: keys of another version would be other counters.
func TestKeysStayAsTheyAre(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "r", Kind: cleave.Range})
	must(t, err)
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{spread.NewPartKeys(db.Default(), "").Manifest("likes"), "{0:likes}m"},
		{spread.NewPartKeys(db.Default(), "").Part("likes", 0), "{0:likes}0"},
		{spread.NewPartKeys(db.Default(), "").Part("likes", 1), "{2:likes}1"},
		{spread.NewPartKeys(db.Default(), "").Part("likes", 200), "{93:likes}200"},
		{spread.NewPartKeys(ks, "").Manifest("likes"), "\xce\x02likes\x00\x02manifest\x00"},
		{spread.NewPartKeys(ks, "").Part("likes", 3), "\x8e\x02likes\x00\x15\x03"},
	} {
		if !bytes.Equal(c.got, []byte(c.want)) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
