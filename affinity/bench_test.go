package affinity_test

import (
	"testing"

	"github.com/cleavekv/cleave/affinity"
	"github.com/cleavekv/cleave/hash"
)

// Run with: go test -run '^$' -bench . ./affinity
func BenchmarkKey(b *testing.B) {
	space := must(affinity.NewSpace(affinity.Config[string]{
		Shards: []affinity.Declaration{affinity.Declare[East](0), affinity.Declare[West](1)},
		Hash:   hash.XXH3String,
	}))
	east, west := must(affinity.HomeOf[East](space)), must(affinity.HomeOf[West](space))
	rows := must(affinity.NewShard[int](east))
	alice := must(east.Locate("alice"))
	bridge := must(affinity.NewBridge(east, west, "benchmark", "to be timed"))
	sw := must(affinity.NewSwitch(space,
		affinity.On(east, func(affinity.Key[East, string], int) (int, error) { return 0, nil }),
		affinity.On(west, func(affinity.Key[West, string], int) (int, error) { return 1, nil })))
	if err := rows.Store(alice, 1); err != nil {
		b.Fatal(err)
	}
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"hash", func() error { sink += hash.XXH3String("alice").Uint64(); return nil }},
		{"locate", func() error { _, err := east.Locate("alice"); return err }},
		{"switch", func() error { _, err := sw.Do("alice", 1); return err }},
		{"cross", func() error { _, err := bridge.Cross(alice); return err }},
		{"load", func() error { _, err := rows.Load(alice); return err }},
		{"store", func() error { return rows.Store(alice, 2) }},
	} {
		b.Run("op="+op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := op.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var sink uint64
