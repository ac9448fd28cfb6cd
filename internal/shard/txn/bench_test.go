package txn

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// The processor's side of a transaction of one key in one group, without log and
// store: what a Commit takes, what a Prepare and a Resolve take.
func BenchmarkOneKey(b *testing.B) {
	read := []command.Read{{Key: positionOf("a")}}
	for _, others := range []int{0, 10_000} {
		p := newLonePeer()
		for i := range others {
			p.locks.Add(Lock{Txn: ID{9}, Start: positionOf(fmt.Sprintf("x%06d", i))})
		}
		run := func(c command.Command) {
			p.env.Begin(effect.Header{ClockMS: p.clock}, 1)
			p.locks.BeginBatch()
			if r := p.env.Do(c); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		b.Run(fmt.Sprintf("way=commit/locks=%d", others), func(b *testing.B) {
			c := &command.Commit{Reads: read, Writes: command.Batch{Commands: []command.Command{newSet("a", "1")}}}
			for b.Loop() {
				run(c)
			}
		})
		b.Run(fmt.Sprintf("way=prepare+resolve/locks=%d", others), func(b *testing.B) {
			c, n := newPrepare(1, newSet("a", "1")), uint64(0)
			c.Participant.Reads = read
			c.Bind(p.site)
			resolve := &Resolve{DeadlineMS: c.DeadlineMS}
			resolve.Bind(p.site)
			for b.Loop() {
				n++
				binary.BigEndian.PutUint64(c.ID[:], n)
				resolve.ID = c.ID
				run(c)
				run(resolve)
			}
		})
	}
}

// What locks cost when there are many: those of a hundred transactions, a tenth of
// them on ranges.
func BenchmarkLocks(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		locks := NewLocks()
		keys := make([]partition.Position, 1024)
		for i := range n {
			lock := Lock{Txn: ID{1, byte(i % 100)}, Start: positionOf(fmt.Sprintf("x%06d", i*2)), Write: i%3 == 0}
			if i%10 == 9 {
				lock.Write, lock.Range, lock.End = false, true, positionOf(fmt.Sprintf("x%06d", i*2+9))
			}
			locks.Add(lock)
		}
		for i := range keys {
			keys[i] = positionOf(fmt.Sprintf("x%06d", i*7919%(2*n)))
		}
		locks.BeginBatch()
		run := func(what string, f func(p partition.Position)) {
			b.Run(fmt.Sprintf("do=%s/locks=%d", what, n), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					f(keys[i&1023])
				}
			})
		}
		found := 0
		count := func(l *Lock) {
			if l != nil {
				found++
			}
		}
		run("key", func(p partition.Position) { count(locks.FindKeyConflict(ID{}, p, true)) })
		run("span", func(p partition.Position) { count(locks.FindSpanConflict(ID{}, p, append(p[:len(p):len(p)], 0xff))) })
		run("judge", func(p partition.Position) { found += int(locks.ExpiryCheckMS(p, 1)) })
		run("add+remove", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.Remove(ID{9}, p, false)
			locks.BeginBatch()
		})
		run("add+rewind", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.RollbackTo(0)
		})
		behind := NewLocks()
		for _, l := range locks.ListAll() {
			behind.Add(*l)
		}
		behind.BeginBatch()
		run("follow", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.Remove(ID{9}, p, false)
			behind.ApplyChanges(locks)
			locks.BeginBatch()
		})
		if found == 0 {
			b.Fatal("nothing was found")
		}
	}
}

// What it takes to let plain writes go on that have waited for a transaction.
func BenchmarkHolds(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			key := KeySpan(positionOf("a"))
			for b.Loop() {
				b.StopTimer()
				h := new(ReservationQueue)
				h.Reserve(ID{1}, []ReservedSpan{{Span: key, Write: true}}, 1)
				for i := range n {
					id := ID{2}
					binary.BigEndian.PutUint64(id[1:], uint64(i))
					h.queue = append(h.queue, reservation{id: id, spans: []ReservedSpan{{Span: key, Write: true, Plain: true}}, plainOnly: true})
				}
				b.StartTimer()
				if got := len(h.Release(ID{1})); got != n {
					b.Fatalf("%d of %d go on", got, n)
				}
			}
		})
	}
}
