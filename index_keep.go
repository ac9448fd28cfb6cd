package cleave

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/wal"
)

// keepers are the goroutines of a DB that look after indexes.
type keepers struct {
	mu   sync.Mutex
	ctx  context.Context // ends when the DB is closed
	stop context.CancelFunc
	done sync.WaitGroup
	by   map[*node.Space]*keeper // by the keyspace of the entries
}

// open begins to look after the indexes that there are.
func (ks *keepers) open(db *DB) {
	ks.ctx, ks.stop = context.WithCancel(context.Background())
	ks.by = map[*node.Space]*keeper{}
	for _, x := range db.node.AllIndexes() {
		ks.start(db, x)
	}
}

// close ends all of them.
func (ks *keepers) close() {
	ks.mu.Lock()
	ks.stop()
	ks.mu.Unlock()
	ks.done.Wait()
}

// start begins to look after an index, or wakes whoever does because it has changed.
func (ks *keepers) start(db *DB, x *node.Index) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if k := ks.by[x.Entries]; k != nil {
		k.wake()
		return
	}
	k := &keeper{ix: db.indexOf(x), mode: x.Mode, woken: make(chan struct{}, 1), changed: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ks.ctx)
	ks.by[x.Entries] = k
	if x.Mode == index.Transactional && x.IsReady() || ks.ctx.Err() != nil {
		k.cancel()
		return
	}
	ks.done.Go(func() {
		defer k.cancel()
		k.run()
	})
}

// forget ends those who look after an index that was dropped.
func (ks *keepers) forget() {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for entries, k := range ks.by {
		if entries.Check() != nil {
			k.cancel()
			delete(ks.by, entries)
		}
	}
}

// of returns who looks after an index, nil if that is nobody yet: whoever makes an index
// starts its keeper when others can see it already.
func (ks *keepers) of(ix *Index) *keeper {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return ks.by[ix.entries.space]
}

// keeper builds an index, and follows the feed for an asynchronous one.
type keeper struct {
	ix     *Index
	mode   index.Mode
	ctx    context.Context
	cancel context.CancelFunc
	woken  chan struct{}

	mu     sync.Mutex
	status keeperStatus
	// changed is closed when status is another.
	changed chan struct{}
}

// keeperStatus is what is known about the keeper's work.
type keeperStatus struct {
	err     error  // why it stands still
	built   uint64 // rows, since it began to build
	refused uint64
	rebuilt uint64
	// at is the place in the feed up to which the index has everything, and since when
	// it is known to have been there; empty if it is not following.
	at      []wal.Position
	freshAt time.Time
}

func (k *keeper) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// note changes the status.
func (k *keeper) note(change func(*keeperStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.status)
	close(k.changed)
	k.changed = make(chan struct{})
}

// look returns the status, and a channel that is closed when it is another; nothing if
// there is no keeper yet.
func (k *keeper) look() (keeperStatus, <-chan struct{}) {
	if k == nil {
		return keeperStatus{}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status, k.changed
}

// How long a keeper waits after an error before it tries again.
const (
	keeperPause    = 50 * time.Millisecond
	keeperMaxPause = 5 * time.Second
)

// run works until there is nothing more to do. An error is shown in the status, and
// tried again: somebody may repair the row, or declare the function.
func (k *keeper) run() {
	for pause := keeperPause; ; pause = min(2*pause, keeperMaxPause) {
		began := time.Now()
		err := k.work()
		if k.ctx.Err() != nil || err == nil || errors.Is(err, node.ErrNoIndex) {
			return
		}
		if time.Since(began) > keeperMaxPause {
			pause = keeperPause // it has done something
		}
		k.note(func(s *keeperStatus) { s.err = err })
		select {
		case <-k.ctx.Done():
			return
		case <-k.woken:
		case <-time.After(pause):
		}
	}
}

// work builds the index, and follows.
func (k *keeper) work() error {
	x, err := k.ix.now()
	if err != nil {
		return err
	}
	if x.Extract == nil {
		return undeclared(x)
	}
	if k.mode == index.Asynchronous {
		return k.follow()
	}
	if x.IsReady() {
		return nil
	}
	if err := k.build(x); err != nil {
		return err
	}
	k.note(func(s *keeperStatus) { s.err = nil })
	return nil
}

// rest lets others work for as long as something took.
func (k *keeper) rest(took time.Duration) {
	select {
	case <-k.ctx.Done():
	case <-time.After(min(took, keeperPause)):
	}
}

// Wait waits until all rows have their entries. If ctx ends first, the error also says
// why the index stands still, if it does.
func (ix *Index) Wait(ctx context.Context) error {
	for {
		status, changed := ix.db.keepers.of(ix).look()
		x, err := ix.now()
		if err != nil {
			return public(err)
		}
		if x.IsReady() {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(keeperPause): // it may be dropped
			if err := ix.db.node.Closed(); err != nil {
				return public(err)
			}
		case <-ctx.Done():
			return waited(ctx, status.err)
		}
	}
}

// waited is the error of who has waited for too long for an index, with why it stands
// still if it does.
func waited(ctx context.Context, why error) error {
	if why != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), why)
	}
	return ctx.Err()
}
