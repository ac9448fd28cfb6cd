package patterncells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/queue"
)

const (
	queueProducers = 16
	queueConsumers = 4
	queueBody      = 100
)

// queueCells show what a message costs, published and consumed, by how many shards there
// are and how many messages go together. There is no peer: they are set against each other.
func queueCells(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		if !queueCellsOf(cfg, d, yield) {
			return false
		}
	}
	return true
}

func queueCellsOf(cfg Config, d cleave.Durability, yield func(duel.Cell) bool) bool {
	var tables []*queueTable
	for _, shards := range []int{1, 4, 16} {
		t, err := openQueue(cfg, d, shards)
		if err != nil {
			return yield(duel.Cell{ID: fmt.Sprintf("patterns/queue-%v", d), Title: "not run",
				Contestants: []duel.Contestant{{Name: "queue", Ours: true, Work: func(int) { panic(err) }}}})
		}
		defer t.close()
		tables = append(tables, t)
	}
	for _, batch := range []int{1, 10, 100} {
		cell := duel.Cell{
			ID: fmt.Sprintf("patterns/queue-%v-batch-%d", d, batch),
			Title: fmt.Sprintf("a message of %d bytes, published, received and acknowledged, durability %v, %d producers and %d consumers, %d at a time",
				queueBody, d, queueProducers, queueConsumers, batch),
			Metrics: duel.Costs,
			Rounds:  7,
			Ops:     queueProducers * max(batch, 16) * max(1, cfg.Adds/32),
		}
		for _, t := range tables {
			name := fmt.Sprintf("%d shards", t.shards)
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: true, Work: func(ops int) { t.work(ops, batch) }})
		}
		if !yield(cell) {
			return false
		}
	}
	return true
}

type queueTable struct {
	dir    string
	shards int
	db     *cleave.DB
	q      *queue.Queue
}

// openQueue opens a queue whose shards are spread over four groups.
func openQueue(cfg Config, d cleave.Durability, shards int) (t *queueTable, err error) {
	ctx := context.Background()
	t = &queueTable{shards: shards}
	if t.dir, err = os.MkdirTemp(cfg.Dir, "queue"); err != nil {
		return nil, err
	}
	if t.db, err = cleave.Open(t.dir, cleave.Options{Durability: d, Groups: 4}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	ks, err := t.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	if err == nil && shards > 1 {
		err = t.spread(ctx, ks)
	}
	if err == nil {
		t.q, err = queue.Open(ctx, t.db, ks, "q", queue.Options{Shards: shards})
	}
	if err != nil {
		return nil, errors.Join(err, t.db.Close(), os.RemoveAll(t.dir))
	}
	return t, nil
}

// spread gives a piece of the queue to each group.
func (t *queueTable) spread(ctx context.Context, ks *cleave.Keyspace) error {
	wait := func(c cleave.MapChange) error {
		job, err := t.db.Start(ctx, c)
		if err == nil {
			_, err = job.Wait(ctx)
		}
		if errors.Is(err, cleave.ErrNoChange) {
			err = nil
		}
		return err
	}
	if err := wait(cleave.SplitAtKeys(ks, queue.SplitKeys("q", 4)...)); err != nil {
		return err
	}
	shards, err := t.db.Shards(ctx)
	if err != nil {
		return err
	}
	groups := t.db.Groups()
	for i, s := range shards[len(shards)-4:] {
		if s.Group == groups[i].ID {
			continue
		}
		if err := wait(cleave.Move{Shard: s.ID, To: groups[i].ID}); err != nil {
			return err
		}
	}
	return nil
}

func (t *queueTable) close() {
	_ = t.q.Close()
	_ = t.db.Close()
	_ = os.RemoveAll(t.dir)
}

// work publishes and consumes so many messages.
func (t *queueTable) work(ops, batch int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(ops))
	var consumers sync.WaitGroup
	for range queueConsumers {
		consumers.Go(func() {
			for ctx.Err() == nil {
				got, err := t.q.Receive(ctx, batch)
				if err != nil {
					return // all are done
				}
				if err := t.q.Ack(context.Background(), got...); err != nil {
					panic(err)
				}
				if left.Add(-int64(len(got))) <= 0 {
					cancel()
				}
			}
		})
	}
	body := make([]byte, queueBody)
	workload.Parallel(queueProducers, ops, func(_, n int) {
		list := make([]queue.Message, 0, batch)
		for ; n > 0; n -= len(list) {
			list = list[:0]
			for range min(n, batch) {
				list = append(list, queue.Message{Body: body})
			}
			if err := t.q.Publish(context.Background(), list...); err != nil {
				panic(err)
			}
		}
	})
	consumers.Wait()
}
