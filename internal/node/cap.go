package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// Caps are what operators limit writers by. They are notes of the catalog, so they outlast the process.

// capPrefix is what the names of the notes begin with.
const capPrefix = "cap/"

// ErrNoCap means that there is no such cap: it has ended, or was removed.
var ErrNoCap = errors.New("node: no such cap")

// WriteCap is a cap.
type WriteCap struct {
	ID uint64 `json:"-"`
	// Shard is whose positions are capped, as they were then: it may be split, merged and moved meanwhile. Without it the
	// keys of Keyspace are that begin with Prefix.
	Shard    partition.ShardID `json:"shard,omitempty"`
	Keyspace string            `json:"keyspace,omitempty"`
	Prefix   []byte            `json:"prefix,omitempty"`
	// Start and End are the positions of the shard.
	Start []byte `json:"start,omitempty"`
	End   []byte `json:"end,omitempty"`
	// PerSecond is how many writes are admitted a second, 0 for none.
	PerSecond float64 `json:"per_second"`
	// Until is when it ends, zero for never.
	Until time.Time `json:"until,omitzero"`
	// Refused is how many writers were refused since the node was opened.
	Refused uint64 `json:"-"`
}

// isOfSame reports whether both cap the same: the second takes the place of the first.
func (c *WriteCap) isOfSame(o *WriteCap) bool {
	return c.Shard == o.Shard && (c.Shard != 0 || c.Keyspace == o.Keyspace && bytes.Equal(c.Prefix, o.Prefix))
}

