package shardcells

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
)

const (
	moveBytes = 1000
	// clients read and write in turn.
	clients = 16
	// moveTime is what a move may take before it is taken back, and counts as failed.
	moveTime = 2 * time.Minute
)

// The metrics of a move.
var (
	pause   = duel.Metric{Name: "pause", Unit: duel.Nanoseconds}
	p99     = duel.Metric{Name: "p99 of writes", Unit: duel.Nanoseconds}
	slowest = duel.Metric{Name: "slowest write", Unit: duel.Nanoseconds}
	length  = duel.Metric{Name: "the whole move", Unit: duel.Nanoseconds}
)

// moves yields the load while a shard goes from one store to the other and back, and
// what its clients noticed.
//
// There are two loads. Clients that think leave processors free, as they should on a
// machine that is to be relied upon. Those that do not take all that there is, so that
// whatever a move does is at their expense: all that they write is written twice.
func moves(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		if !movesWith(cfg, d, yield) {
			return false
		}
	}
	return true
}

// fullMoves is how often a shard moves under clients that do not think. Such moves take
// long, and the tables that these clients fill are sorted meanwhile, so they are measured for
// stillFull times as long without a move.
const fullMoves, stillFull = 10, 5

func movesWith(cfg Config, d cleave.Durability, yield func(duel.Cell) bool) bool {
	t, err := openTable(cfg, cleave.Options{Stores: 2, Groups: 4, Durability: d}, cfg.MoveRows, moveBytes, 1, 1)
	if err != nil {
		return yield(broken(fmt.Sprintf("shards/move-%v", d), err))
	}
	defer t.close()
	thinking, busy := &mover{table: t, stillFor: cfg.Still, think: cfg.Think}, &mover{table: t, stillFor: stillFull * cfg.Still}
	return thinking.cells(cfg, fmt.Sprint(d), cfg.Moves, yield) && busy.cells(cfg, fmt.Sprint("full-", d), min(cfg.Moves, fullMoves), yield)
}

// cells yields what a load notices of moves.
func (m *mover) cells(cfg Config, name string, rounds int, yield func(duel.Cell) bool) bool {
	pauses := "without a pause"
	if m.think > 0 {
		pauses = fmt.Sprint("and then wait for ", m.think)
	}
	rate := duel.Cell{
		ID: "shards/move-" + name,
		Title: fmt.Sprintf("%d clients read and write in turn rows of %d bytes, %s, per operation, before and while their shard of %d MB changes stores",
			clients, moveBytes, pauses, cfg.MoveRows*moveBytes/1e6),
		Rounds: rounds,
		Contestants: []duel.Contestant{
			{Name: "before", Gauge: m.still},
			{Name: "during", Ours: true, Gauge: m.move},
		},
	}
	seen := duel.Cell{
		ID:      "shards/pause-" + name,
		Title:   "of each of these moves, how long the shard took no writes, how long its clients waited for theirs, and before, and how long it took",
		Metrics: []duel.Metric{pause, p99, slowest, length},
		Rounds:  rounds,
		Contestants: []duel.Contestant{
			{Name: "before", Gauge: func() []float64 { return m.noticed(&m.quiet, m.still) }},
			{Name: "during", Ours: true, Gauge: func() []float64 { return m.noticed(&m.notes, m.move) }},
		},
	}
	return yield(rate) && yield(seen)
}

// mover moves a table of one shard to and fro.
type mover struct {
	table    *table
	stillFor time.Duration
	think    time.Duration
	// notes are of moves that nobody has asked about, and quiet of the time before.
	notes, quiet [][]float64
}

// still measures the load while nothing moves.
func (m *mover) still() []float64 {
	seen := m.load(func() { time.Sleep(m.stillFor) })
	m.quiet = append(m.quiet, []float64{0, float64(seen.p99), float64(seen.slowest), 0})
	return []float64{seen.perOp}
}

// move measures it during a move.
func (m *mover) move() []float64 {
	var status cleave.JobStatus
	seen := m.load(func() {
		shards, err := m.table.shards()
		must(err)
		to := slices.IndexFunc(m.table.db.Groups(), func(g cleave.GroupInfo) bool { return g.Store != shards[0].Store })
		job, err := m.table.db.Start(ctx, cleave.Move{Shard: shards[0].ID, To: m.table.db.Groups()[to].ID})
		must(err)
		status = m.wait(job)
	})
	m.notes = append(m.notes, []float64{float64(status.Pause), float64(seen.p99), float64(seen.slowest), float64(seen.took)})
	return []float64{seen.perOp}
}

// wait returns what a move has cost. One that does not end is taken back, and panics
// with what became of it.
func (m *mover) wait(job *cleave.Job) cleave.JobStatus {
	limit, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	status, err := job.Wait(limit)
	if limit.Err() == nil {
		must(err)
		return status
	}
	status, err = job.Status(ctx)
	_ = job.Cancel(ctx)
	panic(fmt.Sprintf("no end after %v: %s, carried %d rows and %d MB, longest pause %v, %s %v",
		moveTime, status.Phase, status.Rows, status.Bytes/1e6, status.Pause, status.Why, err))
}

// noticed returns what clients noticed.
func (m *mover) noticed(notes *[][]float64, measure func() []float64) []float64 {
	if len(*notes) == 0 { // the cell with the moves was left out
		measure()
	}
	first := (*notes)[0]
	*notes = (*notes)[1:]
	return first
}

// load is what clients have seen.
type load struct {
	perOp              float64 // nanoseconds
	p99, slowest, took time.Duration
}

// load lets clients work while f runs.
func (m *mover) load(f func()) load {
	var stop atomic.Bool
	var wg sync.WaitGroup
	var ops atomic.Int64
	writes := make([][]time.Duration, clients)
	failed := make([]any, clients)
	began := time.Now()
	for c := range clients {
		wg.Go(func() {
			defer func() { failed[c] = recover() }()
			value := make([]byte, moveBytes)
			for !stop.Load() {
				m.table.get(draw(m.table.rows))
				begun := time.Now()
				m.table.set(draw(m.table.rows), value)
				writes[c] = append(writes[c], time.Since(begun))
				ops.Add(2)
				time.Sleep(m.think)
			}
		})
	}
	end := func() {
		stop.Store(true)
		wg.Wait()
	}
	defer end() // also if f panics
	f()
	took, done := time.Since(began), ops.Load()
	end()
	for _, p := range failed {
		if p != nil {
			panic(p)
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(writes...)))
	return load{float64(took) / float64(done), all[len(all)*99/100], all[len(all)-1], took}
}
