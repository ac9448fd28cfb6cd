package shardmap

import (
	"runtime"
	"testing"
)

func TestOptions_DefaultHasAtLeastFourShardsPerProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 16, 17, 100, 300} {
		runtime.GOMAXPROCS(processors)
		m, err := New[int, int](Options{})
		if err != nil {
			t.Fatal(err)
		}
		var zero Map[int, int]
		for name, n := range map[string]int{"New": len(m.Stats().Shards), "the zero value": len(zero.Stats().Shards)} {
			if n < 4*processors || n < minDefaultShards {
				t.Errorf("%s has %d shards with %d processors, want at least %d", name, n, processors, max(4*processors, minDefaultShards))
			}
		}
	}
}