func (c *WriteCap) hasEnded(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// reason is told to those that are refused.
func (c *WriteCap) reason() string {
	if c.PerSecond == 0 {
		return "made read-only by an operator"
	}
	return "capped by an operator at " + strconv.FormatFloat(c.PerSecond, 'g', -1, 64) + " writes a second"
}

// capTable has the caps that hold.
type capTable struct {
	mu   sync.Mutex // held while they are changed
	byID map[uint64]*WriteCap
}

// SetCap sets a cap, or replaces that of the same shard or prefix, and returns it with its number. It fails with
// [partition.ErrUnknownShard], [mover.ErrFixedShard] for that of the catalog, [ErrNoKeyspace], [ErrOptions], or
// [admission.ErrTooManyLimits].
func (n *Node) SetCap(ctx context.Context, c WriteCap) (WriteCap, error) {
	if err := n.completeCap(&c); err != nil {
		return c, fmt.Errorf("set a cap: %w", err)
	}
	t := &n.caps
	t.mu.Lock()
	defer t.mu.Unlock()
	notes := n.forgetEndedCaps(time.Now())
	c.ID = 1
	var replaced *WriteCap
	for id, other := range t.byID {
		if c.ID = max(c.ID, id+1); other.isOfSame(&c) {
			replaced = other
		}
	}
	if replaced != nil {
		c.ID = replaced.ID
	}
	content, err := json.Marshal(&c)
	if err != nil {
		return c, err
	}
	if err := n.applyCap(&c); err != nil {
		return c, fmt.Errorf("set a cap: %w", err)
	}
	notes[capNote(c.ID)] = content
	if err := n.PutNotes(ctx, notes); err != nil {
		if n.writeLimits.Remove(capLimitKey(c.ID)); replaced != nil {
			_ = n.applyCap(replaced) // as it was
		}
		return c, fmt.Errorf("set a cap: %w", err)
	}
	t.byID[c.ID] = &c
	return c, nil
}

// completeCap checks a cap, and finds the positions of its shard.
func (n *Node) completeCap(c *WriteCap) error {
	c.Start, c.End = nil, nil
	if c.PerSecond < 0 || math.IsNaN(c.PerSecond) || math.IsInf(c.PerSecond, 0) {
		return fmt.Errorf("%w: a cap of %v writes a second: 0 or more", ErrOptions, c.PerSecond)
	}
	if c.hasEnded(time.Now()) {
		return fmt.Errorf("%w: a cap until %v, which is over", ErrOptions, c.Until)
	}
	if c.Shard == 0 {
		_, err := n.Keyspace(c.Keyspace)
		return err
	}
	if c.Keyspace != "" || len(c.Prefix) > 0 {
		return fmt.Errorf("%w: a cap is of a shard or of a prefix of keys, not of both", ErrOptions)
	}
	s, ok := n.Map().Shard(c.Shard)
	switch {
	case !ok:
		return fmt.Errorf("%w: %v", partition.ErrUnknownShard, c.Shard)
	case catalogKeys.IsFixed(s):
		return fmt.Errorf("%w: %v", mover.ErrFixedShard, c.Shard)
	}
	c.Start, c.End = bytes.Clone(s.Span.Start), bytes.Clone(s.Span.End)
	return nil
}

func capNote(id uint64) string { return capPrefix + strconv.FormatUint(id, 10) }

func capLimitKey(id uint64) admission.LimitKey {
	return admission.LimitKey{Source: admission.Cap, ID: id}
}

// applyCap lets writers see a cap. One of a keyspace that there is not has no writers.
func (n *Node) applyCap(c *WriteCap) error {
	l := admission.WriteLimit{
		Span: partition.Span{Start: c.Start, End: c.End}, Shard: 0, PerSecond: c.PerSecond, Reason: c.reason(), Until: c.Until,
	}
	if c.Shard == 0 {
		k, err := n.Keyspace(c.Keyspace)
		if err != nil {
			n.writeLimits.Remove(capLimitKey(c.ID))
			return nil
		}
		l.Span = k.Span()
		at := k.AppendPosition(nil, c.Prefix)
		l.Skip = len(l.Span.Start)
		if k.Kind == partition.Hash {
			l.Skip += slotBytes
		}
		l.Prefix = at[l.Skip : len(at)-keyEndBytes]
	}
	return n.writeLimits.Set(capLimitKey(c.ID), l)
}

const (
	// slotBytes and keyEndBytes are those of a slot, and of the end of a key, in a position.
	slotBytes, keyEndBytes = 2, 2
)

// RemoveCap removes a cap. Its writers go on at once. It fails with [ErrNoCap].
func (n *Node) RemoveCap(ctx context.Context, id uint64) error {
	t := &n.caps
	t.mu.Lock()
	defer t.mu.Unlock()
	notes := n.forgetEndedCaps(time.Now())
	if t.byID[id] == nil {
		return fmt.Errorf("%w: %d", ErrNoCap, id)
	}
	notes[capNote(id)] = nil
	if err := n.PutNotes(ctx, notes); err != nil {
		return fmt.Errorf("remove cap %d: %w", id, err)
	}
	delete(t.byID, id)
	n.writeLimits.Remove(capLimitKey(id))
	return nil
}

// Caps returns the caps that hold, by number.
func (n *Node) Caps() (all []WriteCap) {
	refused := map[uint64]uint64{}
	for _, l := range n.writeLimits.List() {
		if l.Key.Source == admission.Cap {
			refused[l.Key.ID] = l.Refused
		}
	}
	n.caps.mu.Lock()
	defer n.caps.mu.Unlock()
	now := time.Now()
	for id, c := range n.caps.byID {
		if !c.hasEnded(now) {
			one := *c
			one.Refused = refused[id]
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b WriteCap) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// forgetEndedCaps forgets caps that are over, and returns what removes their notes, with caps.mu held.
func (n *Node) forgetEndedCaps(now time.Time) map[string][]byte {
	notes := map[string][]byte{}
	for id, c := range n.caps.byID {
		if c.hasEnded(now) {
			notes[capNote(id)] = nil
			delete(n.caps.byID, id)
		}
	}
	return notes
}

// loadCaps reads the caps, before anything is written.
func (n *Node) loadCaps(ctx context.Context) error {
	notes, err := n.Notes(ctx, capPrefix)
	if err != nil {
		return fmt.Errorf("read the caps: %w", err)
	}
	n.caps.mu.Lock()
	defer n.caps.mu.Unlock()
	n.caps.byID = map[uint64]*WriteCap{}
	now := time.Now()
	for name, content := range notes {
		c := new(WriteCap)
		err := json.Unmarshal(content, c)
		if err == nil {
			c.ID, err = strconv.ParseUint(name, 10, 64)
		}
		if err != nil {
			return fmt.Errorf("%w: cap %q: %w", store.ErrCorrupt, name, err)
		}
		n.caps.byID[c.ID] = c
		if c.hasEnded(now) {
			continue // its note goes with the next change
		}
		if err := n.applyCap(c); err != nil {
			return fmt.Errorf("apply cap %d: %w", c.ID, err)
		}
	}
	return nil
}

// reapplyCaps lets writers of a keyspace that has another id see its caps.
func (n *Node) reapplyCaps(keyspace string) {
	n.caps.mu.Lock()
	defer n.caps.mu.Unlock()
	for _, c := range n.caps.byID {
		if c.Shard == 0 && c.Keyspace == keyspace && !c.hasEnded(time.Now()) {
			_ = n.applyCap(c) // there is room: it takes its own place
		}
	}
}
