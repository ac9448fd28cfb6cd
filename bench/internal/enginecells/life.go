package enginecells

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// The metrics of an engine's life.
var (
	metricMemory = duel.Metric{Name: "memory per row", Unit: duel.Bytes}
	metricDisk   = duel.Metric{Name: "disk per row", Unit: duel.Bytes}
	metricOpen   = duel.Metric{Name: "open after kill", Unit: duel.Nanoseconds}
)

// LifeArgument as the program's first argument means that it is a child which
// lives an engine's life: see [Live].
const LifeArgument = "engine-life"

// lives are the rows that engines are killed with: many small ones, whose
// memory counts, and a gigabyte of large ones, whose log is long.
var lives = []struct {
	id                string
	rows, value, full int // full is the rows of a run that is not quick
}{
	{"small", 20_000, 100, 500_000},
	{"large", 2_000, 10 << 10, 100_000},
}

// life returns the cells in which an engine, alone in a process, is filled and
// read, then killed, and opened again by another process.
func life(cfg Config) []duel.Cell {
	var cells []duel.Cell
	for _, l := range lives {
		rows := min(l.rows, cfg.Rows)
		if cfg.Rows >= 500_000 {
			rows = l.full
		}
		cell := duel.Cell{
			ID:      "engine/life-" + l.id,
			Title:   fmt.Sprintf("%d rows of %d bytes written without a sync and read, all in memory; then kill -9, and open to the first read", rows, l.value),
			Metrics: []duel.Metric{metricMemory, metricDisk, metricOpen},
			Rounds:  3,
		}
		for _, m := range makers {
			c := duel.Contestant{Name: m.name, Ours: m.ours}
			c.Gauge = func() []float64 {
				figures, err := liveAndDie(cfg, m.name, rows, l.value)
				if err != nil {
					panic(err)
				}
				return figures
			}
			cell.Contestants = append(cell.Contestants, c)
		}
		cells = append(cells, cell)
	}
	return cells
}

// lived is what a child reports.
type lived struct {
	ResidentBytes int64
	OpenNS        int64
}

func liveAndDie(cfg Config, name string, rows, value int) (figures []float64, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "life")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	filled, err := child("fill", name, dir, rows, value)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(dir)
	if err != nil {
		return nil, err
	}
	opened, err := child("open", name, dir, rows, value)
	if err != nil {
		return nil, err
	}
	return []float64{float64(filled.ResidentBytes) / float64(rows), float64(size) / float64(rows), float64(opened.OpenNS)}, nil
}

// child runs this program as a child and returns what it said before it died.
func child(phase, name, dir string, rows, value int) (lived, error) {
	cmd := exec.Command(os.Args[0], LifeArgument, phase, name, dir, strconv.Itoa(rows), strconv.Itoa(value))
	out, err := cmd.Output()
	var report lived
	if bad := json.Unmarshal(out, &report); bad != nil {
		return report, errors.Join(fmt.Errorf("%s %s said %q: %w", name, phase, out, bad), err)
	}
	return report, nil // that it was killed is what we want
}

func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// Live is the life of the child. It does not return: it kills itself.
func Live(args []string) error {
	if len(args) != 5 {
		return errors.New("this is for the program's own use")
	}
	rows, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	value, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	for _, m := range makers {
		if m.name == args[1] {
			return m.live(args[0], args[2], rows, value)
		}
	}
	return fmt.Errorf("no engine %s", args[1])
}

func (m maker) live(phase, dir string, rows, value int) error {
	start := time.Now()
	e, err := m.open(filepath.Join(dir, m.name), never, caches{rows: 1 << 30, blocks: 64 << 20})
	if err != nil {
		return err
	}
	var report lived
	if phase == "open" {
		if _, err := e.Get(rowKey(0)); err != nil {
			return err
		}
		report.OpenNS = time.Since(start).Nanoseconds()
	} else {
		if err := fill(e, rows, value); err != nil {
			return err
		}
		for i := range uint64(rows) {
			if _, err := e.Get(rowKey(i)); err != nil {
				return err
			}
		}
		debug.FreeOSMemory()
		if report.ResidentBytes, err = resident(); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Kill()
}

// resident is how much memory the process has, where the system tells.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0, fmt.Errorf("statm says %q", text)
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
