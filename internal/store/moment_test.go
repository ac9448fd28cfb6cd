package store

import (
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// One client counts in the first store and then in the last, so at no moment is the
// last one ahead. The more stores are between the two, the longer the look takes.
func TestSnapshotsOfSeveralStoresAreOfOneMoment(t *testing.T) {
	stores := make([]*Store, 6)
	for i := range stores {
		stores[i] = mustOpen(t, tiny(vfs.NewMem()))
		mustCommit(t, stores[i], write{[]byte("k"), []byte("0")})
	}
	stop := make(chan struct{})
	var client sync.WaitGroup
	client.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			mustCommit(t, stores[0], write{[]byte("k"), []byte(strconv.Itoa(n))})
			mustCommit(t, stores[len(stores)-1], write{[]byte("k"), []byte(strconv.Itoa(n))})
		}
	})
	for range 4000 / slow {
		snaps, err := Snapshots(stores...)
		if err != nil {
			t.Fatal(err)
		}
		first, last := number(t, snaps[0]), number(t, snaps[len(snaps)-1])
		for _, snap := range snaps {
			mustClose(t, snap)
		}
		if last > first || last < first-1 {
			t.Errorf("the first counts %d, the last %d", first, last)
			break
		}
	}
	close(stop)
	client.Wait()
}

func number(t *testing.T, s *Snapshot) int {
	t.Helper()
	text, _, err := s.Get([]byte("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
