package enginecells

import (
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// Config is the size of the comparison.
type Config struct {
	// Rows is how many rows an engine holds when it is read.
	Rows int
	// Cores is GOMAXPROCS.
	Cores int
	// Dir is where the engines keep their files.
	Dir string
}

const (
	valueBytes = 100
	writers    = 64
	scanRows   = 100
)

// rowKey spreads rows over the space of keys.
func rowKey(i uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("row:"), workload.Scramble(i))
}

// large holds all rows of a run; small holds none of them, to speak of.
var (
	large = caches{rows: 512 << 20, blocks: 256 << 20}
	small = caches{rows: 64 << 10, blocks: 8 << 20}
)

// Cells yields reads, scans and then writes. The engines of a cell live as long
// as it does.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		for _, cell := range life(cfg) {
			if !yield(cell) {
				return
			}
		}
		_ = reads(cfg, "cached", "all rows in memory", large, yield) &&
			reads(cfg, "uncached", "next to no rows in memory", small, yield) &&
			writes(cfg, yield)
	}
}

// field is one engine of each kind.
type field struct {
	dir     string
	engines []engine
}

// openField opens the engines in a new directory and fills them.
func openField(cfg Config, d durability, c caches, rows int) (*field, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "engines")
	if err != nil {
		return nil, err
	}
	f := &field{dir: dir}
	for _, m := range makers {
		e, err := m.open(filepath.Join(dir, m.name), d, c)
		if err != nil {
			f.close()
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		f.engines = append(f.engines, e)
		if err := fill(e, rows, valueBytes); err != nil {
			f.close()
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return f, nil
}

// fill writes rows from many goroutines, so that engines which share syncs
// among writers are done sooner.
func fill(e engine, rows, bytes int) error {
	const writers = 1000 // as many as bbolt shares a sync among
	e.Expect(writers)
	value := make([]byte, bytes)
	var failed atomic.Pointer[error]
	workload.Parallel(writers, rows, func(w, n int) {
		for i := range n {
			if err := e.Set(rowKey(uint64(i*writers+w)), value); err != nil {
				failed.Store(&err)
				return
			}
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *field) close() {
	for _, e := range f.engines {
		_ = e.Close()
	}
	_ = os.RemoveAll(f.dir)
}

// reads yields point reads and scans of engines that are filled beforehand.
func reads(cfg Config, id, title string, c caches, yield func(duel.Cell) bool) bool {
	f, err := openField(cfg, never, c, cfg.Rows)
	if err != nil {
		return yield(broken("engine/"+id, err))
	}
	defer f.close()
	get := duel.Cell{
		ID:      "engine/get-" + id,
		Title:   fmt.Sprintf("get one of %d rows of %d bytes, uniform keys, %s, %d goroutines", cfg.Rows, valueBytes, title, cfg.Cores),
		Metrics: duel.Costs,
	}
	scan := duel.Cell{
		ID:    "engine/scan-" + id,
		Title: fmt.Sprintf("scan %d rows from a random key on, %s, per row, 1 goroutine", scanRows, title),
	}
	loaded := duel.Cell{
		ID:    "engine/scan-writes-" + id,
		Title: fmt.Sprintf("the same while another goroutine overwrites rows without a sync, %s", title),
	}
	for i, m := range makers {
		e := f.engines[i]
		get.Contestants = append(get.Contestants, contestant(m, func(ops int) { getAll(e, cfg, ops) }))
		scan.Contestants = append(scan.Contestants, contestant(m, func(ops int) { scanAll(e, cfg, ops) }))
		loaded.Contestants = append(loaded.Contestants, contestant(m, func(ops int) { scanUnderWrites(e, cfg, ops) }))
	}
	return yield(get) && yield(scan) && yield(loaded)
}

func contestant(m maker, work func(ops int)) duel.Contestant {
	return duel.Contestant{Name: m.name, Ours: m.ours, Work: work}
}

// broken is a cell whose engines could not be made: the report says why.
func broken(id string, err error) duel.Cell {
	return duel.Cell{ID: id, Title: "not run", Contestants: []duel.Contestant{{Name: "engines", Work: func(int) { panic(err) }}}}
}

// draw is a sequence of rows that looks random and needs no memory.
func draw(i uint64, rows int) uint64 { return workload.Scramble(i^0x5bd1e995) % uint64(rows) }

var drawn atomic.Uint64

func getAll(e engine, cfg Config, ops int) {
	workload.Parallel(cfg.Cores, ops, func(_, n int) {
		from := drawn.Add(uint64(n))
		for i := range n {
			v, err := e.Get(rowKey(draw(from+uint64(i), cfg.Rows)))
			if err != nil || len(v) != valueBytes {
				panic(fmt.Sprintf("lost a row: %d bytes, %v", len(v), err))
			}
		}
	})
}

// scanAll reads about ops rows.
func scanAll(e engine, cfg Config, ops int) {
	for read := 0; read < ops; {
		// The first nine tenths of the keys may begin a scan, so that none runs
		// into the end.
		from := binary.BigEndian.AppendUint64([]byte("row:"), workload.Scramble(drawn.Add(1))/10*9)
		n, err := e.Scan(from, min(scanRows, ops-read))
		if err != nil || n == 0 {
			panic(fmt.Sprintf("scanned %d rows: %v", n, err))
		}
		read += n
	}
}

func scanUnderWrites(e engine, cfg Config, ops int) {
	e.Expect(1)
	var stop atomic.Bool
	done := make(chan error)
	go func() {
		value := make([]byte, valueBytes)
		for !stop.Load() {
			if err := e.Set(rowKey(draw(drawn.Add(1), cfg.Rows)), value); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	scanAll(e, cfg, ops)
	stop.Store(true)
	if err := <-done; err != nil {
		panic(err)
	}
}

// writes yields writes of new rows, synced or not, alone or by many.
func writes(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []durability{always, everySec, never} {
		f, err := openField(cfg, d, caches{rows: 64 << 20, blocks: 32 << 20}, 0)
		if err != nil {
			return yield(broken("engine/set", err))
		}
		for _, n := range []int{1, writers} {
			cell := duel.Cell{
				ID:      fmt.Sprintf("engine/set-%s-x%d", d, n),
				Title:   fmt.Sprintf("set rows of %d bytes, durability %s, %d writers", valueBytes, d, n),
				Metrics: duel.Costs,
			}
			for i, m := range makers {
				e := f.engines[i]
				cell.Contestants = append(cell.Contestants, contestant(m, func(ops int) { setAll(e, n, ops) }))
			}
			if !yield(cell) {
				f.close()
				return false
			}
		}
		f.close()
	}
	return true
}

func setAll(e engine, writers, ops int) {
	e.Expect(writers)
	value := make([]byte, valueBytes)
	workload.Parallel(writers, ops, func(_, n int) {
		for range n {
			if err := e.Set(rowKey(drawn.Add(1)), value); err != nil {
				panic(err)
			}
		}
	})
}
