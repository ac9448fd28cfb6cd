package enginecells

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/report"
	"github.com/cockroachdb/pebble/v2"
)

// stall is how long an operation may take before it counts as one.
const stall = 100 * time.Millisecond

// Sustained loads the store and then Pebble by itself, each for a time, with synced
// writes of new and old rows by many writers while others read and scan, and writes
// what it saw to w: the rate of each ten seconds, the slowest operations, and what
// the rest of the machine did.
func Sustained(w io.Writer, dir string, length time.Duration) error {
	for _, m := range makers[:2] {
		fmt.Fprintf(w, "%s\n\n", m.name)
		if err := sustain(w, dir, m, length); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func sustain(w io.Writer, dir string, m maker, length time.Duration) error {
	dir, err := os.MkdirTemp(dir, "sustained")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e, err := m.open(filepath.Join(dir, m.name), always, caches{rows: 64 << 20, blocks: 32 << 20})
	if err != nil {
		return err
	}
	defer e.Close()
	s := &sustained{e: e, end: time.Now().Add(length)}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { s.work(uint64(i), 0, &s.sets, s.set) })
	}
	// Readers take breaks: two that never do would have two cores to themselves.
	wg.Go(func() { s.work(writers, 100*time.Microsecond, &s.gets, s.get) })
	wg.Go(func() { s.work(writers+1, 10*time.Millisecond, &s.scans, s.scan) })
	s.report(w)
	wg.Wait()
	if err := s.failed.Load(); err != nil {
		return *err
	}
	fmt.Fprintf(w, "\n%v of load: %d sets, %d gets, %d scans of %d rows; %d took over %v, the slowest %v\n",
		length, s.sets.n.Load(), s.gets.n.Load(), s.scans.n.Load(), scanRows, len(s.slow), stall, s.slowest())
	return nil
}

type sustained struct {
	e      engine
	end    time.Time
	rows   atomic.Uint64 // that there are, about
	failed atomic.Pointer[error]

	sets, gets, scans counter

	mu   sync.Mutex
	slow []time.Duration
}

// counter counts operations of a kind, and the slowest since it was last read.
type counter struct {
	n     atomic.Uint64
	worst atomic.Int64
}

// work does one kind of operation again and again, with a break after each.
func (s *sustained) work(seed uint64, rest time.Duration, c *counter, do func(i uint64) error) {
	for i := seed << 40; time.Now().Before(s.end) && s.failed.Load() == nil; i++ {
		start := time.Now()
		if err := do(i); err != nil {
			s.failed.Store(&err)
			return
		}
		took := time.Since(start)
		c.n.Add(1)
		for w := c.worst.Load(); int64(took) > w && !c.worst.CompareAndSwap(w, int64(took)); w = c.worst.Load() {
		}
		if took > stall {
			s.mu.Lock()
			s.slow = append(s.slow, took)
			s.mu.Unlock()
		}
		if rest > 0 {
			time.Sleep(rest)
		}
	}
}

// set writes a new row, or one time in two one that is there.
func (s *sustained) set(i uint64) error {
	row := draw(i, int(s.rows.Load())+1)
	if i%2 == 0 {
		row = s.rows.Add(1)
	}
	return s.e.Set(rowKey(row), make([]byte, valueBytes))
}

// get reads a row that may still be on its way.
func (s *sustained) get(i uint64) error {
	_, err := s.e.Get(rowKey(draw(i, int(s.rows.Load())+1)))
	if errors.Is(err, cleave.ErrNotFound) || errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return err
}

func (s *sustained) scan(i uint64) error {
	_, err := s.e.Scan(rowKey(i), scanRows)
	return err
}

func (s *sustained) slowest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.slow) == 0 {
		return time.Duration(max(s.sets.worst.Load(), s.gets.worst.Load(), s.scans.worst.Load()))
	}
	return slices.Max(s.slow)
}

// report prints a line every ten seconds until the end.
func (s *sustained) report(w io.Writer) {
	fmt.Fprintf(w, "%8s %10s %12s %10s %12s %10s %12s %12s %8s\n", "time", "sets/s", "worst", "gets/s", "worst", "scans/s", "worst", "rows", "others")
	start, last := time.Now(), time.Now()
	var before [3]uint64
	var worst [3]int64
	for time.Now().Before(s.end) && s.failed.Load() == nil {
		watch := report.StartWatch(duel.NewSystem())
		time.Sleep(min(10*time.Second, time.Until(s.end)))
		others, _ := watch.Others(runtime.GOMAXPROCS(0))
		took := time.Since(last).Seconds()
		last = time.Now()
		fmt.Fprintf(w, "%8s", time.Since(start).Round(time.Second))
		for i, c := range []*counter{&s.sets, &s.gets, &s.scans} {
			n := c.n.Load()
			slow := c.worst.Swap(0)
			worst[i] = max(worst[i], slow)
			fmt.Fprintf(w, " %10.0f %12v", float64(n-before[i])/took, time.Duration(slow).Round(10*time.Microsecond))
			before[i] = n
		}
		fmt.Fprintf(w, " %12d %7.0f%%\n", s.rows.Load(), 100*others)
	}
	for i, c := range []*counter{&s.sets, &s.gets, &s.scans} {
		c.worst.Store(max(worst[i], c.worst.Load()))
	}
}
