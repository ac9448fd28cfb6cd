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

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/partition"
)

var (
	// ErrNoKeyspace means that there is no keyspace of that name: create it.
	ErrNoKeyspace = errors.New("node: no such keyspace")
	// ErrKeyspaceExists means that the name is taken.
	ErrKeyspaceExists = errors.New("node: keyspace exists")
)

// DefaultKeyspace is the keyspace that every node has.
const DefaultKeyspace = "default"

// systemKeyspace is the keyspace of the catalog, which has one row for each keyspace, one
// for each index, and one for the next id.
var systemKeyspace = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}

const defaultKeyspaceID = 1

// Keyspace is a keyspace of a node.
type Keyspace struct {
	partition.Keyspace
	isDropped atomic.Bool
	droppedCh chan struct{} // closed when it is dropped
	// indexes are those that every writer to the keyspace maintains, nil for none.
	indexes atomic.Pointer[IndexSet]
	// owningIndex names the keyspace and the index that it has the entries of; empty if it is
	// a keyspace like others.
	owningIndex string
}

// Dropped returns a channel that is closed when the keyspace is dropped.
func (k *Keyspace) Dropped() <-chan struct{} { return k.droppedCh }

// CheckOpen implements [group.Gate]: it returns ErrNoKeyspace once the keyspace was
// dropped. Every request that reads the keyspace, and validates that later, must have
// it as its gate. See [Keyspace.CheckWrite] for those that write.
func (k *Keyspace) CheckOpen() error {
	if k.isDropped.Load() {
		return fmt.Errorf("%w: %q was dropped", ErrNoKeyspace, k.Name)
	}
	return nil
}

// keyspaceCatalog is the catalog of keyspaces. The rows in the first part are the truth;
// this is a copy of them, changed after they are.
type keyspaceCatalog struct {
	mu     sync.RWMutex
	byName map[string]*Keyspace
	byID   map[partition.KeyspaceID]*Keyspace
	// indexes are by the name of the keyspace of their entries.
	indexes map[string]*IndexInfo
	nextID  partition.KeyspaceID // guarded by changeMu
	// changeMu serialises changes. It is locked after jobs.backupLock and before mapMu.
	changeMu sync.Mutex
	// mapMu is held while a map is made or a job is admitted.
	mapMu sync.Mutex
	// hasPendingPlacing reports whether a placing was noted and may not have come to its end.
	// Invariant: mapMu is held, or the node is not in use yet.
	hasPendingPlacing bool
	// hasDropped reports whether rows of dropped keyspaces may be left.
	hasDropped atomic.Bool
	// dropped rings when a keyspace was dropped.
	dropped notifier
}

const keyspacePrefix = "keyspace/"

func keyspaceKey(name string) partition.Position {
	return systemKeyspace.AppendPosition(nil, []byte(keyspacePrefix+name))
}

func nextIDKey() partition.Position { return systemKeyspace.AppendPosition(nil, []byte("next-id")) }

