package queue

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

// slowDisk has two stores, and crashes. When one of them is slow its syncs wait.
type slowDisk struct {
	*store.CrashableFS
	slowStore atomic.Int32 // which one; -1 for none
	release   chan struct{}
}

func newSlowDisk(c *store.CrashableFS) *slowDisk {
	d := &slowDisk{CrashableFS: c, release: make(chan struct{})}
	d.slowStore.Store(-1)
	return d
}

func (d *slowDisk) String() string { return "slow disk" }

// MaybeError implements [errorfs.Injector].
func (d *slowDisk) MaybeError(op errorfs.Op) error {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
	if sync && strings.HasPrefix(op.Path, fmt.Sprintf("disk/%d/", d.slowStore.Load())) {
		<-d.release
	}
	return nil
}

func (d *slowDisk) openQueueStore(t *testing.T) (*cleave.DB, *cleave.Keyspace) {
	t.Helper()
	db, err := smallstore.Open("disk", cleave.Options{Stores: 2, Groups: 2, Durability: cleave.Never}, errorfs.Wrap(d.FS(), d))
	must(t, err)
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	must(t, err)
	return db, ks
}

// keyOnStore returns a key of the default keyspace that is on a store.
func keyOnStore(db *cleave.DB, store int) []byte {
	for i := 0; ; i++ {
		if k := fmt.Append(nil, "key", i); db.Default().Locate(k).Store == store {
			return k
		}
	}
}

// A message whose Ack was a part of a transaction that a crash takes back is delivered again,
// though its queue had seen that it was gone, and had gone on.
func TestAMessageWhoseAckIsTakenBackComesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		messages int
		close    func(*Queue) error
	}{
		"the head goes on":      {messagesPerHeadSave, func(*Queue) error { return nil }},
		"the bucket is drained": {1, func(q *Queue) error { return q.Resize(ctx, 2) }},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newSlowDisk(store.NewCrashableFS())
			db, ks := disk.openQueueStore(t)
			q := openQueue(t, db, ks, "q", Options{Shards: 1})
			at := ks.Locate(nil).Store
			list := make([]Message, c.messages)
			for i := range list {
				list[i].Body = fmt.Append(nil, i)
			}
			must(t, q.Publish(ctx, list...))
			var all []*Delivery
			for len(all) < len(list) {
				got, err := q.Receive(ctx, maxReceiveMessages)
				must(t, err)
				all = append(all, got...)
			}
			must(t, c.close(q))
			last := all[len(all)-1]
			must(t, q.Ack(ctx, all[:len(all)-1]...))
			syncStores(t, db, 0, 1)

			disk.slowStore.Store(int32(1 - at))
			work := keyOnStore(db, 1-at)
			must(t, db.Update(ctx, func(tx *cleave.Txn) error {
				if err := tx.Set(db.Default(), work, last.Body); err != nil {
					return err
				}
				return q.AckTx(tx, last)
			}))
			received := make(chan error, 1)
			go func() {
				_, err := q.TryReceive(ctx, 1)
				received <- err
			}()
			select {
			case err := <-received:
				must(t, err)
				received <- nil
			case <-time.After(300 * time.Millisecond): // it waits for the slow disk
			}
			syncStores(t, db, at) // as any prepare of others does
			after := disk.Crash(0, nil)
			close(disk.release)
			must(t, <-received)
			must(t, q.Close())
			must(t, db.Close())

			db, ks = newSlowDisk(after).openQueueStore(t)
			defer db.Close()
			if _, err := db.Default().Get(ctx, work); err == nil {
				t.Fatal("the crash took nothing back: the test shows nothing")
			}
			later := func() time.Time { return time.Now().Add(time.Hour) } // when all leases have ended
			q = openQueue(t, db, ks, "q", Options{Now: later})
			got, err := q.TryReceive(ctx, 10)
			must(t, err)
			if len(got) != 1 || string(got[0].Body) != string(last.Body) {
				t.Errorf("after the crash %q come, not %q", deliveryBodies(got), last.Body)
			}
		})
	}
}

func syncStores(t *testing.T, db *cleave.DB, stores ...int) {
	t.Helper()
	for _, i := range stores {
		must(t, smallstore.Engine(db).Node().StoreHosts()[i].Store.Sync())
	}
}

// envChild tells a process of this test that it is the one that is killed, and where
// its store is.
const envChild = "CLEAVE_QUEUE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChild); dir != "" {
		runWorkers(dir)
	}
	os.Exit(m.Run())
}

func openQueues(dir string) (*cleave.DB, *cleave.Keyspace, error) {
	db, err := cleave.Open(dir, cleave.Options{})
	if err != nil {
		return nil, nil, err
	}
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	return db, ks, err
}

