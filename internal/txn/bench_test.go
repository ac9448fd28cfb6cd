package txn

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
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
