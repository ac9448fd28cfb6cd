package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

// A client that is not answered yet when a keyspace is emptied may read what is newer, and gets
// what comes after that.
func TestWhoReadsWhileAKeyspaceIsEmptiedHearsOfLaterChanges(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, other := l.dial(), l.dial()
		words := "MSET"
		for i := range maxClearedKeys + 1 {
			words += fmt.Sprintf(" k%d x", i)
		}
		other.runScript(words + " -> OK")
		c.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK\nMULTI -> OK\nGET k1 -> QUEUED")
		other.runScript("FLUSHALL -> OK\nSET k1 new -> OK")
		c.send("EXEC")
		for got := ""; got != "[new]"; {
			if got = c.readReply(); got != "[new]" && !strings.HasPrefix(got, "[invalidate ") {
				t.Fatal(got)
			}
		}
		other.runScript("SET k1 newer -> OK")
		for c.readReply() != "[invalidate [k1]]" {
		}
	})
}

// Nothing is noted for a MULTI that is not executed any more: it may have no end.
func TestNothingIsTrackedForAMultiThatHasFailed(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	w.takeRequests(h.c, []byte("HELLO 3\r\n"))
	h.waitIdle()
	w.takeRequests(h.c, []byte("CLIENT TRACKING ON\r\nMULTI\r\nNOSUCH\r\nGET a\r\nGET b\r\n"))
	w.commit()
	if n := len(h.c.unansweredReads); n != 0 || !strings.HasSuffix(string(h.c.Out.Bytes), "+QUEUED\r\n+QUEUED\r\n") {
		t.Errorf("%d keys are tracked, and answered was %q", n, h.c.Out.Bytes)
	}
}

// A read that was not answered yet reads what has changed meanwhile, so the client notified for it gets
// what comes after that, whatever the client asks for behind it.
func TestReadsOfTheDiskAreTrackedUntilTheyAreAnswered(t *testing.T) {
	l := startCold(t, shapes[0], 2, "k")
	told, other := l.dial(), l.dial()
	id := strings.Trim(told.ask("CLIENT ID"), "()")
	told.runScript("SUBSCRIBE __redis__:invalidate -> [subscribe __redis__:invalidate (1)]")
	w := newWorker(l.s, rowKeyBytes)
	h := newManualClient(t, l)
	w.takeRequests(h.c, []byte("CLIENT TRACKING ON REDIRECT "+id+"\r\n"))
	w.commit()
	h.c.Out.Bytes = nil
	w.takeRequests(h.c, []byte("GET k0\r\nGET k1\r\n"))
	other.runScript("SET k0 new -> OK")
	const message = "[message __redis__:invalidate [k0]]"
	if got := told.readReply(); got != message {
		t.Error(got)
	}
	w.commit()
	h.waitIdle()
	if got := string(h.c.Out.Bytes); got != "$3\r\nnew\r\n$1\r\n1\r\n" {
		t.Errorf("answered was %q", got)
	}
	h.c.RecordAnswered() // as it is written
	other.runScript("SET k0 newer -> OK")
	if got := told.readReply(); got != message {
		t.Error(got)
	}
}

// A client that others name as their target receives changes as long as it listens. A client that does not
// listen, or listens to something else, would take them for answers.
func TestWhoIsNamedByOthersHearsOnlyWhatItListensTo(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c, named, watch := l.dial(), l.dial(), l.dial()
		id := strings.Trim(named.ask("CLIENT ID"), "()")
		watch.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON BCAST -> OK")
		c.runScript("CLIENT TRACKING ON REDIRECT " + id + " BCAST -> OK")
		told := func(key string) {
			t.Helper()
			c.runScript("SET " + key + " 1 -> OK")
			watch.readReply()
			l.s.tracker.Len() // it waits until all are notified
		}
		told("x")
		named.runScript("GET none -> (nil)\nSUBSCRIBE other -> [subscribe other (1)]")
		told("y")
		named.runScript("PING a -> [pong a]\nUNSUBSCRIBE -> [unsubscribe other (0)]\nSUBSCRIBE __redis__:invalidate -> [subscribe __redis__:invalidate (1)]")
		told("z")
		if got := named.readReply(); got != "[message __redis__:invalidate [z]]" {
			t.Errorf("it hears %s", got)
		}
		named.runScript("UNSUBSCRIBE -> [unsubscribe __redis__:invalidate (0)]")
		told("x")
		named.runScript("GET none -> (nil)\nECHO a -> a")
	})
}

// setShortDeadline is how long a notification to the client may take.
func (c *testConn) setShortDeadline() { _ = c.SetDeadline(time.Now().Add(eventually.Limit())) }

// A keyspace is dropped, by an operator or the program that embeds the store, and made again. All
// tracking clients are notified that everything has changed, however they track.
func TestWhoTracksHearsThatAKeyspaceIsDropped(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		reader, listener, told, redirects := l.dial(), l.dial(), l.dial(), l.dial()
		id := strings.Trim(told.ask("CLIENT ID"), "()")
		told.runScript("SUBSCRIBE __redis__:invalidate -> [subscribe __redis__:invalidate (1)]")
		for i := range 2 {
			if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				reader.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK")
				listener.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON BCAST PREFIX none -> OK")
				redirects.runScript("CLIENT TRACKING ON REDIRECT " + id + " -> OK")
			}
			reader.runScript("SELECT s -> OK\nGET k -> (nil)")
			redirects.runScript("SELECT s -> OK\nGET k -> (nil)")
			if err := l.db.DropKeyspace(ctx, "s"); err != nil {
				t.Fatal(err)
			}
			for c, want := range map[*testConn]string{reader: "[invalidate (nil)]", listener: "[invalidate (nil)]", told: "[message __redis__:invalidate (nil)]"} {
				c.setShortDeadline()
				if got := c.readReply(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	})
}

// badLog is a disk that cannot read logs while it fails.
type badLog struct{ fails, failed atomic.Bool }

func (d *badLog) String() string { return "bad log" }

// MaybeError implements errorfs.Injector.
func (d *badLog) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".wal") && d.fails.Load() {
		d.failed.Store(true)
		return errorfs.ErrInjected
	}
	return nil
}

// The log cannot be read for a moment, and the store goes on. Tracking clients are notified that everything has
// changed, and of each change after that.
func TestTrackingOutlivesALogThatCannotBeReadForAMoment(t *testing.T) {
	disk := new(badLog)
	db, err := smallstore.Open("disk", shapes[0].options(), errorfs.Wrap(vfs.NewMem(), disk))
	if err != nil {
		t.Fatal(err)
	}
	l := startOn(t, db, shapes[0], Options{})
	c, other := l.dial(), l.dial()
	other.runScript("SET k old -> OK")
	c.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK\nGET k -> old")
	c.setShortDeadline()
	disk.fails.Store(true)
	other.runScript("SET k new -> OK")
	for !disk.failed.Load() {
		time.Sleep(time.Millisecond)
	}
	disk.fails.Store(false)
	const all = "[invalidate (nil)]"
	if got := c.readReply(); got != all {
		t.Errorf("%s, want %s", got, all)
	}
	c.send("GET k")
	for c.readReply() != "new" { // it may be notified again before it is answered
	}
	other.runScript("SET k newer -> OK")
	for got := all; got == all; {
		if got = c.readReply(); got != all && got != "[invalidate [k]]" {
			t.Error(got)
		}
	}
}
