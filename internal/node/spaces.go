package node

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/partition"
)

var (
	// ErrNoKeyspace means that there is no keyspace of that name: create it.
	ErrNoKeyspace = errors.New("node: no such keyspace")
	// ErrKeyspaceExists means that the name is taken.
	ErrKeyspaceExists = errors.New("node: keyspace exists")
)

// DefaultName is the keyspace that every node has.
const DefaultName = "default"

// system is the keyspace of the catalog, which has one row for each keyspace
// and one for the next id.
var system = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}

const defaultID = 1

// Space is a keyspace of a node.
type Space struct {
	partition.Keyspace
	dropped atomic.Bool
}

// Check implements [group.Gate]: it returns ErrNoKeyspace once the keyspace was
// dropped. Every request that writes to the keyspace must have it as its gate.
func (k *Space) Check() error {
	if k.dropped.Load() {
		return fmt.Errorf("%w: %q was dropped", ErrNoKeyspace, k.Name)
	}
	return nil
}

// spaces is the catalog of keyspaces. The rows in the first part are the truth;
// this is a copy of them, changed after they are.
type spaces struct {
	mu     sync.RWMutex
	byName map[string]*Space
	byID   map[partition.KeyspaceID]*Space
	nextID partition.KeyspaceID
	// changing serialises changes.
	changing sync.Mutex
	// drops tells that rows of dropped keyspaces may be left.
	drops atomic.Bool
}

const rowPrefix = "keyspace/"

func spaceRow(name string) partition.Position {
	return system.AppendPosition(nil, []byte(rowPrefix+name))
}

func nextIDRow() partition.Position { return system.AppendPosition(nil, []byte("next-id")) }

// catalog is the group that has the rows.
func (n *Node) catalog() *group.Group { return n.PartOf(system.Span().Start).Group }

// loadSpaces reads the catalog, and makes the default keyspace if it is new.
func (n *Node) loadSpaces(ctx context.Context) error {
	n.byName, n.byID, n.nextID = map[string]*Space{}, map[partition.KeyspaceID]*Space{}, defaultID
	n.drops.Store(true)
	row, ok, err := n.catalog().Read(ctx, nextIDRow(), nil)
	if err != nil {
		return err
	}
	if ok {
		if len(row.Payload) != 4 {
			return fmt.Errorf("node: the catalog is not of this version: next id %x", row.Payload)
		}
		n.nextID = partition.KeyspaceID(binary.BigEndian.Uint32(row.Payload))
	}
	span := system.Span()
	var bad error
	err = n.PartOf(span.Start).Store.Scan(effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), false, func(key, value []byte) bool {
		name, _, err := system.Split(nil, key[1:])
		if err == nil && strings.HasPrefix(string(name), rowPrefix) {
			var row command.Row
			if row, err = command.DecodeRow(value); err == nil {
				k := new(Space)
				if err = json.Unmarshal(row.Payload, &k.Keyspace); err == nil {
					n.byName[k.Name], n.byID[k.ID] = k, k
				}
			}
		}
		bad = err
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	if n.byName[DefaultName] == nil {
		_, err = n.CreateKeyspace(ctx, partition.Keyspace{Name: DefaultName, Kind: partition.Hash})
	}
	return err
}

// Keyspace returns the keyspace of a name.
func (n *Node) Keyspace(name string) (*Space, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	k := n.byName[name]
	if k == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoKeyspace, name)
	}
	return k, nil
}

// Keyspaces returns all keyspaces by name.
func (n *Node) Keyspaces() []*Space {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.SortedFunc(maps.Values(n.byName), func(a, b *Space) int { return strings.Compare(a.Name, b.Name) })
}

// CreateKeyspace makes a keyspace, durably, and gives it its id.
func (n *Node) CreateKeyspace(ctx context.Context, k partition.Keyspace) (*Space, error) {
	if err := errors.Join(k.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	if _, err := n.Keyspace(k.Name); err == nil {
		return nil, fmt.Errorf("%w: %q", ErrKeyspaceExists, k.Name)
	}
	k.ID = n.nextID
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	m, err := n.place(ctx, &k)
	if err != nil {
		return nil, fmt.Errorf("create keyspace %q: %w", k.Name, err)
	}
	// The id is used up in the same batch: it is never given out again, not
	// even after the keyspace is dropped.
	err = n.publish(ctx, m,
		&command.Set{Key: spaceRow(k.Name), Value: text},
		&command.Set{Key: nextIDRow(), Value: binary.BigEndian.AppendUint32(nil, uint32(k.ID)+1)})
	if err != nil {
		return nil, fmt.Errorf("create keyspace %q: %w", k.Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nextID++
	made := &Space{Keyspace: k}
	n.byName[k.Name], n.byID[k.ID] = made, made
	return made, nil
}

// change executes commands of the catalog as one, and syncs them whatever the
// durability class: other stores hold keys of a keyspace by its id, and a crash
// that took the id back would give them to the next keyspace. It does not stop
// half way because a caller lost patience.
func (n *Node) change(ctx context.Context, commands ...command.Command) error {
	return n.settle(ctx, n.PartOf(system.Span().Start), &command.Batch{Commands: commands})
}
