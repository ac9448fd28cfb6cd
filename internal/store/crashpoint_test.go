package store

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashAt takes the state of the disk before the operation of that number.
type crashAt struct {
	fs    *vfs.MemFS
	keep  int
	rng   *rand.Rand
	left  atomic.Int64
	image atomic.Pointer[vfs.MemFS]
	seen  atomic.Int64
}

func (c *crashAt) String() string { return "crash" }

func (c *crashAt) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.seen.Add(1)
	if c.left.Add(-1) == 0 {
		c.image.Store(c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.keep, RNG: c.rng}))
	}
	return nil
}

// crashDuring runs work on a copy of base, crashes it before one of its writes
// to the disk, and returns what the disk was then; nil if work had fewer.
func crashDuring(base *vfs.MemFS, rng *rand.Rand, at int64, work func(vfs.FS)) (image *vfs.MemFS, writes int64) {
	c := &crashAt{rng: rng, keep: []int{0, 50, 100}[rng.IntN(3)]}
	c.fs = base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	c.left.Store(at)
	work(errorfs.Wrap(c.fs, c))
	return c.image.Load(), c.seen.Load()
}

// unapplied leaves a disk with rows in Pebble, in a log that was not applied,
// and in segments that could be recycled.
func crashedDisk(t *testing.T, rng *rand.Rand) (*vfs.MemFS, model) {
	fsys := vfs.NewCrashableMem()
	s := mustOpen(t, anyhow(fsys, rng))
	m := model{}
	for range 120 {
		ws := testWrites(rng, 200)
		mustCommit(t, s, ws...)
		m.apply(ws...)
	}
	image := fsys.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	return image, m
}

func TestACrashAtAnyWriteOfOpenWorkAndCloseLosesNothing(t *testing.T) {
	var did counts
	for _, seed := range seeds(t, 2) {
		rng := newRNG(t, seed)
		base, m := crashedDisk(t, rng)
		work := func(fsys vfs.FS) {
			s := mustOpen(t, tiny(fsys))
			mustClose(t, s)
		}
		_, writes := crashDuring(base, rng, 0, work)
		for range max(3, 24/slow) {
			image, _ := crashDuring(base, rng, 1+rng.Int64N(writes), work)
			if image == nil {
				continue
			}
			did.add("crashes in Open, apply, flush, recycling and Close", 1)
			s := mustOpen(t, anyhow(image, rng))
			if err := m.compare(s, nil, nil, false); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}
		did.add("writes that could be hit", int(writes))
	}
	did.log(t)
}

func TestACrashAtAnyWriteOfCreationLeavesADirectoryThatOpens(t *testing.T) {
	var did counts
	for _, seed := range seeds(t, 1) {
		rng := newRNG(t, seed)
		base := vfs.NewCrashableMem()
		work := func(fsys vfs.FS) {
			s := mustOpen(t, tiny(fsys))
			mustCommit(t, s, write{[]byte("k"), []byte("v")})
			mustClose(t, s)
		}
		_, writes := crashDuring(base, rng, 0, work)
		for at := int64(1); at <= writes; at += slow {
			image, _ := crashDuring(base, rng, at, work)
			if image == nil {
				continue
			}
			did.add("crashes in creation", 1)
			s := mustOpen(t, tiny(image))
			if v, ok := mustGet(t, s, []byte("k")); ok && string(v) != "v" {
				t.Fatalf("crash at write %d: %q", at, v)
			}
			mustCommit(t, s, write{[]byte("k"), []byte("w")})
			mustClose(t, s)
			s = mustOpen(t, tiny(image))
			if v, ok := mustGet(t, s, []byte("k")); !ok || string(v) != "w" {
				t.Fatalf("crash at write %d, then a commit: %q %v", at, v, ok)
			}
			mustClose(t, s)
		}
	}
	did.log(t)
}