// loadKeyspaces reads the catalog, and makes the default keyspace if it is new.
func (n *Node) loadKeyspaces(ctx context.Context) error {
	n.byName, n.byID, n.nextID = map[string]*Keyspace{}, map[partition.KeyspaceID]*Keyspace{}, defaultKeyspaceID
	n.indexes = map[string]*IndexInfo{}
	var defined []*index.Definition
	n.hasDropped.Store(true)
	row, ok, err := n.findCatalogGroup().Read(ctx, nextIDKey(), nil)
	if err != nil {
		return err
	}
	if ok {
		if len(row.Payload) != 4 {
			return fmt.Errorf("node: the catalog is not of this version: next id %x", row.Payload)
		}
		n.nextID = partition.KeyspaceID(binary.BigEndian.Uint32(row.Payload))
	}
	span := systemKeyspace.Span()
	var bad error
	err = n.lookupGroup(firstGroup).Store.Scan(effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), false, func(key, value []byte) bool {
		name, _, err := systemKeyspace.Split(nil, key[1:])
		isSpace, isIndex := strings.HasPrefix(string(name), keyspacePrefix), strings.HasPrefix(string(name), indexPrefix)
		var row command.Row
		if err == nil && (isSpace || isIndex) {
			row, err = command.DecodeRow(value)
		}
		switch {
		case err != nil:
		case isSpace:
			k := &Keyspace{droppedCh: make(chan struct{})}
			if err = json.Unmarshal(row.Payload, &k.Keyspace); err == nil {
				n.byName[k.Name], n.byID[k.ID] = k, k
			}
		case isIndex:
			var d *index.Definition
			if d, err = index.DecodeDefinition(row.Payload); err == nil {
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
	if n.byName[DefaultKeyspace] == nil {
		_, err = n.CreateKeyspace(ctx, partition.Keyspace{Name: DefaultKeyspace, Kind: partition.Hash})
	}
	return err
}

// Keyspace returns the keyspace of a name.
func (n *Node) Keyspace(name string) (*Keyspace, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	k := n.byName[name]
	if k == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoKeyspace, name)
	}
	return k, nil
}

// Keyspaces returns all keyspaces by name.
func (n *Node) Keyspaces() []*Keyspace {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.SortedFunc(maps.Values(n.byName), func(a, b *Keyspace) int { return strings.Compare(a.Name, b.Name) })
}

// CreateKeyspace makes a keyspace, durably, and gives it its id. It waits for a job
// that is at work where the keyspace is to be.
func (n *Node) CreateKeyspace(ctx context.Context, k partition.Keyspace) (made *Keyspace, err error) {
	if err := errors.Join(k.Validate(), ctx.Err()); err != nil {
		return nil, err
	}
	err = n.changeKeyspaces(ctx, func() error {
		return n.createKeyspace(ctx, k, nil, nil, func(space *Keyspace) { made = space })
	})
	if err != nil && !errors.Is(err, ErrKeyspaceExists) {
		err = fmt.Errorf("create keyspace %q: %w", k.Name, err)
	}
	return made, err
}

// changeKeyspaces calls change while it holds changeMu, and again until no job is in its way: it
// waits for those, unless they are paused.
func (n *Node) changeKeyspaces(ctx context.Context, change func() error) error {
	return n.retryWhileBusy(ctx, func() error {
		// Before changeMu: a backup may take long, and others do not wait for it.
		if err := n.jobs.backupLock.lockShared(ctx); err != nil {
			return err
		}
		defer n.jobs.backupLock.unlockShared()
		if err := lockContext(ctx, &n.changeMu); err != nil {
			return err
		}
		defer n.changeMu.Unlock()
		return change()
	})
}

// createKeyspace makes a keyspace, in the place of another one if that is given. more, if it is
// set, is changed in the catalog in the same step; done is called when it is made, before any
// other caller finds it. It is called in changeKeyspaces.
func (n *Node) createKeyspace(ctx context.Context, k partition.Keyspace, was *Keyspace, more command.Command, done func(*Keyspace)) error {
	if found, err := n.Keyspace(k.Name); err == nil && found != was {
		return fmt.Errorf("%w: %q", ErrKeyspaceExists, k.Name)
	}
	for _, h := range n.storeHosts {
		// What was begun is completed with the space kept for that on a full disk. To empty a
		// keyspace frees space.
		if err := h.Store.CheckFreeSpace(); err != nil && was == nil {
			return fmt.Errorf("store %d: %w", h.index, err)
		}
	}
	gone, err := n.listVacantSpans()
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
	use := &command.Set{Key: nextIDKey(), Value: binary.BigEndian.AppendUint32(nil, uint32(k.ID)+1)}
	err = n.placeKeyspace(ctx, &k, gone, was != nil, use, &command.Set{Key: keyspaceKey(k.Name), Value: text}, more)
	if errors.Is(err, mover.ErrBusy) {
		return err
	}
	n.nextID++
	if err != nil {
		return err
	}
	made := &Keyspace{Keyspace: k, droppedCh: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	done(made)
	n.byName[k.Name], n.byID[k.ID] = made, made
	return nil
}
