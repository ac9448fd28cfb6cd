package wal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

var (
	errCrashed  = errors.New("the machine has crashed")
	errInjected = errors.New("injected I/O error")
)

// crashDisk is a directory in memory that can crash. Blocks reach stable storage when
// they are synced, names when the directory is. A crash keeps of the rest what
// chance decides.
type crashDisk struct {
	mu       sync.Mutex
	rng      *rand.Rand
	names    map[string]*inode
	stable   map[string]*inode // as after the last SyncDir
	pending  []nameChange      // since then
	capacity int64
	fuse     int  // operations until the crash; negative: none
	failOnce bool // the fuse is for one I/O error instead
	dead     bool
	failing  map[string]bool // operations that fail, by name
	ops      map[string]int  // how often each was done
}

type nameChange struct {
	from, to string // from is empty for a creation, to for a removal
	node     *inode
}

type inode struct {
	data   []byte
	stable []byte
	dirty  map[int]bool // blocks
	// unwritten are blocks that a failed sync left: they count as clean and are not stable.
	unwritten map[int]bool
}

func newCrashDisk(seed uint64) *crashDisk {
	return &crashDisk{
		rng: rand.New(rand.NewPCG(seed, 1)), names: map[string]*inode{}, stable: map[string]*inode{},
		capacity: 1 << 30, fuse: -1, failing: map[string]bool{}, ops: map[string]int{},
	}
}

// startOp accounts for one operation that changes something. now says that the machine
// crashes in the midst of it. d.mu is held.
func (d *crashDisk) startOp(op string) (now bool, err error) {
	if d.dead {
		return false, errCrashed
	}
	d.ops[op]++
	if d.failing[op] {
		return false, errInjected
	}
	if d.fuse == 0 && d.failOnce {
		d.fuse = -1
		return false, errInjected
	}
	if d.fuse == 0 {
		d.dead = true
		return true, nil
	}
	d.fuse--
	return false, nil
}

// changeNames is an operation on names.
func (d *crashDisk) changeNames(op string, c nameChange) error {
	now, err := d.startOp(op)
	if err != nil {
		return err
	}
	d.pending = append(d.pending, c)
	c.apply(d.names)
	if now {
		return errCrashed
	}
	return nil
}

func (c nameChange) apply(names map[string]*inode) {
	if c.from == "" {
		names[c.to] = c.node
		return
	}
	n, ok := names[c.from]
	delete(names, c.from)
	if ok && c.to != "" {
		names[c.to] = n
	}
}

// crash returns the disk as the next boot finds it; this one is dead from now on.
// keep is the share of unsynced blocks and names that survive.
func (d *crashDisk) crash(keep float64) *crashDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	after := newCrashDisk(d.rng.Uint64())
	after.capacity = d.capacity
	names := maps.Clone(d.stable)
	for _, c := range d.pending {
		if d.rng.Float64() < keep {
			c.apply(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		data := names[name].crashData(d.rng, keep)
		n := &inode{data: data, stable: slices.Clone(data), dirty: map[int]bool{}}
		after.names[name], after.stable[name] = n, n
	}
	return after
}

// crashData returns what is on stable storage after a crash. Of a block that was
// being written some sectors may be new, others old, and some are neither.
func (n *inode) crashData(rng *rand.Rand, keep float64) []byte {
	data := slices.Clone(n.stable)
	for _, block := range slices.Sorted(maps.Keys(n.dirty)) {
		if rng.Float64() >= keep {
			continue
		}
		from, to := block*blockBytes, min((block+1)*blockBytes, len(n.data))
		if len(data) < to {
			data = append(data, make([]byte, to-len(data))...)
		}
		for ; from < to; from += 512 {
			sector := data[from:min(from+512, to)]
			switch {
			case keep == 1 || rng.IntN(8) > 0:
				copy(sector, n.data[from:])
			case rng.IntN(4) == 0:
				sector[rng.IntN(len(sector))] ^= 0x80 // neither: the power went in the midst of it
			}
		}
	}
	return data
}

func (d *crashDisk) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &inode{dirty: map[int]bool{}}
	if err := d.changeNames("create", nameChange{to: name, node: n}); err != nil {
		return nil, err
	}
	return &diskFile{d: d, n: n}, nil
}

