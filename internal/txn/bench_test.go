package txn

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// The processor's side of a transaction of one key in one group, without log and
// store: what a Commit takes, what a Prepare and a Resolve take.
func BenchmarkOneKey(b *testing.B) {
	read := []command.Read{{Key: at("a")}}
	for _, others := range []int{0, 10_000} {
		p := alone()
		for i := range others {
			p.locks.Add(Lock{Txn: ID{9}, Start: at(fmt.Sprintf("x%06d", i))})
		}
		run := func(c command.Command) {
			p.env.Begin(effect.Header{ClockMS: p.clock}, 1)
			p.locks.Begin()
			if r := p.env.Do(c); r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		b.Run(fmt.Sprintf("way=commit/locks=%d", others), func(b *testing.B) {
			c := &command.Commit{Reads: read, Writes: command.Batch{Commands: []command.Command{set("a", "1")}}}
			for b.Loop() {
				run(c)
			}
		})
		b.Run(fmt.Sprintf("way=prepare+resolve/locks=%d", others), func(b *testing.B) {
			c, n := prepare(1, set("a", "1")), uint64(0)
			c.Part.Reads = read
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
			lock := Lock{Txn: ID{1, byte(i % 100)}, Start: at(fmt.Sprintf("x%06d", i*2)), Write: i%3 == 0}
			if i%10 == 9 {
				lock.Write, lock.Range, lock.End = false, true, at(fmt.Sprintf("x%06d", i*2+9))
			}
			locks.Add(lock)
		}
		for i := range keys {
			keys[i] = at(fmt.Sprintf("x%06d", i*7919%(2*n)))
		}
		locks.Begin()
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
		run("key", func(p partition.Position) { count(locks.Key(ID{}, p, true)) })
		run("span", func(p partition.Position) { count(locks.Span(ID{}, p, append(p[:len(p):len(p)], 0xff))) })
		run("judge", func(p partition.Position) { found += int(locks.JudgeMS(p, 1)) })
		run("add+remove", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.Remove(ID{9}, p, false)
			locks.Begin()
		})
		run("add+rewind", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.Rewind(0)
		})
		behind := NewLocks()
		for _, l := range locks.All() {
			behind.Add(*l)
		}
		behind.Begin()
		run("follow", func(p partition.Position) {
			locks.Add(Lock{Txn: ID{9}, Start: p, Write: true})
			locks.Remove(ID{9}, p, false)
			behind.Follow(locks)
			locks.Begin()
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
			key := KeySpan(at("a"))
			for b.Loop() {
				b.StopTimer()
				h := new(Holds)
				h.Ask(ID{1}, []Claim{{Span: key, Write: true}}, 1)
				for i := range n {
					id := ID{2}
					binary.BigEndian.PutUint64(id[1:], uint64(i))
					h.queue = append(h.queue, hold{id: id, claims: []Claim{{Span: key, Write: true, Plain: true}}, plain: true})
				}
				b.StartTimer()
				if got := len(h.Release(ID{1})); got != n {
					b.Fatalf("%d of %d go on", got, n)
				}
			}
		})
	}
}
