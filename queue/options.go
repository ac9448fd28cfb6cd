package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
)

// What can go wrong, besides the errors of package cleave.
var (
	// ErrLost means that a delivery is no longer its receiver's: the lease had run out,
	// and the message was given to another, acknowledged or set aside. Drop the work, or
	// let it be done twice.
	ErrLost = errors.New("queue: the lease was lost")
	// ErrMessage means that a message cannot be published: the text says why.
	ErrMessage = errors.New("queue: bad message")
	// ErrTrimmed means that a reader was so far behind that entries were trimmed before
	// it read them. Its next read goes on with the oldest that is left.
	ErrTrimmed = errors.New("queue: entries were trimmed before they were read")
	// ErrDamaged means that a row of the queue holds something that is not its own.
	ErrDamaged = errors.New("queue: damaged row")
	// ErrClosed means that the Queue or Log was closed.
	ErrClosed = errors.New("queue: closed")
)

// MaxShards is the most shards that a queue can have.
const MaxShards = delivery.Points

const (
	maxKeyBytes  = 1 << 10
	maxBodyBytes = 16 << 20
	maxNameBytes = 256

	maxRemember = 365 * 24 * time.Hour
)

// Options configure a queue or log. The zero value works.
type Options struct {
	// Shards is how many there are when the queue is made; later Resize changes it. More
	// of them let more groups work side by side. Default 4, at most MaxShards.
	Shards int
	// Lease is for how long a message is its receiver's. Default 30 s. At least 1 ms.
	Lease time.Duration
	// MaxDeliveries is how often a message is delivered before it is set aside. Default
	// 16. At least 1.
	MaxDeliveries int
	// Remember is for how long a Message.ID is good for a retry, by the clock of the
	// store: older ones, and those that are as much ahead, are refused. Default 10 minutes.
	// From 1 s to a year. As with cleave.Options.RequestTTL, raise it while nothing is
	// retried that is older than the shorter one.
	Remember time.Duration
	// Poll is about how long a receiver waits before it looks by itself, should the feed
	// fail. It is drawn from half to one and a half of it. Default 5 s. At least 1 ms.
	Poll time.Duration
	// Now is the clock of leases, delays and times. Hand in that of the store. Default
	// time.Now.
	Now func() time.Time
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	fill := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	fill(&o.Lease, 30*time.Second)
	fill(&o.Remember, 10*time.Minute)
	fill(&o.Poll, 5*time.Second)
	if o.Shards == 0 {
		o.Shards = 4
	}
	if o.MaxDeliveries == 0 {
		o.MaxDeliveries = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: queue: "+format, append([]any{cleave.ErrOptions}, args...)...))
		}
	}
	refuse(o.Shards < 1 || o.Shards > MaxShards, "Shards is %d: use 1 to %d", o.Shards, MaxShards)
	refuse(o.Lease < time.Millisecond, "Lease is %v: use at least 1ms", o.Lease)
	refuse(o.MaxDeliveries < 1, "MaxDeliveries is %d: use at least 1", o.MaxDeliveries)
	refuse(o.Remember < time.Second || o.Remember > maxRemember, "Remember is %v: use 1s to %v", o.Remember, maxRemember)
	refuse(o.Poll < time.Millisecond, "Poll is %v: use at least 1ms", o.Poll)
	return o, errors.Join(errs...)
}

func checkKeyspaceAndName(ks *cleave.Keyspace, name string) error {
	switch {
	case ks.Options().Kind != cleave.Range:
		return fmt.Errorf("%w: queue: keyspace %s is of kind Hash: use one of kind Range, which keeps the order", cleave.ErrOptions, ks.Name())
	case name == "" || len(name) > maxNameBytes || strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: queue: the name %.40q: use 1 to %d bytes without a zero", cleave.ErrOptions, name, maxNameBytes)
	}
	return nil
}

// Message is what is published, or appended to a log.
type Message struct {
	// Key chooses the shard, and messages with equal ones keep their order. Nil for no
	// order. At most 1 KiB.
	Key []byte
	// Body is at most 16 MiB.
	Body []byte
	// ID makes a retry harmless: see cleave.DB.NewRequestID. A message without a Key is
	// then placed by it. An id that is older than Options.Remember, or as much ahead of
	// the clock of the store, is refused with cleave.ErrRequestOld.
	ID cleave.RequestID
	// Delay is the time until a message can be received. A log has none.
	Delay time.Duration
}

func (m *Message) checkBounds() error {
	switch {
	case len(m.Key) > maxKeyBytes:
		return fmt.Errorf("%w: its key has %d bytes: use at most %d", ErrMessage, len(m.Key), maxKeyBytes)
	case len(m.Body) > maxBodyBytes:
		return fmt.Errorf("%w: its body has %d bytes: use at most %d", ErrMessage, len(m.Body), maxBodyBytes)
	case m.Delay < 0:
		return fmt.Errorf("%w: its delay is %v: use none, or a positive one", ErrMessage, m.Delay)
	}
	return nil
}
