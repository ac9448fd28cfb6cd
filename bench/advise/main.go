// Command advise measures how fast cleave advise reads CSV, beside programs that do less. Run it in
// bench/, as
//
//	go run ./advise -out ADVISE.md
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/report"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// options is the parsed command line.
type options struct {
	rows, rounds      int
	binary, file, out string
}

func main() {
	var o options
	flag.IntVar(&o.rows, "rows", 10_000_000, "how `many` rows the file has")
	flag.IntVar(&o.rounds, "rounds", 3, "how `often` each program runs; the median counts")
	flag.StringVar(&o.binary, "binary", "", "measure this `file` instead of building cleave")
	flag.StringVar(&o.file, "file", "", "keep the CSV in this `file`, or use the one that is there")
	flag.StringVar(&o.out, "out", "", "write the report to this `file` as well")
	flag.Parse()
	if err := run(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "advise:", err)
		os.Exit(1)
	}
}

// contestant is a program that reads the file.
type contestant struct {
	name string
	args []string
}

func run(o options, stdout, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "cleave-advise-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		if o.binary, err = serverprocess.Build(dir, ".."); err != nil {
			return err
		}
		defer serverprocess.Forget()
	}
	if o.file == "" {
		o.file = filepath.Join(dir, "orders.csv")
	}
	if _, err := os.Stat(o.file); err != nil {
		fmt.Fprintln(progress, "writing", o.file)
		if err := writeOrders(o.file, o.rows); err != nil {
			return err
		}
	}
	info, err := os.Stat(o.file)
	if err != nil {
		return err
	}
	contestants := []contestant{
		{"cleave advise, one candidate", []string{o.binary, "advise", o.file, "--candidates", "customer", "--layout", "hash"}},
		{"cleave advise, candidates found", []string{o.binary, "advise", o.file}},
		{"wc -l", []string{"wc", "-l", o.file}},
		{"sort -u of one column", []string{"sh", "-c", "cut -d, -f2 " + o.file + " | LC_ALL=C sort -u -S 256M | wc -l"}},
	}
	if path, err := exec.LookPath("duckdb"); err == nil {
		contestants = append(contestants, contestant{"DuckDB SUMMARIZE", []string{path, "-c", fmt.Sprintf("SUMMARIZE SELECT * FROM read_csv('%s')", o.file)}})
	}
	found := make([][]usage, len(contestants))
	for range o.rounds {
		for i, c := range contestants {
			fmt.Fprintln(progress, c.name)
			u, err := measure(c.args)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			found[i] = append(found[i], u)
		}
	}
	var text strings.Builder
	m := report.ThisMachine()
	fmt.Fprintf(&text, "# Reading for advice\n\n%s, %d processors, %s, %s. Commit\n%s, by `go run ./advise`: a CSV of %d rows and 8 columns, %d MB, in the page cache. Medians of %d rounds.\n"+
		"MB/s of processor time is the file over the time that all threads took together, which other programs on the machine disturb least.\n\n"+
		"| program | seconds | MB/s | seconds of processor time | MB/s of processor time | memory at most, MB |\n|---|--:|--:|--:|--:|--:|\n",
		m.CPU, m.Cores, m.OS, m.Go, report.Commit(), o.rows, info.Size()/1e6, o.rounds)
	mb := float64(info.Size()) / 1e6
	for i, c := range contestants {
		u := median(found[i])
		fmt.Fprintf(&text, "| %s | %.1f | %.0f | %.1f | %.0f | %d |\n", c.name, u.wall.Seconds(), mb/u.wall.Seconds(), u.cpu.Seconds(), mb/u.cpu.Seconds(), u.memory/1e6)
	}
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, []byte(text.String()), 0o644)
}

// usage is what a program took.
type usage struct {
	wall, cpu time.Duration
	memory    int64 // bytes, at most at one time
}

func measure(args []string) (u usage, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return u, fmt.Errorf("%w: %s", err, out)
	}
	u.wall = time.Since(start)
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.memory = maxMemory(cmd.ProcessState)
	return u, nil
}

// median returns each figure's median by itself.
func median(list []usage) usage {
	middle := func(of func(u usage) int64) int64 {
		var values []int64
		for _, u := range list {
			values = append(values, of(u))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return usage{
		time.Duration(middle(func(u usage) int64 { return int64(u.wall) })),
		time.Duration(middle(func(u usage) int64 { return int64(u.cpu) })),
		middle(func(u usage) int64 { return u.memory }),
	}
}

// writeOrders writes a table of orders: a counter, a customer, a region, an amount, a time, a token.
func writeOrders(path string, rows int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	fmt.Fprintln(w, "id,customer,region,amount,created_at,token,status,shop")
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.3, 50, 200_000)
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	step := 30 * 24 * time.Hour / time.Duration(rows)
	var line []byte
	for i := range rows {
		at := start.Add(time.Duration(i) * step)
		line = fmt.Appendf(line[:0], "%d,customer-%06d,%s,%d.%02d,", 1_000_000+i, r.IntN(200_000), [...]string{"eu", "us", "ap"}[r.IntN(3)], r.IntN(1000), r.IntN(100))
		line = at.AppendFormat(line, "2006-01-02T15:04:05.000Z")
		line = fmt.Appendf(line, ",%016x,%s,shop-%d\n", r.Uint64(), [...]string{"open", "paid", "sent", "done"}[r.IntN(4)], zipf.Uint64())
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Close()
}
