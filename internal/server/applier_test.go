package server

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

// heldTables is a disk on which no table is made while it is held: what is committed is not applied then.
type heldTables struct {
	held    atomic.Bool
	release chan struct{}
}

func (d *heldTables) String() string { return "held" }

// MaybeError implements errorfs.Injector.
func (d *heldTables) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && d.held.Load() {
		<-d.release
	}
	return nil
}

// Where a commit waits for the tables, so do all clients of its loop, also those that read. Those of the other loop are served.
func TestLoops_CommitWaitsForTables_OtherLoopsRead(t *testing.T) {
	disk := &heldTables{release: make(chan struct{})}
	sh := serverShape{stores: 1, groups: 1, loops: 2, stay: true}
	o := sh.options()
	o.Durability, o.CacheBytes, o.HeatOff = cleave.Never, 1<<20, true
	db, err := smallstore.Open("disk", o, errorfs.Wrap(vfs.NewMem(), disk))
	if err != nil {
		t.Fatal(err)
	}
	l := startOn(t, db, sh, Options{})
	readers := []*testConn{l.dial(), l.dial(), l.dial(), l.dial()}
	for _, c := range readers {
		c.ask("SET small 1")
	}
	writer := l.dial()
	disk.held.Store(true)
	stop := make(chan struct{})
	go func() {
		request := encodeRequest("SET", "large", strings.Repeat("v", 16<<10))
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := writer.Write(request); err != nil {
					return
				}
			}
		}
	}()
	go func() { _, _ = io.Copy(io.Discard, writer.in) }()
	waitUntil(t, "a commit waits, and the tables for the disk", func() bool {
		s := db.Metrics().Stores[0]
		return s.CommitWaits > 0 && s.ApplierStalls > 0
	})
	answers := make(chan error, len(readers))
	for _, c := range readers {
		c.send("GET small")
		go func() {
			_, err := c.in.ReadString('\n')
			answers <- err
		}()
	}
	for i := range readers {
		if i == len(readers)/2 {
			close(disk.release)
			close(stop)
		}
		if err := <-answers; err != nil {
			t.Fatalf("%d of %d clients were answered: %v", i, len(readers), err)
		}
	}
}
