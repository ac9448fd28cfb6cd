package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Dead is a message that was set aside because it was delivered too often.
type Dead struct {
	Key, Body []byte
	Published time.Time

	row []byte // its key in the keyspace
}

// Dead returns up to max messages that were set aside, 1000 at the most, the oldest of each
// shard first. To see more, Revive or Bury some.
func (q *Queue) Dead(ctx context.Context, max int) (list []Dead, err error) {
	for item, err := range q.c.ks.All(ctx, cleave.ScanOptions{Prefix: deadKeys(q.c.name), Limit: clampMax(max)}) {
		if err != nil {
			return nil, err
		}
		d, err := deadOf(item)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// deadOf reads the row of a message that was set aside.
func deadOf(item cleave.Item) (Dead, error) {
	t, err := key.Decode(item.Key)
	if err != nil || len(t) != deadElements {
		return Dead{}, fmt.Errorf("%w: key %q is not that of a dead message", ErrDamaged, item.Key)
	}
	h, body, err := parseMessage(item.Value)
	of, _ := t[deadElements-1].(string)
	return Dead{Key: keyOr(of), Body: body, Published: time.UnixMilli(h.TimeMS), row: item.Key}, err
}

// Revive publishes messages again that were set aside, behind all others, each at once with
// its removal from there. One that is gone meanwhile is left out.
func (q *Queue) Revive(ctx context.Context, dead ...Dead) error {
	if err := checkDead(dead); err != nil {
		return err
	}
	for _, d := range dead {
		err := q.c.publish(ctx, []*Message{{Key: d.Key, Body: d.Body}}, func(tx *cleave.Txn) (bool, error) {
			n, err := tx.Delete(q.c.ks, d.row)
			return n > 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Bury removes messages for good that were set aside.
func (q *Queue) Bury(ctx context.Context, dead ...Dead) error {
	if err := checkDead(dead); err != nil {
		return err
	}
	for _, d := range dead {
		if _, err := q.c.ks.Delete(ctx, d.row); err != nil {
			return fmt.Errorf("bury: %w", err)
		}
	}
	return nil
}

// checkDead refuses what has no row.
func checkDead(list []Dead) error {
	for _, d := range list {
		if d.row == nil {
			return fmt.Errorf("%w: queue: a Dead that Queue.Dead has not returned: use one of those", cleave.ErrOptions)
		}
	}
	return nil
}
