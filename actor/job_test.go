package actor_test

import (
	"testing"

	"github.com/cleavekv/cleave/actor"
)

// job is a message for tests that need to steer the handler.
type job struct {
	id    int
	until chan struct{} // block until it is closed
	run   func()        // then do this
}

// diary is the ids of the jobs handled, in order.
type diary []int

func (d *diary) handle(j job) int {
	if j.until != nil {
		<-j.until
	}
	if j.run != nil {
		j.run()
	}
	*d = append(*d, j.id)
	return j.id
}

func (d *diary) handleAll(js []job, rs []int) {
	for i, j := range js {
		rs[i] = d.handle(j)
	}
}

type worker = actor.Actor[diary, job, int]

func newWorker(t *testing.T, o actor.Options) *worker {
	t.Helper()
	return makeWorker(t, actor.Each((*diary).handle), o)
}

func newBatchWorker(t *testing.T, o actor.Options) *worker {
	t.Helper()
	return makeWorker(t, actor.Batch((*diary).handleAll), o)
}

func makeWorker(t *testing.T, h actor.Handler[diary, job, int], o actor.Options) *worker {
	t.Helper()
	a, err := actor.New(diary{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bothModes runs f for each way of running.
func bothModes(t *testing.T, f func(t *testing.T, mode actor.Mode)) {
	for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}