// runWorkers publishes and consumes, and says what was acknowledged to it.
func runWorkers(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	say := func(what string, body []byte) { _, _ = os.Stdout.WriteString(what + " " + string(body) + "\n") }
	db, ks, err := openQueues(dir)
	fail(err)
	q, err := Open(ctx, db, ks, "q", Options{Lease: time.Second, MaxDeliveries: 1000})
	fail(err)
	for w := range 2 {
		go func() {
			for i := 0; ; i++ {
				m := Message{Key: fmt.Appendf(nil, "k%d", w), Body: fmt.Appendf(nil, "%d-%d-%d", os.Getpid(), w, i)}
				fail(q.Publish(ctx, m))
				say("published", m.Body)
			}
		}()
	}
	go func() {
		for i := 0; ; i++ {
			fail(q.Resize(ctx, []int{2, 8, 3}[i%3]))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for {
		got, err := q.Receive(ctx, 3)
		fail(err)
		for _, d := range got {
			say("received", d.Body)
			fail(q.Ack(ctx, d))
			say("acked", d.Body)
		}
	}
}

// What was published comes, and what was acknowledged does not come again, when the
// process is killed.
func TestMessagesSurviveAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	published, received, acked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for range 2 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envChild+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		stop := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() })
		lines, n := bufio.NewScanner(out), 0
		for lines.Scan() {
			what, body, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "published":
				published[body] = true
			case "received":
				if received[body] = true; acked[body] {
					t.Errorf("%s comes again", body)
				}
			case "acked":
				acked[body] = true
				if n++; n == 40 {
					must(t, child.Process.Kill())
				}
			default:
				t.Error(lines.Text())
			}
		}
		if _ = child.Wait(); n < 40 {
			t.Fatal("the child ended by itself: the test shows nothing")
		}
		stop.Stop()
	}
	db, ks, err := openQueues(dir)
	must(t, err)
	defer db.Close()
	later := func() time.Time { return time.Now().Add(time.Hour) } // when all leases have ended
	q := openQueue(t, db, ks, "q", Options{MaxDeliveries: 1000, Now: later})
	for {
		got, err := q.TryReceive(ctx, 100)
		must(t, err)
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			if acked[string(d.Body)] {
				t.Errorf("%s comes again", d.Body)
			}
			received[string(d.Body)] = true
		}
		must(t, q.Ack(ctx, got...))
	}
	for body := range published {
		if !received[body] {
			t.Errorf("%s is lost", body)
		}
	}
	must(t, q.Close())
}

// A backup that is taken while messages come, go and change their shards opens as a store
// with a queue that has all that was published before it and not acknowledged by its end,
// and nothing that was acknowledged before it.
func TestABackupHasAQueueThatIsWhole(t *testing.T) {
	dir := t.TempDir()
	db, err := cleave.Open(filepath.Join(dir, "db"), cleave.Options{Stores: 2, Groups: 3})
	must(t, err)
	defer db.Close()
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	must(t, err)
	q := openQueue(t, db, ks, "q", Options{})
	spreadShards(t, db, ks, "q")
	var mu sync.Mutex
	published, acked := map[string]bool{}, map[string]bool{}
	seen := func() (map[string]bool, map[string]bool) {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(published), maps.Clone(acked)
	}
	stop, all := make(chan struct{}), sync.WaitGroup{}
	work := func(f func(i int) error) {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					if err := f(i); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for w := range 2 {
		work(func(i int) error {
			m := Message{Key: fmt.Appendf(nil, "k%d", i%7), Body: fmt.Appendf(nil, "%d-%d", w, i)}
			err := q.Publish(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			published[string(m.Body)] = true
			return err
		})
	}
	work(func(int) error {
		if there, gone := seen(); 2*len(gone) > len(there) { // some are to be left
			time.Sleep(time.Millisecond)
			return nil
		}
		got, err := q.TryReceive(ctx, 3)
		if err == nil {
			err = q.Ack(ctx, got...)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, d := range got {
			acked[string(d.Body)] = true
		}
		return err
	})
	work(func(i int) error { time.Sleep(20 * time.Millisecond); return q.Resize(ctx, []int{2, 8, 3}[i%3]) })
	work(func(i int) error { time.Sleep(20 * time.Millisecond); return moveShard(db, i) })
	for i := range 2 {
		there, gone := seen()
		for more := len(there) + 20; (len(there) < more || len(gone) == 0) && !t.Failed(); there, gone = seen() {
			time.Sleep(10 * time.Millisecond)
		}
		to := filepath.Join(dir, fmt.Sprint("backup", i))
		must(t, db.Backup(ctx, to))
		_, goneAfter := seen()
		checkRestored(t, to, there, gone, goneAfter)
	}
	close(stop)
	all.Wait()
}

// checkRestored holds the queue of a backup against what is known: what had to be there,
// what must not be, and what need not be.
func checkRestored(t *testing.T, dir string, there, gone, goneAfter map[string]bool) {
	t.Helper()
	db, ks, err := openQueues(dir)
	must(t, err)
	defer db.Close()
	later := func() time.Time { return time.Now().Add(time.Hour) }
	q, err := Open(ctx, db, ks, "q", Options{Now: later})
	must(t, err)
	defer q.Close()
	times := map[string]int{}
	for {
		got, err := q.TryReceive(ctx, 1000)
		must(t, err)
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			times[string(d.Body)]++
		}
		must(t, q.Ack(ctx, got...))
	}
	for body, n := range times {
		if n > 1 || gone[body] {
			t.Errorf("%s comes %d times; acknowledged before: %t", body, n, gone[body])
		}
	}
	missing := 0
	for body := range there {
		if times[body] == 0 && !goneAfter[body] {
			missing++
		}
	}
	if missing > 3 { // what one consumer had acknowledged and not yet said
		t.Errorf("%d of %d are missing", missing, len(there))
	}
	if len(times) == 0 {
		t.Error("nothing was left: the test shows nothing")
	}
}
