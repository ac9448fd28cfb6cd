package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

var (
	// ErrIndexesChanged means that a keyspace has other indexes than a write has maintained:
	// look again and retry. Nothing was written.
	ErrIndexesChanged = errors.New("node: the indexes of the keyspace have changed")
	// ErrNoIndex means that there is no index of that name: create it.
	ErrNoIndex = errors.New("node: no such index")
	// ErrIndexExists means that the name is taken.
	ErrIndexExists = errors.New("node: index exists")
	// ErrIndexKeyspace means that a keyspace has the entries of an index, and nothing else.
	ErrIndexKeyspace = errors.New("node: the keyspace is that of an index")
)

// IndexInfo is an index of a keyspace. It does not change: one whose function is declared
// is another one.
type IndexInfo struct {
	index.Definition // but for Ready, see the method
	// Rows is what it is about, and Entries has its entries.
	Rows, Entries *Keyspace
	// Extract makes the entries; nil until the function is declared.
	Extract index.Extractor
	ready   *atomic.Bool
}

// IsReady reports whether all rows have their entries.
func (x *IndexInfo) IsReady() bool { return x.ready.Load() }

// IndexSet is the set of indexes that a write to a keyspace has to maintain. Equal sets are the
// same pointer.
type IndexSet struct {
	All []*IndexInfo
	// Needs are the fields of a hash that they read, sorted, unless they read the Whole of it.
	Needs [][]byte
	Whole bool
}

