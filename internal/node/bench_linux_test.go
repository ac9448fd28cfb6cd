package node

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// pipelineNode is a node that executes pipelines of one size.
type pipelineNode struct {
	node      *Node
	positions []partition.Position
	value     []byte
	many      group.Pipeline
	next      int
}

// benchKeys is how many keys there are: their rows do not fit into the processor's caches.
const benchKeys = 200_000

func openPipelineNode(b *testing.B, groups int) *pipelineNode {
	b.Helper()
	n, err := Open(Options{
		Dir: b.TempDir(), Groups: groups, Durability: wal.Never,
		Store: store.Options{CacheBytes: 256 << 20},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(ctx) })
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		b.Fatal(err)
	}
	p := &pipelineNode{node: n, value: make([]byte, 64)}
	for i := range benchKeys {
		p.positions = append(p.positions, k.AppendPosition(nil, fmt.Appendf(nil, "key:%012d", i)))
	}
	for range benchKeys / 100 {
		p.writePipeline(b, 100)
	}
	return p
}

// writePipeline writes so many keys in one pipeline.
func (p *pipelineNode) writePipeline(b *testing.B, depth int) {
	p.many.Reset()
	sets := make([]command.Set, depth)
	for i := range sets {
		at := p.positions[p.next]
		p.next = (p.next + 7919) % benchKeys
		sets[i] = command.Set{Key: at, Value: p.value}
		p.many.Add(p.node.GroupHostAt(at).Group, group.Request{Command: &sets[i], Key: at, NonBlocking: true}, 1)
	}
	p.many.Execute()
	if _, err := p.many.Reply(depth - 1); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPipeline is the processor time of a request in a pipeline whose requests are spread over the
// groups of one store, by how many groups that has: without what the store does in the background, which is
// the same. They take turns, so that the moods of the machine are the same for all: compare the metrics of
// one line. Each is the median of the turns.
func BenchmarkPipeline(b *testing.B) {
	counts := []int{1, 4, 16}
	nodes := make([]*pipelineNode, len(counts))
	for i, n := range counts {
		nodes[i] = openPipelineNode(b, n)
	}
	for _, depth := range []int{1, 16, 64, 800} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			runtime.LockOSThread() // a benchmark has a goroutine of its own
			defer runtime.UnlockOSThread()
			const turn = 800 // requests, about a millisecond
			used := make([][]time.Duration, len(counts))
			for b.Loop() {
				for i, p := range nodes {
					before := threadTime(b)
					for range turn / depth {
						p.writePipeline(b, depth)
					}
					used[i] = append(used[i], threadTime(b)-before)
				}
			}
			for i, n := range counts {
				slices.Sort(used[i])
				median := used[i][len(used[i])/2]
				b.ReportMetric(float64(median.Nanoseconds())/turn, fmt.Sprintf("cpu-ns/request-of-%d", n))
				b.ReportMetric(float64(median)/float64(used[0][len(used[0])/2]), fmt.Sprintf("x-of-%d", n))
			}
		})
	}
}

// threadTime is the processor time that the thread has used.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
