package store

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/runs"
)

// company counts how often others get the only processor while f runs.
func company(f func()) (turns int64) {
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

// bestOf is company, tried some times: on a machine that is busy with something else nobody gets many
// turns.
func bestOf(f func()) (turns int64) {
	for try := 0; try < 10 && turns < 16; try++ {
		turns = max(turns, company(f))
	}
	return turns
}

// What Pebble writes in the background gives way more often than it is made to.
func TestTablesAreWrittenPolitely(t *testing.T) {
	f, err := newGuard(vfs.NewMem(), new(health), "").Create("000001.sst", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	turns := bestOf(func() {
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

// So does who prepares them.
func TestBatchesAreMadePolitely(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: new(health)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var set runs.Set
	value := make([]byte, 1<<14)
	for i := range 4096 {
		set.Append(runs.Op{Key: binary.BigEndian.AppendUint16(nil, uint16(i)), Value: value})
	}
	ops := runs.Drain(nil, &set)
	turns := bestOf(func() {
		if err := batchOf(db, ops, 0).Close(); err != nil {
			t.Error(err)
		}
	})
	if turns < 16 { // 64 operations take a tenth of a millisecond and more
		t.Errorf("others got the processor %d times while %d operations were taken", turns, len(ops))
	}
}
