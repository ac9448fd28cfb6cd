package group

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// emptyDisk is a log and a state that keep nothing, so that a benchmark measures the group.
type emptyDisk struct{}

func (emptyDisk) Commit(bool, []byte) error               { return nil }
func (emptyDisk) CommitJoint(bool, []JointEntry) error    { return nil }
func (emptyDisk) Sync() error                             { return nil }
func (emptyDisk) ReadBarrier(context.Context) error       { return nil }
func (emptyDisk) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }
func (emptyDisk) Scan(_, _ []byte, _ bool, _ func(key, value []byte) bool) error {
	return nil
}

// openBenchGroups opens groups of one log, each of which has a letter.
func openBenchGroups(b *testing.B, n int) (groups []*Group) {
	b.Helper()
	joints := NewJointQueue()
	for i := range n {
		g, err := Open(emptyDisk{}, emptyDisk{}, Options{ID: partition.GroupID(i + 1), JointQueue: joints})
		if err != nil {
			b.Fatal(err)
		}
		mustDo(b, g, &ownership.ChangeOwnership{Become: []ownership.Range{servingRange(groupLetter(i), groupLetter(i+1), 1)}})
		groups = append(groups, g)
	}
	return groups
}

// BenchmarkExecute is what a request costs that has a batch for itself.
func BenchmarkExecute(b *testing.B) {
	g := openBenchGroups(b, 1)[0]
	for name, c := range map[string]command.Command{
		"set": newSet("a", "value"), "add": &command.Add{Key: positionOf("a"), Delta: 1}, "get": &command.Get{Key: positionOf("a")},
	} {
		b.Run("do="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Execute(context.Background(), Request{Command: c, Key: positionOf("a")}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPipeline is what a pipeline of 64 requests costs, by how many groups they are for.
func BenchmarkPipeline(b *testing.B) {
	for _, n := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("groups=%d", n), func(b *testing.B) {
			groups := openBenchGroups(b, n)
			var keys []partition.Position
			var sets []command.Command
			for i := range 64 {
				k := groupLetter(i%n) + fmt.Sprint(i)
				keys, sets = append(keys, positionOf(k)), append(sets, newSet(k, "value"))
			}
			var m Pipeline
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				for i := range keys {
					m.Add(groups[i%n], Request{Command: sets[i], Key: keys[i], NonBlocking: true}, uint64(i%4+1))
				}
				m.Execute()
				if _, err := m.Reply(63); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkExecuteJoint is what a request of several groups costs that has a batch for itself.
func BenchmarkExecuteJoint(b *testing.B) {
	for _, n := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("groups=%d", n), func(b *testing.B) {
			var pieces []SubRequest
			for i, g := range openBenchGroups(b, n) {
				pieces = append(pieces, SubRequest{g, Request{Command: newSet(groupLetter(i), "value"), Key: positionOf(groupLetter(i))}})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ExecuteJoint(context.Background(), pieces); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
