package group

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/internal/shard/effect"
)

// memoryDisk is a Log and a State in memory. A crash takes back what was committed
// and not synced, unless every commit is synced.
type memoryDisk struct {
	mu         sync.Mutex
	syncAlways bool
	rows       map[string][]byte
	synced     map[string][]byte
	// refuse, if set, is what the next commits fail with. If uncertain, half of
	// them happen all the same.
	refuse error
	// refuseButUrgent is what all but urgent ones fail with.
	refuseButUrgent error
	commits         int
	headers         []effect.Header // of the effects, in order
	// before and after, if set, are called before a commit is durable, and after
	// a row was read.
	before func()
	after  func(key []byte)
}

func newMemoryDisk(always bool) *memoryDisk {
	return &memoryDisk{syncAlways: always, rows: map[string][]byte{}, synced: map[string][]byte{}}
}

func (d *memoryDisk) Commit(urgent bool, effects []byte) error {
	if d.before != nil {
		d.before()
	}
	if d.refuseButUrgent != nil && !urgent {
		return d.refuseButUrgent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	return d.commit(effects)
}

// CommitJoint implements [JointLog].
func (d *memoryDisk) CommitJoint(urgent bool, parts []JointEntry) error {
	if d.before != nil {
		d.before()
	}
	if d.refuseButUrgent != nil && !urgent {
		return d.refuseButUrgent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	for _, p := range parts {
		if err := d.commit(p.Effects); err != nil {
			return err
		}
	}
	return nil
}

func (d *memoryDisk) commit(effects []byte) error {
	batch, err := effect.Parse(effects)
	if err != nil {
		return err
	}
	if d.refuse != nil && !(errors.Is(d.refuse, ErrUncertain) && d.commits%2 == 0) {
		return d.refuse
	}
	for _, op := range batch.All() {
		if op.Delete {
			delete(d.rows, string(op.Key))
		} else {
			d.rows[string(op.Key)] = bytes.Clone(op.Value)
		}
	}
	d.headers = append(d.headers, batch.Header())
	if d.syncAlways {
		d.synced = maps.Clone(d.rows)
	}
	return d.refuse
}

func (d *memoryDisk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = maps.Clone(d.rows)
	return nil
}

func (d *memoryDisk) ReadBarrier(context.Context) error { return nil }

// crashCopy returns what a restart finds.
func (d *memoryDisk) crashCopy() *memoryDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &memoryDisk{syncAlways: d.syncAlways, rows: maps.Clone(d.synced), synced: maps.Clone(d.synced)}
}

func (d *memoryDisk) Get(key, dst []byte) ([]byte, bool, error) {
	d.mu.Lock()
	v, ok := d.rows[string(key)]
	dst = append(dst, v...)
	d.mu.Unlock()
	if d.after != nil {
		d.after(key)
	}
	return dst, ok, nil
}

func (d *memoryDisk) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	d.mu.Lock()
	rows := maps.Clone(d.rows)
	d.mu.Unlock()
	keys := slices.Sorted(maps.Keys(rows))
	if reverse {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		if k >= string(start) && k < string(end) && !visit([]byte(k), rows[k]) {
			return nil
		}
	}
	return nil
}

// countRows returns how many rows a table has.
func (d *memoryDisk) countRows(t effect.Table) (n int) {
	_ = d.Scan([]byte{byte(t)}, []byte{byte(t) + 1}, false, func(_, _ []byte) bool { n++; return true })
	return n
}
