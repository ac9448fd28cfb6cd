package node

import (
	"encoding/binary"
	"testing"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// Many jobs that are cancelled while their drivers stand still, as during a backup, end
// for those who wait: no record is forgotten before its driver has seen it.
func TestJobsEndForWhoWaitsHoweverManyAreCancelled(t *testing.T) {
	n := open(t, small(1))
	defer n.Close(ctx)
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "r", Kind: partition.Range})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) partition.Position {
		return k.AppendPosition(nil, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	const jobs = keptJobs + 20
	var at []partition.Position
	for i := 1; i <= jobs; i++ {
		at = append(at, key(i*10))
	}
	wait(t, n, mover.Request{Kind: mover.Split, Shard: n.Map().Find(k.Span().Start).ID, In: &k.Keyspace, At: at})

	release, err := n.quieten(ctx) // what Backup does first
	if err != nil {
		t.Fatal(err)
	}
	var held []*Job
	for i := 1; i <= jobs; i++ {
		j, err := n.StartJob(ctx, mover.Request{Kind: mover.Split, Shard: n.Map().Find(key(i * 10)).ID, In: &k.Keyspace, At: []partition.Position{key(i*10 + 5)}})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, j)
	}
	for _, j := range held {
		if err := j.Control(ctx, func(j mover.Job, nowMS int64) (mover.Job, error) {
			next, _, err := mover.Cancel(j, nowMS)
			return next, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	release()
	for _, j := range held {
		if last, err := j.Wait(ctx); err != nil || !last.Phase.Final() {
			t.Fatalf("job %d is %v: %v", j.ID, last.Phase, err)
		}
	}
}
