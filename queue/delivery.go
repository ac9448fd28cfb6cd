package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/key"
)

// leaseResult is what came of a look at a bucket.
type leaseResult struct {
	deliveries []*Delivery
	wakeMS     int64
	drained    bool
}

// leaseMessages hands out messages of a bucket. It looks for those that may be handed out without
// a transaction, and then claims them in one, which reads their rows again. That is enough
// for the order of keys: a message that was the oldest of its key stays so, because numbers
// ascend in the order of commits.
func (q *Queue) leaseMessages(ctx context.Context, b delivery.Bucket, most int) (out leaseResult, err error) {
	p, h := newBucketKeys(q.c.name, b), q.getHead(b)
	h.leaseMu.Lock()
	defer h.leaseMu.Unlock()
	if err := q.loadHead(ctx, p, h); err != nil {
		return out, err
	}
	for {
		pick, drained, err := q.selectMessages(ctx, p, h, most)
		switch {
		case err != nil:
			return out, err
		case drained:
			done, err := q.c.removeDrainedBucket(ctx, p)
			return leaseResult{drained: done}, err
		case len(pick.Selected) == 0:
			return leaseResult{wakeMS: pick.WakeMS}, nil
		}
		got, err := q.leaseInTxn(ctx, p, pick.Selected)
		if err != nil || len(got) > 0 {
			return leaseResult{deliveries: got}, err
		}
		// Others were faster, or all of them are dead now: look again.
	}
}

// loadHead reads where the bucket begins, so that what was deleted long ago is not looked
// through again.
func (q *Queue) loadHead(ctx context.Context, p bucketKeys, h *bucketHead) error {
	if h.loaded {
		return nil
	}
	kept, err := parseHead(q.c.ks.Get(ctx, p.headKey()))
	if err != nil {
		return err
	}
	h.loaded, h.savedSeq, h.firstSeq = true, kept, max(h.firstSeq, kept)
	return nil
}

// maxVisitedMessages bounds how many messages one look visits: behind so many that are out, others
// wait until some come back.
const maxVisitedMessages = 1 << 14

// selectMessages chooses messages, and reports whether the bucket is closed and has none.
func (q *Queue) selectMessages(ctx context.Context, p bucketKeys, h *bucketHead, most int) (pick delivery.Selector, drained bool, err error) {
	pick = delivery.Selector{NowMS: q.c.nowMS(), Limit: most}
	t, err := parseTail(q.c.ks.Get(ctx, p.tailKey())) // before it looks: all below Next are visible
	if err != nil {
		return pick, false, err
	}
	leases, err := q.loadLeases(ctx, p, h.firstSeq)
	if err != nil {
		return pick, false, err
	}
	rows, first := 0, t.NextSeq
	err = q.c.scanBucket(ctx, p, kindMessage, h.firstSeq, true, func(r delivery.MessageRef, _ []byte) bool {
		if rows++; rows == 1 {
			first = r.Seq
		}
		return pick.Offer(r, leases[r.Seq]) && rows < maxVisitedMessages
	})
	if err != nil {
		return pick, false, err
	}
	// What is below the first that is there is gone for good, and so is all that was
	// there if nothing is.
	return pick, rows == 0 && t.Closed, q.advanceHead(ctx, p, h, first)
}

// loadLeases are those of a bucket.
func (q *Queue) loadLeases(ctx context.Context, p bucketKeys, from uint64) (map[uint64]delivery.Lease, error) {
	leases := map[uint64]delivery.Lease{}
	var bad error
	err := q.c.scanBucket(ctx, p, kindLease, from, false, func(r delivery.MessageRef, value []byte) bool {
		leases[r.Seq], bad = parseLease(value)
		return bad == nil
	})
	return leases, errors.Join(err, bad)
}

// messagesPerHeadSave is after how many messages the head is stored.
const messagesPerHeadSave = 1024

// advanceHead moves the head. What is stored may be old: it is only where to begin.
func (q *Queue) advanceHead(ctx context.Context, p bucketKeys, h *bucketHead, to uint64) error {
	h.firstSeq = max(h.firstSeq, to)
	if h.firstSeq < h.savedSeq+messagesPerHeadSave {
		return nil
	}
	// What is seen to be gone may be so by a transaction whose decision is on another store, and
	// which a crash takes back. One that reads the stretch itself waits until that cannot be.
	stored := false
	err := q.c.db.Update(ctx, func(tx *cleave.Txn) (err error) {
		stored, err = q.c.isEmptyRange(tx, p.seqKey(kindMessage, h.savedSeq), p.seqKey(kindMessage, h.firstSeq))
		if err != nil || !stored {
			return err
		}
		return tx.Set(q.c.ks, p.headKey(), encodeHead(h.firstSeq))
	})
	if err == nil && stored {
		h.savedSeq = h.firstSeq
	}
	return err
}

