package store

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/storage/memruns"
)

// A store dies if the directory of its tables cannot be synced, or that which has its name. One of
// a checkpoint is not its own, also where it is within or beside it.
func TestAStoreDiesOfItsOwnDirectories(t *testing.T) {
	const data = testDir + "/" + dataDir
	for name, own := range map[string]bool{
		data: true, testDir: true,
		"/": false, data + "/backup": false, testDir + "/backup": false, testDir + "2/" + dataDir: false, "/backup": false,
	} {
		f := &faultInjector{match: func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync }, err: errDisk}
		h := &health{wake: func() {}}
		g := newGuardedFS(errorfs.Wrap(vfs.NewMem(), f), h, data)
		if err := g.MkdirAll(name, 0); err != nil {
			t.Fatal(err)
		}
		dir, err := g.OpenDir(name)
		if err != nil {
			t.Fatal(err)
		}
		f.on.Store(true)
		if err := dir.Sync(); err != nil {
			t.Errorf("%s: %v: Pebble would panic", name, err)
		}
		if err := h.err(); own != errors.Is(err, ErrFailed) || own != errors.Is(err, errDisk) {
			t.Errorf("%s: the store is dead: %v, want %v", name, err, own)
		}
		if err := g.takeCheckpointError(name, "/other"); own == errors.Is(err, errDisk) {
			t.Errorf("%s: whoever makes a checkpoint there hears %v", name, err)
		}
		if err := g.takeCheckpointError(name); err != nil {
			t.Errorf("%s: it is told twice: %v", name, err)
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}
}

// countYields counts how often others get the only processor while f runs.
func countYields(f func()) (turns int64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var n atomic.Int64
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			n.Add(1)
			runtime.Gosched()
		}
	}()
	for n.Load() == 0 {
		runtime.Gosched()
	}
	before := n.Load()
	f()
	turns = n.Load() - before
	stop.Store(true)
	<-ended
	return turns
}

// maxYields is company, tried some times: on a machine that is busy with something else no goroutine gets
// many turns.
func maxYields(f func()) (turns int64) {
	for try := 0; try < 10 && turns < 16; try++ {
		turns = max(turns, countYields(f))
	}
	return turns
}

// What Pebble writes in the background gives way more often than it is made to.
func TestYieldingFile_Written_YieldsOften(t *testing.T) {
	f, err := newGuardedFS(vfs.NewMem(), new(health), "").Create("000001.sst", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	turns := maxYields(func() {
		for range 64 { // a tenth of a millisecond and more each
			if _, err := f.Write(block); err != nil {
				t.Error(err)
			}
		}
	})
	if turns < 16 {
		t.Errorf("others got the processor %d times while 64 blocks were written", turns)
	}
}

// So does the preparation of batches.
func TestNewEngineBatch_ManyOperations_YieldsOften(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: new(health)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var set memruns.Set
	value := make([]byte, 1<<14)
	for i := range 4096 {
		set.Append(memruns.Op{Key: binary.BigEndian.AppendUint16(nil, uint16(i)), Value: value})
	}
	ops := memruns.Drain(nil, &set)
	turns := maxYields(func() {
		if err := newEngineBatch(db, ops, 0).Close(); err != nil {
			t.Error(err)
		}
	})
	if turns < 16 { // 64 operations take a tenth of a millisecond and more
		t.Errorf("others got the processor %d times while %d operations were taken", turns, len(ops))
	}
}
