package store

import (
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system under a store.
type FS = vfs.FS

// Crashable is a file system in memory that can lose what was not synced, for
// simulations and tests of crashes.
type Crashable struct{ mem *vfs.MemFS }

// NewCrashable returns an empty one.
func NewCrashable() *Crashable { return &Crashable{vfs.NewCrashableMem()} }

// FS is where a store puts its files.
func (c *Crashable) FS() FS { return c.mem }

// Crash returns what a machine would find after a crash at this moment: all
// that was synced, and of the rest each block and each name with a chance of
// percent in a hundred. The old file system goes on, cut off from the new.
func (c *Crashable) Crash(percent int, rng *rand.Rand) *Crashable {
	return &Crashable{c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
}
