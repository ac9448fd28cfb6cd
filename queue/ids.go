package queue

import (
	"fmt"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// This file says how old the id of a message may be, and for how long it is known. An id is
// taken from Remember before its time to Remember behind it. Its row is there for as long
// again: a message that was judged may wait for its commit, and clocks of groups differ.

// judge refuses messages with ids of which nobody knows any more, or not yet, whether they
// were published, and returns the time by which it did so. It comes before a message is put
// together with those of others, which are not to fail with it.
func (c *core) judge(messages []*Message) (now time.Time, err error) {
	for _, m := range messages {
		if m.ID == (cleave.RequestID{}) {
			continue
		}
		if now.IsZero() {
			now = c.db.NewRequestID().Time() // the clock of the store
		}
		age := now.Sub(m.ID.Time())
		if (age > c.opts.Remember || age < -c.opts.Remember) && !plant.Bug("queue-old-id-taken") {
			return now, fmt.Errorf("%w: queue: an id of %v, it is %v, the limit is %v either way: find out whether the message was published, and if not use a new id",
				cleave.ErrRequestOld, m.ID.Time().UTC(), now.UTC(), c.opts.Remember)
		}
	}
	return now, nil
}

// keepID is for how long an id that was judged is known, from the commit on.
func (o *Options) keepID(id cleave.RequestID, judged time.Time) time.Duration {
	return id.Time().Add(2 * o.Remember).Sub(judged)
}

// keepEpoch is for how long an epoch is known that takes no more messages: as long as the
// latest id that it can have, which is ahead of the clock by Remember.
func (o *Options) keepEpoch() time.Duration { return 3 * o.Remember }
