package sim

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
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
	ctx            = context.Background()
	systemKeyspace = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}
	dataKeyspace   = partition.Keyspace{ID: 1, Name: "data", Kind: partition.Range}
	catalogKeys    = protocol.Catalog{Keyspace: &systemKeyspace}
)

// catalogGroup owns the catalog, for ever.
const catalogGroup partition.GroupID = 1

// world is everything: one loop plays it, event by event.
type world struct {
	cfg           Config
	rng           *rand.Rand
	queue         eventQueue
	serial        uint64
	now           int64
	clockOffsetMS int64
	trace         hash.Hash64
	events        int
	// isQuiescing worlds have no faults, and begin nothing.
	isQuiescing bool
	// lastTick orders calls of the history.
	lastTick int64

	disks []*disk
	// groups are those that are open or were before a crash, and removed those
	// that the map had and has no more.
	groups  []partition.GroupID
	removed map[partition.GroupID]bool
	// tables are what groups owned when they were last looked at.
	tables map[partition.GroupID]*ownership.Table
	// clocksMS are what they have said since they were opened.
	clocksMS map[partition.GroupID]int64
	// hasUnknownWrite reports whether something was stored whose answer was lost.
	hasUnknownWrite bool
	// life is one more after each crash of the process.
	life       int
	router     *partition.Map
	txnDrivers []*txnDriver
	jobDrivers []*jobDriver
	// openJobs are those of jobs that have not ended, as they were last stored.
	openJobs      map[ownership.JobID]mover.Job
	newestVersion partition.Version
	storedJobs    []mover.Job // records that the call at hand has stored
	clients       []*client
	history       history
	// commitCount counts commits that changed rows, and latest is the last one to each.
	commitCount uint64
	lastCommits map[string]uint64
	feedReader  *feedReader
	hub         *hub
	cache       *cacheModel
	heat        *heatLoop // nil if there is none
	// edgeKeys is how many keys there are that come in the order of time.
	edgeKeys int
	// seenDecisions are decisions that were there at the last look.
	seenDecisions map[txn.ID]bool

	maxTries  int // the most that a transaction took
	counts    map[string]int
	cells     map[Cell]int
	hasHitAim bool // the aim was hit
}

// event is something that happens at a time.
type event struct {
	at     int64
	serial uint64
	run    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements [heap.Interface].
func (q *eventQueue) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements [heap.Interface].
func (q *eventQueue) Pop() any {
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

// scheduleAfter lets something happen later.
func (w *world) scheduleAfter(delay int64, do func()) {
	w.serial++
	heap.Push(&w.queue, event{w.now + max(delay, 0), w.serial, do})
}

// scheduleEvery lets something happen again and again, until the run ends.
func (w *world) scheduleEvery(period int64, do func()) {
	delay := period/2 + w.rng.Int64N(period)
	if w.isQuiescing {
		delay *= 3 // there is no hurry
	}
	w.scheduleAfter(delay, func() {
		do()
		w.scheduleEvery(period, do)
	})
}

// runUntil lets events happen until stop says so, or for a time.
func (w *world) runUntil(until int64, stop func() bool) {
	for len(w.queue) > 0 && w.queue[0].at <= until && !stop() {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.events++
		e.run()
		w.crashFailedDisks()
		w.checkInvariants()
	}
}

// recordTrace adds to the trace.
func (w *world) recordTrace(what string, numbers ...uint64) {
	b := append(make([]byte, 0, 64), what...)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.now))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	_, _ = w.trace.Write(b)
}

// wallMS is the machine's clock.
func (w *world) wallMS() int64 { return epochMS + w.now/millisecond + w.clockOffsetMS }

func (w *world) addCount(what string) { w.counts[what]++ }

// drawChance is true that many times in a thousand.
func (w *world) drawChance(perMille int) bool { return w.rng.IntN(1000) < perMille }

func pickOne[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// newID makes a unique id of the present time.
func (w *world) newID() (id [16]byte) {
	w.serial++
	binary.BigEndian.PutUint64(id[:], uint64(w.wallMS())<<16)
	binary.BigEndian.PutUint64(id[8:], w.serial)
	return id
}

// nextTick is the next instant of the history.
func (w *world) nextTick() int64 {
	w.lastTick++
	return w.lastTick
}

func newWorld(cfg Config) *world {
	return &world{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x5eed)), trace: fnv.New64a(),
		removed: map[partition.GroupID]bool{}, tables: map[partition.GroupID]*ownership.Table{},
		clocksMS: map[partition.GroupID]int64{}, lastCommits: map[string]uint64{},
		openJobs: map[ownership.JobID]mover.Job{}, seenDecisions: map[txn.ID]bool{},
		counts: map[string]int{}, cells: map[Cell]int{},
	}
}

