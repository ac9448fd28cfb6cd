package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/plant"
)

// claimed is what came of a look at a bucket.
type claimed struct {
	got     []*Delivery
	wakeMS  int64
	drained bool
}

// claim hands out messages of a bucket. It looks for those that may be handed out without
// a transaction, and then claims them in one, which reads their rows again. That is enough
// for the order of keys: a message that was the oldest of its key stays so, because numbers
// ascend in the order of commits.
func (q *Queue) claim(ctx context.Context, b lanes.Bucket, most int) (out claimed, err error) {
	p, h := placeOf(q.c.name, b), q.headOf(b)
	h.turn.Lock()
	defer h.turn.Unlock()
	if err := q.load(ctx, p, h); err != nil {
		return out, err
	}
	for {
		pick, drained, err := q.look(ctx, p, h, most)
		switch {
		case err != nil:
			return out, err
		case drained:
			done, err := q.c.drained(ctx, p)
			return claimed{drained: done}, err
		case len(pick.Picked) == 0:
			return claimed{wakeMS: pick.WakeMS}, nil
		}
		got, err := q.take(ctx, p, pick.Picked)
		if err != nil || len(got) > 0 {
			return claimed{got: got}, err
		}
		// Others were faster, or all of them are dead now: look again.
	}
}

// load reads where the bucket begins, so that what was deleted long ago is not looked
// through again.
func (q *Queue) load(ctx context.Context, p place, h *head) error {
	if h.loaded {
		return nil
	}
	kept, err := parseHead(q.c.ks.Get(ctx, p.head()))
	if err != nil {
		return err
	}
	h.loaded, h.kept, h.from = true, kept, max(h.from, kept)
	return nil
}

// lookFar bounds how many messages one look visits: behind so many that are out, others
// wait until some come back.
const lookFar = 1 << 14

// look chooses messages, and tells whether the bucket is closed and has none.
func (q *Queue) look(ctx context.Context, p place, h *head, most int) (pick lanes.Chooser, drained bool, err error) {
	pick = lanes.Chooser{NowMS: q.c.nowMS(), Most: most}
	t, err := parseTail(q.c.ks.Get(ctx, p.tail())) // before it looks: all below Next are visible
	if err != nil {
		return pick, false, err
	}
	leases, err := q.leases(ctx, p, h.from)
	if err != nil {
		return pick, false, err
	}
	rows, first := 0, t.Next
	err = q.c.scan(ctx, p, kindMessage, h.from, true, func(r lanes.Row, _ []byte) bool {
		if rows++; rows == 1 {
			first = r.Seq
		}
		return pick.Show(r, leases[r.Seq]) && rows < lookFar
	})
	if err != nil {
		return pick, false, err
	}
	// What is below the first that is there is gone for good, and so is all that was
	// there if nothing is.
	return pick, rows == 0 && t.Closed, q.advance(ctx, p, h, first)
}

// leases are those of a bucket.
func (q *Queue) leases(ctx context.Context, p place, from uint64) (map[uint64]lanes.Lease, error) {
	leases := map[uint64]lanes.Lease{}
	var bad error
	err := q.c.scan(ctx, p, kindLease, from, false, func(r lanes.Row, value []byte) bool {
		leases[r.Seq], bad = parseLease(value)
		return bad == nil
	})
	return leases, errors.Join(err, bad)
}

// keepEvery is after how many messages the head is stored.
const keepEvery = 1024

// advance moves the head. What is stored may be old: it is only where to begin.
func (q *Queue) advance(ctx context.Context, p place, h *head, to uint64) error {
	h.from = max(h.from, to)
	if plant.Bug("queue-head-runs-ahead") {
		h.from++
	}
	if h.from < h.kept+keepEvery {
		return nil
	}
	// What is seen to be gone may be so by a transaction whose decision is on another store, and
	// which a crash takes back. One that reads the stretch itself waits until that cannot be.
	stored := false
	err := q.c.db.Update(ctx, func(tx *cleave.Txn) (err error) {
		stored, err = q.c.empty(tx, p.numbered(kindMessage, h.kept), p.numbered(kindMessage, h.from))
		if err != nil || !stored {
			return err
		}
		return tx.Set(q.c.ks, p.head(), headValue(h.from))
	})
	if err == nil && stored {
		h.kept = h.from
	}
	return err
}

// take claims messages in one transaction, those that are still there and free. The ones
// that were handed out too often are set aside.
func (q *Queue) take(ctx context.Context, p place, rows []lanes.Row) (got []*Delivery, err error) {
	keys := make([][]byte, 0, 2*len(rows))
	for _, r := range rows {
		keys = append(keys, p.message(r), p.lease(r.Seq))
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
			if message == nil || l.Held(now) && !plant.Bug("queue-claim-unchecked") {
				continue
			}
			d, err := q.hand(tx, p, r, message, l, now, token)
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

// hand hands out one message, or sets it aside.
func (q *Queue) hand(tx *cleave.Txn, p place, r lanes.Row, message []byte, l lanes.Lease, now int64, token uint64) (*Delivery, error) {
	next, dead := l.Claim(now, q.c.opts.Lease.Milliseconds(), token, uint64(q.c.opts.MaxDeliveries))
	if dead {
		if err := tx.Set(q.c.ks, deadKey(q.c.name, p.Bucket, r), message); err != nil {
			return nil, err
		}
		_, err := tx.Delete(q.c.ks, p.message(r), p.lease(r.Seq))
		return nil, err
	}
	h, body, err := parseMessage(message)
	if err != nil {
		return nil, err
	}
	d := &Delivery{
		Key: keyOr(r.Key), Body: body, Published: time.UnixMilli(h.TimeMS), Attempt: int(next.Deliveries),
		of: q.c, bucket: p.Bucket, row: r, token: token,
	}
	return d, tx.Set(q.c.ks, p.lease(r.Seq), next.Append(nil))
}
