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
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/mover"
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

// system is the keyspace of the catalog, which has one row for each keyspace, one
// for each index, and one for the next id.
var system = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}

const defaultID = 1

// Space is a keyspace of a node.
type Space struct {
	partition.Keyspace
	dropped atomic.Bool
	gone    chan struct{} // closed when it is dropped
	// indexes are those that whoever writes to the keyspace maintains, nil for none.
	indexes atomic.Pointer[Indexes]
	// of names the keyspace and the index that it has the entries of; empty if it is
	// a keyspace like others.
	of string
}

// Dropped returns a channel that is closed when the keyspace is dropped.
func (k *Space) Dropped() <-chan struct{} { return k.gone }

// Check implements [group.Gate]: it returns ErrNoKeyspace once the keyspace was
// dropped. Every request that reads the keyspace, and validates that later, must have
// it as its gate. See [Space.Writes] for those that write.
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
	// indexes are by the name of the keyspace of their entries.
	indexes map[string]*Index
	nextID  partition.KeyspaceID // changed by whoever holds changing
	// changing serialises changes. It comes after jobs.quiet and before mapping.
	changing sync.Mutex
	// mapping is held by whoever makes a map, and by whoever admits jobs.
	mapping sync.Mutex
	// noted tells that a placing was noted and may not have come to its end.
	// Invariant: mapping is held, or nobody uses the node yet.
	noted bool
	// drops tells that rows of dropped keyspaces may be left.
	drops atomic.Bool
	// dropping rings when a keyspace was dropped.
	dropping bell
}

const rowPrefix = "keyspace/"

func spaceRow(name string) partition.Position {
	return system.AppendPosition(nil, []byte(rowPrefix+name))
}

func nextIDRow() partition.Position { return system.AppendPosition(nil, []byte("next-id")) }

// loadSpaces reads the catalog, and makes the default keyspace if it is new.
func (n *Node) loadSpaces(ctx context.Context) error {
	n.byName, n.byID, n.nextID = map[string]*Space{}, map[partition.KeyspaceID]*Space{}, defaultID
	n.indexes = map[string]*Index{}
	var defined []*index.Definition
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
	err = n.part(firstGroup).Store.Scan(effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), false, func(key, value []byte) bool {
		name, _, err := system.Split(nil, key[1:])
		isSpace, isIndex := strings.HasPrefix(string(name), rowPrefix), strings.HasPrefix(string(name), indexPrefix)
		var row command.Row
		if err == nil && (isSpace || isIndex) {
			row, err = command.DecodeRow(value)
		}
		switch {
		case err != nil:
		case isSpace:
			k := &Space{gone: make(chan struct{})}
			if err = json.Unmarshal(row.Payload, &k.Keyspace); err == nil {
				n.byName[k.Name], n.byID[k.ID] = k, k
			}
		case isIndex:
			var d *index.Definition
			if d, err = index.Decode(row.Payload); err == nil {
				defined = append(defined, d)
			}
		}
		bad = err
		return bad == nil
	})
	if err = errors.Join(err, bad); err == nil {
		err = n.loadIndexes(defined)
	}
	if err != nil {
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

// CreateKeyspace makes a keyspace, durably, and gives it its id. It waits for a job
// that is at work where the keyspace is to be.
func (n *Node) CreateKeyspace(ctx context.Context, k partition.Keyspace) (made *Space, err error) {
	if err := errors.Join(k.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	err = n.changeSpaces(ctx, func() error {
		return n.createKeyspace(ctx, k, nil, nil, func(space *Space) { made = space })
	})
	if err != nil && !errors.Is(err, ErrKeyspaceExists) {
		err = fmt.Errorf("create keyspace %q: %w", k.Name, err)
	}
	return made, err
}

// changeSpaces calls change while it holds changing, and again until no job is in its
// way: it waits for those, unless they are paused.
func (n *Node) changeSpaces(ctx context.Context, change func() error) error {
	return n.unhurried(ctx, func() error {
		// Before changing: a backup may take long, and others do not wait for it.
		if err := n.jobs.quiet.share(ctx); err != nil {
			return err
		}
		defer n.jobs.quiet.unshare()
		if err := lock(ctx, &n.changing); err != nil {
			return err
		}
		defer n.changing.Unlock()
		return change()
	})
}

// createKeyspace makes a keyspace, in the place of another one if that is given. more, if
// it is set, is changed in the catalog in the same step; done is called when it is made,
// before anybody else finds it. It is called in changeSpaces.
func (n *Node) createKeyspace(ctx context.Context, k partition.Keyspace, was *Space, more command.Command, done func(*Space)) error {
	if found, err := n.Keyspace(k.Name); err == nil && found != was {
		return fmt.Errorf("%w: %q", ErrKeyspaceExists, k.Name)
	}
	for _, h := range n.hosts {
		// What was begun is brought to its end by what is kept for that on a full disk. Who empties a
		// keyspace gives room back.
		if err := h.Store.Room(); err != nil && was == nil {
			return fmt.Errorf("store %d: %w", h.index, err)
		}
	}
	gone, err := n.goneSpans()
	if err != nil {
		return err
	}
	k.ID = n.nextID
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	// The id is used up by whatever comes first, so that it is never given out
	// again: not after the keyspace is dropped, and not if it is never made.
	use := &command.Set{Key: nextIDRow(), Value: binary.BigEndian.AppendUint32(nil, uint32(k.ID)+1)}
	err = n.place(ctx, &k, gone, was != nil, use, &command.Set{Key: spaceRow(k.Name), Value: text}, more)
	if errors.Is(err, mover.ErrBusy) {
		return err
	}
	n.nextID++
	if err != nil {
		return err
	}
	made := &Space{Keyspace: k, gone: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	done(made)
	n.byName[k.Name], n.byID[k.ID] = made, made
	return nil
}
