package queue

import (
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

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
	q := open(t, db, ks, "q", Options{})
	spread(t, db, ks, "q")
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
	work(func(i int) error { time.Sleep(20 * time.Millisecond); return moveSome(db, i) })
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
