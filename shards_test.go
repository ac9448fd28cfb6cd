package cleave

import (
	"strings"
	"testing"
)

// Slots and keys tell which shard has a key, and so does Locate.
func TestAShardSaysWhichKeysItHas(t *testing.T) {
	db := watched(t, 2, nil)
	r := rangeSpace(t, db, "r")
	mustDo(t, db, Split{Keyspace: r, At: [][]byte{[]byte("f"), []byte("m\x00n")}})
	few, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "few", Slots: 16})
	must(t, err)
	rangeSpace(t, db, "behind") // so that shards end before the end of all
	shards, err := db.Shards(ctx)
	must(t, err)
	for _, ks := range []*Keyspace{db.Default(), few} {
		next := 0
		for _, s := range shards {
			if s.Keyspace != ks.Name() {
				continue
			}
			if s.FirstSlot != next || s.LastSlot < s.FirstSlot || s.StartKey != nil || s.EndKey != nil {
				t.Errorf("%v follows slot %d", s, next-1)
			}
			next = s.LastSlot + 1
		}
		if next != ks.space.SlotCount() {
			t.Errorf("the last slot of %s is %d", ks.Name(), next-1)
		}
		for i := range 100 {
			at, found := ks.Locate(number(i)), false
			for _, s := range shards {
				if s.Keyspace == ks.Name() && s.FirstSlot <= at.Slot && at.Slot <= s.LastSlot {
					found = s.ID == at.Shard && s.Group == at.Group && s.Store == at.Store
				}
			}
			if !found {
				t.Errorf("key %d is at %+v, which is none of %v", i, at, shards)
			}
		}
	}
	var texts []string
	for _, s := range shards {
		if s.Keyspace == r.Name() {
			_, keys, _ := strings.Cut(s.String(), ": ")
			texts = append(texts, keys)
			if s.FirstSlot != -1 || s.LastSlot != -1 || r.Locate(append(s.StartKey, 0)).Shard != s.ID {
				t.Errorf("%+v", s)
			}
		}
	}
	want := `keys from the first to before "f" of r; keys from "f" to before "m\x00n" of r; keys from "m\x00n" to the last of r`
	if got := strings.Join(texts, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if at := r.Locate([]byte("g")); at.Slot != -1 || at.Shard != shardAt(r, "g") {
		t.Errorf("%+v", at)
	}
	if s := shards[0]; s.FirstSlot != -1 || s.StartKey != nil || s.EndKey != nil {
		t.Errorf("the catalog is %+v", s)
	}
}
