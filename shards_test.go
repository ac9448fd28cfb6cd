package cleave

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// Slots and keys tell which shard has a key, and so does Locate.
func TestAShardSaysWhichKeysItHas(t *testing.T) {
	db := openWatched(t, 2, nil)
	r := rangeSpace(t, db, "r")
	mustDo(t, db, SplitAtKeys(r, []byte("f"), []byte("m\x00n")))
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
		if next != ks.keyspace.SlotCount() {
			t.Errorf("the last slot of %s is %d", ks.Name(), next-1)
		}
		for i := range 100 {
			at, found := ks.Locate(numberKey(i)), false
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

// A shard that is too large is cut behind a collection that has most of it. No key lies
// there; the bounds tell all the same which keys are on which side.
func TestAShardThatIsCutBehindACollectionSaysWhichKeysItHas(t *testing.T) {
	for big, want := range map[string]string{
		"m":     `keys from the first to before "m" of r; keys from "m" to before "m\x00" of r; keys from "m\x00" to the last of r`,
		"m\x00": `keys from the first to before "m\x00" of r; keys from "m\x00" to before "m\x00\x00" of r; keys from "m\x00\x00" to the last of r`,
		"":      `keys from the first to before "" of r; keys from "" to before "\x00" of r; keys from "\x00" to the last of r`,
	} {
		db := openWatched(t, 1, nil)
		r := rangeSpace(t, db, "r")
		for i := range 100 {
			_, err := r.HSet(ctx, []byte(big), Field{Name: numberKey(i), Value: make([]byte, 1000)})
			must(t, err)
		}
		must(t, r.Set(ctx, []byte("z"), nil))
		for range 2 { // before it, and behind it
			s := db.Map().Find(r.keyspace.AppendPosition(nil, []byte(big)))
			at, in, ok := db.node.SplitPoint(s)
			if !ok {
				t.Fatalf("%v has no middle", s)
			}
			j, err := db.node.StartJob(ctx, mover.Request{Kind: mover.Split, Shard: s.ID, In: in, At: []partition.Position{at}})
			must(t, err)
			_, err = j.Wait(ctx)
			must(t, err)
		}
		shards, err := db.Shards(ctx)
		must(t, err)
		shards = slices.DeleteFunc(shards, func(s Shard) bool { return s.Keyspace != "r" })
		var texts []string
		for _, s := range shards {
			_, keys, _ := strings.Cut(s.String(), ": ")
			texts = append(texts, keys)
		}
		if got := strings.Join(texts, "; "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		for _, key := range []string{"", "\x00", "\x00\x00", "\x01", "l", "m", "m\x00", "m\x00\x00", "m\x00\x01", "m\x01", "n", "z"} {
			for _, s := range shards {
				has := string(s.StartKey) <= key && (s.EndKey == nil || key < string(s.EndKey))
				if at := r.Locate([]byte(key)).Shard; has != (at == s.ID) {
					t.Errorf("with a large %q, %q is in %v, and this is %v", big, key, at, s)
				}
			}
		}
	}
}

// The shards are listed while a store has failed: its own have what they had when they were
// last listed.
func TestShardsAreListedWhileAStoreHasFailed(t *testing.T) {
	var broken atomic.Bool
	o := memoryOptions(2)
	o.FS = func(i int) store.FS {
		return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
			if i == 1 && sync && broken.Load() {
				return errors.New("the disk is broken")
			}
			return nil
		}))
	}
	db := mustOpen(t, o)
	defer db.Close()
	for i := range 100 {
		must(t, db.Default().Set(ctx, numberKey(i), []byte("v")))
	}
	before, err := db.Shards(ctx)
	must(t, err)
	broken.Store(true)
	for i := 0; err == nil; i++ {
		err = db.Default().Set(ctx, numberKey(i), []byte("v"))
		err = errors.Join(err, db.node.StoreHosts()[1].Store.Sync())
	}
	after, err := db.Shards(ctx)
	must(t, err)
	there := uint64(0)
	for i, s := range after {
		if s.Store == 1 {
			there += s.Rows
			if s.Rows != before[i].Rows || s.Bytes != before[i].Bytes {
				t.Errorf("%v has %d rows, and had %d", s, s.Rows, before[i].Rows)
			}
		}
	}
	if there == 0 {
		t.Error("the failed store has no rows")
	}
}
