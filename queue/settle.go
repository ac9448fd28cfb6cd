package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// LostError names the deliveries that were lost. It matches ErrLost.
type LostError struct{ Lost []*Delivery }

// Error says how many.
func (e *LostError) Error() string {
	return fmt.Sprintf("%v: %d of the deliveries belong to others by now, or are done already", ErrLost, len(e.Lost))
}

// Is tells that it is an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Ack says that messages are done: they are never delivered again. Those whose lease was
// lost to another are left to that one, and named by a LostError; the rest are done. After
// a cleave.ErrUnknown some may be done: those are named as lost by an Ack of all of them.
func (q *Queue) Ack(ctx context.Context, deliveries ...*Delivery) error {
	return q.settle(ctx, deliveries, q.done)
}

// AckTx is Ack as a part of a transaction, so that what was made of the messages is
// written if and only if they were still the caller's. If one was lost, it changes nothing
// and returns the error: return it from the transaction too.
func (q *Queue) AckTx(tx *cleave.Txn, deliveries ...*Delivery) error {
	if err := q.own(deliveries); err != nil {
		return err
	}
	lost, err := q.each(tx, deliveries, func(*cleave.Txn, *Delivery, lanes.Lease) error { return nil })
	if err != nil || lost != nil {
		return lostOr(lost, err)
	}
	_, err = q.each(tx, deliveries, q.done)
	return err
}

func (q *Queue) done(tx *cleave.Txn, d *Delivery, _ lanes.Lease) error {
	p := placeOf(q.c.name, d.bucket)
	_, err := tx.Delete(q.c.ks, p.message(d.row), p.lease(d.row.Seq))
	return err
}

// Nack gives messages back: others get them after a delay. They count as delivered.
func (q *Queue) Nack(ctx context.Context, delay time.Duration, deliveries ...*Delivery) error {
	if delay < 0 {
		return fmt.Errorf("%w: queue: a delay of %v: use none, or a positive one", cleave.ErrOptions, delay)
	}
	return q.settle(ctx, deliveries, func(tx *cleave.Txn, d *Delivery, l lanes.Lease) error {
		return q.lease(tx, d, lanes.Lease{Deliveries: l.Deliveries, UntilMS: q.c.nowMS() + delay.Milliseconds()})
	})
}

// Extend makes deliveries the caller's for a time from now on.
func (q *Queue) Extend(ctx context.Context, lease time.Duration, deliveries ...*Delivery) error {
	if lease < time.Millisecond {
		return fmt.Errorf("%w: queue: a lease of %v: use at least 1ms", cleave.ErrOptions, lease)
	}
	return q.settle(ctx, deliveries, func(tx *cleave.Txn, d *Delivery, l lanes.Lease) error {
		l.UntilMS = q.c.nowMS() + lease.Milliseconds()
		return q.lease(tx, d, l)
	})
}

func (q *Queue) lease(tx *cleave.Txn, d *Delivery, l lanes.Lease) error {
	return tx.Set(q.c.ks, placeOf(q.c.name, d.bucket).lease(d.row.Seq), l.Append(nil))
}

// settle does something to those deliveries that are still the caller's, bucket by
// bucket, so that each transaction is of one shard. If it fails behind some that are done,
// the error is a cleave.ErrUnknown.
func (q *Queue) settle(ctx context.Context, deliveries []*Delivery, do func(*cleave.Txn, *Delivery, lanes.Lease) error) error {
	if err := q.own(deliveries); err != nil {
		return err
	}
	var lost []*Delivery
	done := 0
	for len(deliveries) > 0 {
		var these, rest []*Delivery
		for _, d := range deliveries {
			if d.bucket == deliveries[0].bucket && len(these) < maxClaim {
				these = append(these, d)
			} else {
				rest = append(rest, d)
			}
		}
		var gone []*Delivery
		err := q.c.db.Update(ctx, func(tx *cleave.Txn) (err error) {
			gone, err = q.each(tx, these, do)
			return err
		})
		if err != nil && done > 0 && !errors.Is(err, cleave.ErrUnknown) {
			err = fmt.Errorf("%w: %d of the deliveries are done: %w", cleave.ErrUnknown, done, err)
		}
		if err != nil {
			return err
		}
		done += len(these) - len(gone)
		lost, deliveries = append(lost, gone...), rest
	}
	return lostOr(lost, nil)
}

// own refuses deliveries of other queues: they were not lost.
func (q *Queue) own(deliveries []*Delivery) error {
	for _, d := range deliveries {
		switch {
		case d.of == nil:
			return fmt.Errorf("%w: queue: a Delivery that no Receive has returned", cleave.ErrOptions)
		case d.of.name != q.c.name || d.of.ks.Name() != q.c.ks.Name() || d.of.db != q.c.db:
			return fmt.Errorf("%w: queue: a Delivery of %s, not of %s: hand it to the queue that it is of", cleave.ErrOptions, d.of.name, q.c.name)
		}
	}
	return nil
}

func lostOr(lost []*Delivery, err error) error {
	if err == nil && len(lost) > 0 {
		return &LostError{lost}
	}
	return err
}

// each does something to those that are still the caller's, and returns the others.
func (q *Queue) each(tx *cleave.Txn, deliveries []*Delivery, do func(*cleave.Txn, *Delivery, lanes.Lease) error) (lost []*Delivery, err error) {
	keys := make([][]byte, len(deliveries))
	for i, d := range deliveries {
		keys[i] = placeOf(q.c.name, d.bucket).lease(d.row.Seq)
	}
	values, err := tx.GetMany(q.c.ks, keys...)
	if err != nil {
		return nil, err
	}
	for i, d := range deliveries {
		l, err := parseLease(values[i])
		if err != nil {
			return nil, err
		}
		if !l.Mine(d.token) {
			lost = append(lost, d)
			continue
		}
		if err := do(tx, d, l); err != nil {
			return nil, err
		}
	}
	return lost, nil
}
