// Command memory measures how much memory a key takes in our server, with each kind of storage, and in
// its peers. Run it in bench/, as
//
//	go run ./memory -out MEMORY.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/report"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// options is the parsed command line.
type options struct {
	keys              int
	binary, only, out string
}

func main() {
	var o options
	flag.IntVar(&o.keys, "keys", 1_000_000, "how `many` keys each server gets")
	flag.StringVar(&o.binary, "binary", "", "measure this `file` as our server instead of building it")
	flag.StringVar(&o.only, "only", "", "measure only servers whose name contains this `text`")
	flag.StringVar(&o.out, "out", "", "write the report to this `file` as well")
	flag.Parse()
	if err := run(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

// contestant is a server to be measured.
type contestant struct {
	name, path string
	args       func(port, dir string) []string
}

func run(o options, stdout, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "cleave-memory-")
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
	var text strings.Builder
	m := report.ThisMachine()
	fmt.Fprintf(&text, "# Memory of a key\n\n%s, %d processors, %s, %s. Commit\n%s, by `go run ./memory`: %d keys such as `key:%012d`, each once, with values of %d bytes.\n"+
		"A figure is the resident memory (VmRSS) of a server that has become quiet, less that of the empty one, by keys.\n\n"+
		"| server | empty, MiB | filled, MiB | bytes of memory per key |\n|---|--:|--:|--:|\n",
		m.CPU, m.Cores, m.OS, m.Go, report.Commit(), o.keys, o.keys-1, serverprocess.ValueBytes)
	measured := 0
	for _, c := range listContestants(o.binary) {
		if !strings.Contains(c.name, o.only) {
			continue
		}
		fmt.Fprintln(progress, c.name)
		u, err := c.measure(dir, o.keys)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %.0f |\n", c.name, u.empty>>20, u.filled>>20, float64(u.filled-u.empty)/float64(o.keys))
		measured++
	}
	if measured == 0 {
		return errors.New("no server has this text in its name, or none is on PATH")
	}
	if _, err := io.WriteString(stdout, text.String()); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, []byte(text.String()), 0o644)
}

// listContestants returns the servers that there are.
func listContestants(ours string) (all []contestant) {
	for _, storage := range []string{"disk", "memory"} {
		all = append(all, contestant{"cleave, storage " + storage, ours, func(port, dir string) []string {
			args := []string{"serve", "--http-addr", "none", "--resp-addr", "127.0.0.1:" + port, "--storage", storage}
			if storage == "disk" {
				args = append(args, "--appendfsync", "everysec", "--data", filepath.Join(dir, "data"))
			}
			return args
		}})
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			all = append(all, contestant{name, path, func(port, dir string) []string {
				return []string{"--port", port, "--dir", dir, "--save", ""}
			}})
		}
	}
	return all
}

// usage is what a server had in memory, in bytes.
type usage struct{ empty, filled int }

func (c contestant) measure(dir string, keys int) (u usage, err error) {
	s, err := serverprocess.Launch(serverprocess.Options{Name: filepath.Base(c.path), Path: c.path, Args: c.args, Dir: dir})
	defer s.Stop()
	if err != nil {
		return u, err
	}
	time.Sleep(emptyPause)
	u.empty = s.Memory()
	if err := s.Fill(keys); err != nil {
		return u, err
	}
	u.filled = waitStable(s.Memory, time.Sleep)
	if u.empty == 0 || u.filled == 0 {
		return u, errors.New("the system does not report the memory of a process, as Linux does in /proc")
	}
	return u, nil
}

const (
	// emptyPause is how long a server that was just started gets to begin what it does when idle.
	emptyPause = 2 * time.Second
	// stableSeconds is for how long the memory of a quiet server must not shrink by stableBytes: longer
	// than ours waits before it gives back what it does not use. maxSeconds ends that.
	stableSeconds = 10
	stableBytes   = 1 << 20
	maxSeconds    = 90
)

// waitStable returns what memory returns when that has not shrunk for some seconds.
func waitStable(memory func() int, sleep func(time.Duration)) int {
	least, since := memory(), 0
	now := least
	for range maxSeconds {
		sleep(time.Second)
		now = memory()
		if since++; now < least-stableBytes {
			least, since = now, 0
		}
		if since >= stableSeconds {
			break
		}
	}
	return now
}
