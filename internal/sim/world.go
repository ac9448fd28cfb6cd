package sim

import (
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Virtual time is in microseconds.
const (
	millisecond int64 = 1000
	second            = 1000 * millisecond
	// epochMS is what the machine's clock says at the beginning.
	epochMS = 1_700_000_000_000
)

var (
	ctx    = context.Background()
	system = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}
	space  = partition.Keyspace{ID: 1, Name: "data", Kind: partition.Range}
	meta   = drive.Catalog{Space: &system}
)

// catalogGroup owns the catalog, for ever.
const catalogGroup partition.GroupID = 1

// world is everything: one loop plays it, event by event.
type world struct {
	cfg    Config
	rng    *rand.Rand
	queue  events
	serial uint64
	now    int64
	jumpMS int64
	trace  hash.Hash64
	events int
	// healing worlds have no faults, and begin nothing.
	healing bool
	// instant orders calls of the history.
	instant int64

	disks []*disk
	// groups are those that are open or were before a crash, and removed those
	// that the map had and has no more.
	groups  []partition.GroupID
	removed map[partition.GroupID]bool
	// lists are what groups owned when they were last looked at.
	lists map[partition.GroupID]*own.List
	// clocks are what they have said.
	clocks map[partition.GroupID]int64
	// unsure tells that something was stored of which nobody heard.
	unsure bool
	// life is one more after each crash of the process.
	life    int
	router  *partition.Map
	runs    []*run
	drivers []*driver
	// phases are those of jobs that have not ended, as they were last stored.
	phases  map[own.Job]mover.Job
	newest  partition.Version
	news    []mover.Job // records that the call at hand has stored
	clients []*client
	history history
	// witnessed counts commits that changed rows, and latest is the last one to each.
	witnessed uint64
	latest    map[string]uint64
	reader    *feedReader
	hub       *hub
	cached    *cached
	// seen are decisions that were there at the last look.
	seen map[txn.ID]bool

	tries  int // the most that a transaction took
	counts map[string]int
	cells  map[Cell]int
	aimed  bool // the aim was hit
}

// event is something that happens at a time.
type event struct {
	at     int64
	serial uint64
	do     func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements [heap.Interface].
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements [heap.Interface].
func (q *events) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// failure is what a run ends with: it unwinds to Run.
type failure struct{ err error }

func (w *world) failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// must ends the run at an error that no fault explains.
func (w *world) must(err error, what string) {
	if err != nil {
		w.failf("%s: %w", what, err)
	}
}

// after lets something happen later.
func (w *world) after(delay int64, do func()) {
	w.serial++
	heap.Push(&w.queue, event{w.now + max(delay, 0), w.serial, do})
}

// every lets something happen again and again, until the run ends.
func (w *world) every(period int64, do func()) {
	delay := period/2 + w.rng.Int64N(period)
	if w.healing {
		delay *= 3 // nobody is in a hurry
	}
	w.after(delay, func() {
		do()
		w.every(period, do)
	})
}

// play lets events happen until stop says so, or for a time.
func (w *world) play(until int64, stop func() bool) {
	for len(w.queue) > 0 && w.queue[0].at <= until && !stop() {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.events++
		e.do()
		w.bury()
		w.inspect()
	}
}

// note adds to the trace.
func (w *world) note(what string, numbers ...uint64) {
	b := append(make([]byte, 0, 64), what...)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.now))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	_, _ = w.trace.Write(b)
}

// wallMS is the machine's clock.
func (w *world) wallMS() int64 { return epochMS + w.now/millisecond + w.jumpMS }

func (w *world) count(what string) { w.counts[what]++ }

// chance is true that many times in a thousand.
func (w *world) chance(perMille int) bool { return w.rng.IntN(1000) < perMille }

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// id makes an id of the present time that nobody else has.
func (w *world) id() (id [16]byte) {
	w.serial++
	binary.BigEndian.PutUint64(id[:], uint64(w.wallMS())<<16)
	binary.BigEndian.PutUint64(id[8:], w.serial)
	return id
}

// tick is the next instant of the history.
func (w *world) tick() int64 {
	w.instant++
	return w.instant
}

func newWorld(cfg Config) *world {
	return &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), trace: fnv.New64a(),
		removed: map[partition.GroupID]bool{}, lists: map[partition.GroupID]*own.List{},
		clocks: map[partition.GroupID]int64{}, latest: map[string]uint64{},
		phases: map[own.Job]mover.Job{}, seen: map[txn.ID]bool{},
		counts: map[string]int{}, cells: map[Cell]int{},
	}
}
