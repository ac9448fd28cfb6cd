package node

import (
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/partition"
)

// WriteLimits returns what writers are held up by. Every way to write a keyspace asks it first.
func (n *Node) WriteLimits() *admission.WriteLimits { return n.writeLimits }

// newWriteLimits returns the limits of the node: none.
func (n *Node) newWriteLimits() *admission.WriteLimits {
	l := admission.NewWriteLimits()
	l.ShardAt = func(at partition.Position) partition.ShardID { return n.published.Load().Owner(at).Shard }
	return l
}

// Throttles limit the writers of hot shards, so that their groups have time for others. Each is for a while: whoever
// wants it longer sets it again. They are in memory alone.
type Throttles struct{ node *Node }

// Throttles returns those of the node.
func (n *Node) Throttles() Throttles { return Throttles{n} }

// ShardThrottle is a limit of the writers of one shard.
type ShardThrottle struct {
	Shard           partition.ShardID
	WritesPerSecond float64
	Reason          string
	Until           time.Time
	// Waited and Refused are how many requests had to wait and were refused since it was set first, and Wait for how long one
	// would wait that came now.
	Waited, Refused uint64
	Wait            time.Duration
}

func throttleKey(id partition.ShardID) admission.LimitKey {
	return admission.LimitKey{Source: admission.HotShard, ID: uint64(id)}
}

// Set limits the writers of a shard, as it is now, until a time. They wait for their turn, and are told the reason
// if it does not come in time. With the same rate as before nobody waits anew. It fails with
// [partition.ErrUnknownShard], or [admission.ErrTooManyLimits].
func (t Throttles) Set(id partition.ShardID, writesPerSecond float64, reason string, until time.Time) error {
	s, ok := t.node.Map().Shard(id)
	if !ok {
		return fmt.Errorf("throttle %v: %w", id, partition.ErrUnknownShard)
	}
	return t.node.writeLimits.Set(throttleKey(id), admission.WriteLimit{
		Span: s.Span, PerSecond: writesPerSecond, Shard: id, Reason: reason, Until: until,
	})
}

// Clear ends the throttle of a shard, if there is any.
func (t Throttles) Clear(id partition.ShardID) { t.node.writeLimits.Remove(throttleKey(id)) }

// List returns those that hold, by shard.
func (t Throttles) List() (all []ShardThrottle) {
	for _, l := range t.node.writeLimits.List() {
		if l.Key.Source == admission.HotShard {
			all = append(all, ShardThrottle{l.Shard, l.PerSecond, l.Reason, l.Until, l.Waited, l.Refused, l.Wait})
		}
	}
	return all
}

// delayWriters makes each writer of the range of a job wait, or ends that with 0.
func (d *jobDriver) delayWriters(wait time.Duration) {
	key := admission.LimitKey{Source: admission.Move, ID: uint64(d.job.ID)}
	if wait <= 0 {
		d.node.writeLimits.Remove(key)
		return
	}
	// One that finds no room is not delayed: the move takes longer.
	_ = d.node.writeLimits.Set(key, admission.WriteLimit{Span: d.job.Span, Delay: wait, Reason: "its range is moved"})
}