// leaseInTxn claims messages in one transaction, those that are still there and free. The ones
// that were handed out too often are set aside.
func (q *Queue) leaseInTxn(ctx context.Context, p bucketKeys, rows []delivery.MessageRef) (got []*Delivery, err error) {
	keys := make([][]byte, 0, 2*len(rows))
	for _, r := range rows {
		keys = append(keys, p.messageKey(r), p.leaseKey(r.Seq))
	}
	token := rand.Uint64() | 1
	err = q.c.db.Update(ctx, func(tx *cleave.Txn) error {
		got = got[:0]
		values, err := tx.GetMany(q.c.ks, keys...)
		if err != nil {
			return err
		}
		now := q.c.nowMS()
		for i, r := range rows {
			message, lease := values[2*i], values[2*i+1]
			l, err := parseLease(lease)
			if err != nil {
				return err
			}
			if message == nil || l.IsHidden(now) {
				continue
			}
			d, err := q.deliverOrSetAside(tx, p, r, message, l, now, token)
			if err != nil {
				return err
			}
			if d != nil {
				got = append(got, d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// deliverOrSetAside hands out one message, or sets it aside.
func (q *Queue) deliverOrSetAside(tx *cleave.Txn, p bucketKeys, r delivery.MessageRef, message []byte, l delivery.Lease, now int64, token uint64) (*Delivery, error) {
	next, dead := l.Deliver(now, q.c.opts.Lease.Milliseconds(), token, uint64(q.c.opts.MaxDeliveries))
	if dead {
		if err := tx.Set(q.c.ks, deadKey(q.c.name, p.Bucket, r), message); err != nil {
			return nil, err
		}
		_, err := tx.Delete(q.c.ks, p.messageKey(r), p.leaseKey(r.Seq))
		return nil, err
	}
	h, body, err := parseMessage(message)
	if err != nil {
		return nil, err
	}
	d := &Delivery{
		Key: keyBytes(r.Key), Body: body, Published: time.UnixMilli(h.TimeMS), Attempt: int(next.Deliveries),
		core: q.c, bucket: p.Bucket, ref: r, token: token,
	}
	return d, tx.Set(q.c.ks, p.leaseKey(r.Seq), next.Append(nil))
}

// LostError names the deliveries that were lost. It matches ErrLost.
type LostError struct{ Lost []*Delivery }

// Error returns how many.
func (e *LostError) Error() string {
	return fmt.Sprintf("%v: %d of the deliveries belong to others by now, or are done already", ErrLost, len(e.Lost))
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Ack marks messages as done: they are never delivered again. Those whose lease was
// lost to another are left to that one, and named by a LostError; the rest are done. After
// a cleave.ErrUnknown some may be done: those are named as lost by an Ack of all of them.
func (q *Queue) Ack(ctx context.Context, deliveries ...*Delivery) error {
	return q.updateDeliveries(ctx, deliveries, q.deleteDelivered)
}

// AckTx is Ack as a part of a transaction, so that what was made of the messages is
// written if and only if they were still the caller's. If one was lost, it changes nothing
// and returns the error: return it from the transaction too.
func (q *Queue) AckTx(tx *cleave.Txn, deliveries ...*Delivery) error {
	if err := q.checkDeliveries(deliveries); err != nil {
		return err
	}
	lost, err := q.updateHeld(tx, deliveries, func(*cleave.Txn, *Delivery, delivery.Lease) error { return nil })
	if err != nil || lost != nil {
		return toLostError(lost, err)
	}
	_, err = q.updateHeld(tx, deliveries, q.deleteDelivered)
	return err
}

func (q *Queue) deleteDelivered(tx *cleave.Txn, d *Delivery, _ delivery.Lease) error {
	p := newBucketKeys(q.c.name, d.bucket)
	_, err := tx.Delete(q.c.ks, p.messageKey(d.ref), p.leaseKey(d.ref.Seq))
	return err
}

// Nack gives messages back: others get them after a delay. They count as delivered.
func (q *Queue) Nack(ctx context.Context, delay time.Duration, deliveries ...*Delivery) error {
	if delay < 0 {
		return fmt.Errorf("%w: queue: a delay of %v: use none, or a positive one", cleave.ErrOptions, delay)
	}
	return q.updateDeliveries(ctx, deliveries, func(tx *cleave.Txn, d *Delivery, l delivery.Lease) error {
		return q.putLease(tx, d, delivery.Lease{Deliveries: l.Deliveries, UntilMS: q.c.nowMS() + delay.Milliseconds()})
	})
}

// Extend makes deliveries the caller's for a time from now on.
func (q *Queue) Extend(ctx context.Context, lease time.Duration, deliveries ...*Delivery) error {
	if lease < time.Millisecond {
		return fmt.Errorf("%w: queue: a lease of %v: use at least 1ms", cleave.ErrOptions, lease)
	}
	return q.updateDeliveries(ctx, deliveries, func(tx *cleave.Txn, d *Delivery, l delivery.Lease) error {
		l.UntilMS = q.c.nowMS() + lease.Milliseconds()
		return q.putLease(tx, d, l)
	})
}

func (q *Queue) putLease(tx *cleave.Txn, d *Delivery, l delivery.Lease) error {
	return tx.Set(q.c.ks, newBucketKeys(q.c.name, d.bucket).leaseKey(d.ref.Seq), l.Append(nil))
}

// updateDeliveries does something to those deliveries that are still the caller's, bucket by
// bucket, so that each transaction is of one shard. If it fails behind some that are done,
// the error is a cleave.ErrUnknown.
func (q *Queue) updateDeliveries(ctx context.Context, deliveries []*Delivery, do func(*cleave.Txn, *Delivery, delivery.Lease) error) error {
	if err := q.checkDeliveries(deliveries); err != nil {
		return err
	}
	var lost []*Delivery
	done := 0
	for len(deliveries) > 0 {
		var these, rest []*Delivery
		for _, d := range deliveries {
			if d.bucket == deliveries[0].bucket && len(these) < maxReceiveMessages {
				these = append(these, d)
			} else {
				rest = append(rest, d)
			}
		}
		var gone []*Delivery
		err := q.c.db.Update(ctx, func(tx *cleave.Txn) (err error) {
			gone, err = q.updateHeld(tx, these, do)
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
	return toLostError(lost, nil)
}

// checkDeliveries refuses deliveries of other queues: they were not lost.
func (q *Queue) checkDeliveries(deliveries []*Delivery) error {
	for _, d := range deliveries {
		switch {
		case d.core == nil:
			return fmt.Errorf("%w: queue: a Delivery that no Receive has returned", cleave.ErrOptions)
		case d.core.name != q.c.name || d.core.ks.Name() != q.c.ks.Name() || d.core.db != q.c.db:
			return fmt.Errorf("%w: queue: a Delivery of %s, not of %s: hand it to the queue that it is of", cleave.ErrOptions, d.core.name, q.c.name)
		}
	}
	return nil
}

func toLostError(lost []*Delivery, err error) error {
	if err == nil && len(lost) > 0 {
		return &LostError{lost}
	}
	return err
}

// updateHeld does something to those that are still the caller's, and returns the others.
func (q *Queue) updateHeld(tx *cleave.Txn, deliveries []*Delivery, do func(*cleave.Txn, *Delivery, delivery.Lease) error) (lost []*Delivery, err error) {
	keys := make([][]byte, len(deliveries))
	for i, d := range deliveries {
		keys[i] = newBucketKeys(q.c.name, d.bucket).leaseKey(d.ref.Seq)
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
		if !l.IsOwnedBy(d.token) {
			lost = append(lost, d)
			continue
		}
		if err := do(tx, d, l); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

// Dead is a message that was set aside because it was delivered too often.
type Dead struct {
	Key, Body []byte
	Published time.Time

	rowKey []byte // its key in the keyspace
}

// Dead returns up to max messages that were set aside, 1000 at the most, the oldest of each
// shard first. To see more, Revive or Bury some.
func (q *Queue) Dead(ctx context.Context, max int) (list []Dead, err error) {
	for item, err := range q.c.ks.Scan(ctx, cleave.ScanOptions{Prefix: deadPrefix(q.c.name), Limit: clampReceive(max)}) {
		if err != nil {
			return nil, err
		}
		d, err := decodeDead(item)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// decodeDead reads the row of a message that was set aside.
func decodeDead(item cleave.Item) (Dead, error) {
	t, err := key.Decode(item.Key)
	if err != nil || len(t) != deadElements {
		return Dead{}, fmt.Errorf("%w: key %q is not that of a dead message", ErrDamaged, item.Key)
	}
	h, body, err := parseMessage(item.Value)
	of, _ := t[deadElements-1].(string)
	return Dead{Key: keyBytes(of), Body: body, Published: time.UnixMilli(h.TimeMS), rowKey: item.Key}, err
}

// Revive publishes messages again that were set aside, behind all others, each at once with
// its removal from there. One that is gone meanwhile is left out.
func (q *Queue) Revive(ctx context.Context, dead ...Dead) error {
	if err := checkDead(dead); err != nil {
		return err
	}
	for _, d := range dead {
		err := q.c.publishMessages(ctx, []*Message{{Key: d.Key, Body: d.Body}}, func(tx *cleave.Txn) (bool, error) {
			n, err := tx.Delete(q.c.ks, d.rowKey)
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
		if _, err := q.c.ks.Delete(ctx, d.rowKey); err != nil {
			return fmt.Errorf("bury: %w", err)
		}
	}
	return nil
}

// checkDead refuses what has no row.
func checkDead(list []Dead) error {
	for _, d := range list {
		if d.rowKey == nil {
			return fmt.Errorf("%w: queue: a Dead that Queue.Dead has not returned: use one of those", cleave.ErrOptions)
		}
	}
	return nil
}