func (d *crashDisk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.names[name]
	if d.dead || !ok {
		return nil, fmt.Errorf("open %s: %w", name, errCrashed)
	}
	return &diskFile{d: d, n: n}, nil
}

func (d *crashDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changeNames("remove", nameChange{from: name})
}

func (d *crashDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.names[to]; taken {
		panic("rename onto an existing file: " + to)
	}
	return d.changeNames("rename", nameChange{from: from, to: to})
}

func (d *crashDisk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errCrashed
	}
	return slices.Collect(maps.Keys(d.names)), nil
}

func (d *crashDisk) SyncDir() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.startOp("syncdir")
	if err != nil || now {
		return errors.Join(err, errCrashed)
	}
	d.stable, d.pending = maps.Clone(d.names), nil
	return nil
}

func (d *crashDisk) Free() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.freeBytes(), nil
}

func (d *crashDisk) freeBytes() int64 {
	free := d.capacity
	for _, n := range d.names {
		free -= int64(len(n.data))
	}
	return free
}

// configure changes the disk's condition.
func (d *crashDisk) configure(f func(d *crashDisk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

type diskFile struct {
	d      *crashDisk
	n      *inode
	closed bool
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.dead || f.closed {
		return 0, errCrashed
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// writeCache puts bytes into the cache. d.mu is held.
func (f *diskFile) writeCache(op string, p []byte, off int64) (now bool, err error) {
	if f.closed {
		panic("write to a closed file")
	}
	if now, err = f.d.startOp(op); err != nil {
		return false, err
	}
	end := int(off) + len(p)
	if grow := end - len(f.n.data); grow > 0 {
		if int64(grow) > f.d.freeBytes() {
			return false, ErrDiskFull
		}
		f.n.data = append(f.n.data, make([]byte, grow)...)
	}
	copy(f.n.data[off:], p)
	for b := int(off) / blockBytes; b*blockBytes < end; b++ {
		f.n.dirty[b] = true
	}
	return now, nil
}

// flush moves blocks from the cache to stable storage. d.mu is held.
func (n *inode) flush(from, to int) {
	if len(n.stable) < len(n.data) {
		n.stable = append(n.stable, make([]byte, len(n.data)-len(n.stable))...)
	}
	for b := from / blockBytes; b*blockBytes < to; b++ {
		if n.dirty[b] {
			copy(n.stable[b*blockBytes:], n.data[b*blockBytes:min((b+1)*blockBytes, len(n.data))])
			delete(n.dirty, b)
			delete(n.unwritten, b)
		}
	}
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	now, err := f.writeCache("write", p, off)
	if now {
		err = errCrashed
	}
	return len(p), err
}

func (f *diskFile) WriteDurable(p []byte, off int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	now, err := f.writeCache("durable", p, off)
	switch {
	case err != nil:
		return err
	case now:
		return errCrashed
	}
	f.n.flush(int(off), int(off)+len(p))
	return nil
}

// Sync fails as that of Linux does: what could not be written counts as clean from then on, so
// that readers see it, and the next Sync has nothing to do.
func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	now, err := f.d.startOp("sync")
	if errors.Is(err, errInjected) {
		if f.n.unwritten == nil {
			f.n.unwritten = map[int]bool{}
		}
		maps.Copy(f.n.unwritten, f.n.dirty)
		clear(f.n.dirty)
	}
	if err != nil || now {
		return errors.Join(err, errCrashed)
	}
	f.n.flush(0, len(f.n.data))
	return nil
}

// DropCache drops blocks that count as clean and were never written.
func (f *diskFile) DropCache() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	for b := range f.n.unwritten {
		if f.n.dirty[b] {
			continue
		}
		block := f.n.data[b*blockBytes : min((b+1)*blockBytes, len(f.n.data))]
		clear(block[copy(block, f.n.stable[min(b*blockBytes, len(f.n.stable)):]):])
		delete(f.n.unwritten, b)
	}
	return nil
}

func (f *diskFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *diskFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.closed = true
	return nil
}