// message is a message: whose it is, in which phase that one is, and whether it
// may come twice. A plain command without an id would be executed twice.
type message struct {
	phase      string
	idempotent bool
}

// sendMessage brings a message, or not, or late, or twice.
func (w *world) sendMessage(l message, deliver func()) {
	if w.drawFault(Dropped, l.phase, 25) {
		return
	}
	delay := 50 + w.rng.Int64N(1200)
	if thought := w.cfg.maxThinkTime(); thought > 0 && strings.HasPrefix(l.phase, "txn") {
		delay += w.rng.Int64N(thought)
	}
	if w.drawFault(Late, l.phase, 25) {
		delay += w.rng.Int64N(80 * millisecond)
	}
	w.scheduleAfter(delay, deliver)
	if l.idempotent && w.drawFault(Duplicated, l.phase, 25) {
		w.scheduleAfter(delay+w.rng.Int64N(20*millisecond), deliver)
	}
}

// drawFault reports whether a fault happens, and counts it.
func (w *world) drawFault(f Fault, phase string, perMille int) bool {
	if w.isQuiescing || w.cfg.Faults&f == 0 {
		return false
	}
	aim := Cell{f, phase} == w.cfg.Aim && !w.hasHitAim
	if !w.drawChance(perMille) && !aim {
		return false
	}
	w.hasHitAim = w.hasHitAim || aim
	w.recordFault(f, phase)
	return true
}

// recordFault counts a fault.
func (w *world) recordFault(f Fault, phase string) {
	w.cells[Cell{f, phase}]++
	w.addCount(f.String())
}

// tryRequest gives a request to a group. If it is not there, or dies of it, there is no
// reply.
func (w *world) tryRequest(to partition.GroupID, r group.Request) (reply command.Reply, ok bool) {
	p, err := w.findHost(to)
	if err != nil {
		return reply, false
	}
	r.NoWait = true
	reply, err = p.Group.Execute(ctx, r)
	news := w.storedJobs
	w.storedJobs = nil
	switch {
	case w.isReplyLost(w.homeDisk(to), err) || isDiskFull(err):
		return command.Reply{}, false
	case err != nil:
		// Its store is alive, so nothing but a bug stops a group.
		w.failf("%v fails: %w", to, err)
	}
	for _, j := range news {
		w.trackJob(j)
	}
	w.recordTrace("reply", uint64(to), uint64(reply.Kind), uint64(reply.Int), reply.Version)
	return reply, true
}

// mustDo gives a command to a group that is up.
func (w *world) mustDo(to partition.GroupID, c command.Command) command.Reply {
	reply, ok := w.tryRequest(to, group.Request{Command: c})
	if !ok || reply.Err != nil {
		w.failf("%v refuses %T: %w", to, c, reply.Err)
	}
	return reply
}

// sendCommand sends a command to a group, and its reply back to what lives as long as
// the process does.
func (w *world) sendCommand(l message, to partition.GroupID, c func() command.Command, heard func(command.Reply)) {
	life := w.life
	if _, err := w.findHost(to); err != nil {
		w.refreshMap() // it may be gone for good
	}
	w.sendMessage(l, func() {
		reply, ok := w.tryRequest(to, group.Request{Command: c()})
		if !ok {
			return
		}
		w.sendMessage(l, func() {
			if w.life == life {
				heard(reply)
			}
		})
	})
}

// refreshMap brings the newest map to the router of the process.
func (w *world) refreshMap() {
	if _, err := w.findHost(catalogGroup); err != nil {
		return
	}
	w.sendCommand(message{"routing", true}, catalogGroup, func() command.Command { return &command.Get{Key: catalogKeys.MapKey()} }, func(r command.Reply) {
		w.updateRouter(w.decodeMap(r))
	})
}

func (w *world) decodeMap(r command.Reply) *partition.Map {
	if r.Err != nil {
		w.failf("the catalog refuses: %w", r.Err)
	}
	m, err := partition.Decode(r.Bytes)
	w.must(err, "the map in the catalog")
	if m.Version() > w.newestVersion {
		w.failf("the catalog has version %d of the map, %d is the last that was made", m.Version(), w.newestVersion)
	}
	return m
}

// updateRouter takes a map that is newer.
func (w *world) updateRouter(m *partition.Map) {
	if w.router == nil || m.Version() > w.router.Version() {
		w.router = m
	}
}

// isGroupNotOpen reports whether an error says that a group is not there: the message is lost.
func isGroupNotOpen(err error) bool { return errors.Is(err, protocol.ErrGroupNotOpen) }
