package node

import (
	"context"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// EmptyKeyspace removes all keys of a keyspace at one moment. It is the same as before,
// under another id: who has the old Space is told that it was dropped, and finds the new
// one by its name. The room that the keys take is given back in the background. One with
// indexes is refused with ErrIndexes: their entries would be left.
func (n *Node) EmptyKeyspace(ctx context.Context, k *Space) error {
	err := n.changeSpaces(ctx, func() error { return n.emptyKeyspace(ctx, k) })
	if err != nil {
		return fmt.Errorf("empty keyspace %q: %w", k.Name, err)
	}
	return nil
}

// emptyKeyspace is EmptyKeyspace while changing is held.
func (n *Node) emptyKeyspace(ctx context.Context, k *Space) error {
	if err := k.Check(); err != nil {
		return err
	}
	if k.of != "" || len(n.indexesOf(k.Name)) > 0 {
		return ErrIndexes
	}
	// Before the catalog knows: what is written to the old one from now on would be
	// lost, though it came after.
	k.dropped.Store(!plant.Bug("node-emptied-keyspace-stays-open"))
	same := partition.Keyspace{Name: k.Name, Kind: k.Kind, Slots: k.Slots, Layout: k.Layout}
	err := n.createKeyspace(ctx, same, k, &command.Set{Key: droppedRow(k.ID), Value: nil}, func(*Space) { n.forget(k) })
	if err != nil {
		k.dropped.Store(false) // before anybody else may drop it, which stays so
	}
	return err
}

// Successor returns the keyspace that has taken the place of one that was emptied. It
// waits while that is being done.
func (n *Node) Successor(ctx context.Context, k *Space) (*Space, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		now, err := n.Keyspace(k.Name)
		if err != nil || now != k || k.Check() == nil {
			return now, err
		}
		select {
		case <-k.gone:
		case <-time.After(pause): // it may stay
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
