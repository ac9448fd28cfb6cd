package cleave

import (
	"io"
	"math/rand/v2"
	"sync"

	"github.com/cleavekv/cleave/internal/store"
)

// crashDisk is a disk that crashes. The file system below takes a lock twice
// while it makes a lock file, which a crash in between would turn into a
// deadlock: so the two exclude each other.
type crashDisk struct {
	*store.Crashable
	locking sync.Mutex
}

func newCrashDisk() *crashDisk { return &crashDisk{Crashable: store.NewCrashable()} }

// FS is where a store puts its files.
func (d *crashDisk) FS() store.FS { return crashFS{d.Crashable.FS(), &d.locking} }

// Crash returns what a machine finds after a crash now.
func (d *crashDisk) Crash(percent int, rng *rand.Rand) *crashDisk {
	d.locking.Lock()
	defer d.locking.Unlock()
	return &crashDisk{Crashable: d.Crashable.Crash(percent, rng)}
}

type crashFS struct {
	store.FS
	locking *sync.Mutex
}

func (f crashFS) Lock(name string) (io.Closer, error) {
	f.locking.Lock()
	defer f.locking.Unlock()
	return f.FS.Lock(name)
}