// NewIndexSet are some indexes.
func NewIndexSet(all ...*IndexInfo) *IndexSet {
	set := &IndexSet{All: all}
	var names []string
	for _, x := range all {
		if x.Extract != nil {
			needs, whole := x.Extract.NeededFields()
			names, set.Whole = append(names, needs...), set.Whole || whole
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		set.Needs = append(set.Needs, []byte(name))
	}
	return set
}

// Indexes returns the indexes that a write has to maintain, nil for none.
func (k *Keyspace) Indexes() *IndexSet { return k.indexes.Load() }

// OwningIndex names the keyspace and index that this keyspace has the entries of; empty if
// it is one like others.
func (k *Keyspace) OwningIndex() string { return k.owningIndex }

// CheckWrite returns why a write that has maintained some indexes, nil for none, must not
// happen any more. It is the gate of every request that writes to the keyspace.
func (k *Keyspace) CheckWrite(maintained *IndexSet) error {
	if err := k.CheckOpen(); err != nil {
		return err
	}
	if k.indexes.Load() != maintained {
		return ErrIndexesChanged
	}
	return nil
}

// UnindexedGate is the gate of writes to a keyspace that maintain no index.
type UnindexedGate struct{ *Keyspace }

// CheckOpen implements [group.Gate].
func (g UnindexedGate) CheckOpen() error { return g.CheckWrite(nil) }

const indexPrefix = "index/"

func indexKey(d *index.Definition) partition.Position {
	return systemKeyspace.AppendPosition(nil, []byte(indexPrefix+d.Keyspace+"/"+d.Name))
}

func (x *IndexInfo) dropCommands() []command.Command {
	return append(dropKeyspaceCommands(x.Entries), &command.Delete{Keys: []partition.Position{indexKey(&x.Definition)}})
}

// loadIndexes makes the indexes that the catalog has. Functions are declared later.
func (n *Node) loadIndexes(defined []*index.Definition) error {
	for _, d := range defined {
		rows, entries := n.byName[d.Keyspace], n.byName[d.EntryKeyspace()]
		if rows == nil || entries == nil {
			return fmt.Errorf("node: the catalog has an index %q of keyspace %q without its keyspaces", d.Name, d.Keyspace)
		}
		x := &IndexInfo{Definition: *d, Rows: rows, Entries: entries, ready: new(atomic.Bool)}
		x.ready.Store(d.Ready)
		if d.Function == "" {
			var err error
			if x.Extract, err = index.NewExtractor(d, rows.Layout); err != nil {
				return err
			}
		}
		entries.owningIndex = describeIndex(d)
		n.indexes[d.EntryKeyspace()] = x
		n.publishIndexes(rows)
	}
	return nil
}

func describeIndex(d *index.Definition) string {
	return fmt.Sprintf("index %q of keyspace %q", d.Name, d.Keyspace)
}

// publishIndexes makes every writer to a keyspace maintain its indexes. mu is held, or the node
// is not in use yet.
func (n *Node) publishIndexes(rows *Keyspace) {
	var all []*IndexInfo
	for _, name := range slices.Sorted(maps.Keys(n.indexes)) {
		if x := n.indexes[name]; x.Rows == rows && x.Mode == index.Transactional {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		rows.indexes.Store(nil)
		return
	}
	rows.indexes.Store(NewIndexSet(all...))
}

// CreateIndex makes an index and the keyspace of its entries in one step. From its return on,
// every writer of a row maintains a transactional index; the rows that were there before have no
// entries yet.
func (n *Node) CreateIndex(ctx context.Context, rows *Keyspace, d index.Definition, extract index.Extractor) (made *IndexInfo, err error) {
	d.Ready = false
	err = n.changeKeyspaces(ctx, func() error {
		// While it waited its keyspace may have been dropped, and another have got the name.
		if err := rows.CheckOpen(); err != nil {
			return err
		}
		if _, err := n.Index(d.Keyspace, d.Name); err == nil {
			return fmt.Errorf("%w: %s", ErrIndexExists, describeIndex(&d))
		}
		text, err := d.Encode()
		if err != nil {
			return err
		}
		space := partition.Keyspace{Name: d.EntryKeyspace(), Kind: partition.Range}
		return n.createKeyspace(ctx, space, nil, &command.Set{Key: indexKey(&d), Value: text}, func(entries *Keyspace) {
			entries.owningIndex = describeIndex(&d)
			made = &IndexInfo{Definition: d, Rows: rows, Entries: entries, Extract: extract, ready: new(atomic.Bool)}
			n.indexes[entries.Name] = made
			n.publishIndexes(rows)
		})
	})
	if err == nil {
		if err = n.Barrier(ctx); err != nil { // it is there all the same
			err = fmt.Errorf("%w: %w", group.ErrUnknown, err)
		}
	}
	if err != nil && !errors.Is(err, ErrIndexExists) {
		err = fmt.Errorf("create %s: %w", describeIndex(&d), err)
	}
	return made, err
}

// SyncStores makes all that is visible durable, if there are several stores: what is
// written in one because of what was read in another must not outlive it in a crash. In
// one store what comes later is lost first. The stores are synced side by side.
func (n *Node) SyncStores() error {
	if len(n.storeHosts) == 1 || n.opts.Durability == wal.Always {
		return nil
	}
	errs := make([]error, len(n.storeHosts))
	var others sync.WaitGroup
	one := func(i int) { errs[i] = n.storeHosts[i].syncer.syncNow(n.storeHosts[i].Store.Sync) }
	for i := range len(n.storeHosts) - 1 {
		others.Go(func() { one(i) })
	}
	one(len(n.storeHosts) - 1)
	others.Wait()
	return errors.Join(errs...)
}

// Barrier waits until all that has passed a gate before is visible.
func (n *Node) Barrier(ctx context.Context) error {
	for _, p := range n.GroupHosts() {
		// A group that was removed since has executed all that it ever will.
		if err := p.doCommand(ctx, &clearCommand{}); err != nil && !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
	}
	return nil
}

// DeclareIndex gives an index its function, and returns the index that has it.
func (n *Node) DeclareIndex(x *IndexInfo, extract index.Extractor) (*IndexInfo, error) {
	n.changeMu.Lock()
	defer n.changeMu.Unlock()
	now, err := n.Index(x.Keyspace, x.Name)
	if err == nil && now.Entries != x.Entries { // another one has the name since
		err = fmt.Errorf("%w: %s was dropped", ErrNoIndex, describeIndex(&x.Definition))
	}
	if err != nil {
		return nil, err
	}
	declared := *now
	declared.Extract = extract
	n.mu.Lock()
	defer n.mu.Unlock()
	n.indexes[declared.Entries.Name] = &declared
	n.publishIndexes(declared.Rows)
	return &declared, nil
}

// SetIndexReady notes in the catalog whether all rows have their entries. What was written
// for that is synced before: a crash must not take back entries and leave the note.
func (n *Node) SetIndexReady(ctx context.Context, x *IndexInfo, ready bool) error {
	for _, h := range n.storeHosts {
		if err := h.Store.Sync(); err != nil {
			return err
		}
	}
	if err := lockContext(ctx, &n.changeMu); err != nil {
		return err
	}
	defer n.changeMu.Unlock()
	if err := x.Entries.CheckOpen(); err != nil { // it was dropped meanwhile
		return fmt.Errorf("%w: %s", ErrNoIndex, describeIndex(&x.Definition))
	}
	d := x.Definition
	d.Ready = ready
	text, err := d.Encode()
	if err != nil {
		return err
	}
	if err := n.writeCatalog(ctx, &command.Set{Key: indexKey(&d), Value: text}); err != nil {
		return err
	}
	x.ready.Store(ready)
	return nil
}

// DropIndex removes an index. When it returns, no caller finds or maintains it any more; the
// space of its entries is reclaimed in the background, as that of a keyspace that is dropped.
func (n *Node) DropIndex(ctx context.Context, keyspace, name string) error {
	if err := lockContext(ctx, &n.changeMu); err != nil {
		return err
	}
	defer n.changeMu.Unlock()
	x, err := n.Index(keyspace, name)
	if err != nil {
		return err
	}
	if err := n.writeCatalog(ctx, &dropBatch{command.Batch{Commands: x.dropCommands()}}); err != nil {
		return fmt.Errorf("drop %s: %w", describeIndex(&x.Definition), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeIndex(x)
	return nil
}

// removeIndex closes an index that is not in the catalog any more. mu is held.
func (n *Node) removeIndex(x *IndexInfo) {
	delete(n.indexes, x.Entries.Name)
	n.publishIndexes(x.Rows) // before the entries are closed, which writers meet second
	n.removeKeyspace(x.Entries)
}

// Index returns the index of a name on a keyspace.
func (n *Node) Index(keyspace, name string) (*IndexInfo, error) {
	d := index.Definition{Keyspace: keyspace, Name: name}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if x := n.indexes[d.EntryKeyspace()]; x != nil && x.Keyspace == keyspace {
		return x, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNoIndex, describeIndex(&d))
}

// AllIndexes returns all indexes by keyspace and name.
func (n *Node) AllIndexes() []*IndexInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.SortedFunc(maps.Values(n.indexes), func(a, b *IndexInfo) int { return strings.Compare(a.Entries.Name, b.Entries.Name) })
}

// indexesOf returns the indexes on a keyspace.
func (n *Node) indexesOf(keyspace string) []*IndexInfo {
	return slices.DeleteFunc(n.AllIndexes(), func(x *IndexInfo) bool { return x.Keyspace != keyspace })
}
