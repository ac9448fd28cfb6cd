package servercells

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// server is a process that serves.
type server struct {
	name   string
	cmd    *exec.Cmd
	port   string
	http   string // of ours, in mixes
	dir    string
	perKey float64
}

type servers []*server

// start starts the two servers of a class and fills them.
func start(cfg Config, c class) (servers, error) {
	ours, err := build(cfg)
	if err != nil {
		return nil, err
	}
	peer, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server: apt-get install redis-server")
	}
	var all servers
	for _, s := range []struct {
		name, path string
		args       func(port, dir string) []string
	}{
		{Peer, peer, func(port, dir string) []string {
			return append([]string{"--port", port, "--dir", dir, "--save", ""}, c.redis...)
		}},
		{Ours, ours, func(port, dir string) []string {
			return append([]string{"serve", "--http-addr", "none", "--resp-addr", "127.0.0.1:" + port, "--data", filepath.Join(dir, "data")}, c.ours...)
		}},
	} {
		one, err := launch(cfg, s.name, s.path, s.args)
		if one != nil {
			all = append(all, one)
		}
		if err == nil {
			err = one.fill(cfg, c.tests)
		}
		if err != nil {
			all.stop()
			return nil, err
		}
	}
	return all, nil
}

// startMixes starts the servers that mixes are for, and writes all keys.
func startMixes(cfg Config) (all servers, err error) {
	defer func() {
		if err != nil {
			all.stop()
		}
	}()
	ours, err := build(cfg)
	if err != nil {
		return nil, err
	}
	http, err := freePort()
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name, path string
		args       func(port, dir string) []string
		speech     speech
	}{
		{Peer, "redis-server", func(port, dir string) []string {
			return []string{"--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"}
		}, respSpeech{}},
		{Ours, ours, func(port, dir string) []string {
			return []string{"serve", "--http-addr", "127.0.0.1:" + http, "--resp-addr", "127.0.0.1:" + port, "--data", filepath.Join(dir, "data"), "--appendfsync", "everysec"}
		}, respSpeech{}},
		{Cached, "memcached", func(port, dir string) []string {
			return []string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "1024", "-u", "root"}
		}, plainSpeech{}},
	} {
		path, err := exec.LookPath(s.path)
		if err != nil && s.name == Cached {
			continue // make bench-redis installs it; the tests can do without
		}
		if err != nil {
			return all, fmt.Errorf("there is no %s: install it, as make bench-redis does", s.path)
		}
		one, err := launch(cfg, s.name, path, s.args)
		if one != nil {
			one.http = http
			all = append(all, one)
		}
		if err == nil {
			err = one.load(s.speech, cfg.Keys)
		}
		if err == nil && s.name != Cached {
			err = one.order(cfg)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// built is our server, once it is built.
var built struct {
	sync.Mutex
	path string
}

// build builds our server, once.
func build(cfg Config) (string, error) {
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		return built.path, nil
	}
	path := filepath.Join(cfg.Dir, fmt.Sprint("cleave-bench-server-", os.Getpid()))
	out, err := exec.Command("go", "build", "-C", cfg.Module, "-o", path, "./cmd/cleave").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the server: %w: %s", err, out)
	}
	built.path = path
	return path, nil
}

// forget removes it.
func forget() {
	built.Lock()
	defer built.Unlock()
	_ = os.Remove(built.path)
	built.path = ""
}

// launch starts a server and waits until it takes connections.
func launch(cfg Config, name, path string, args func(port, dir string) []string) (*server, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "server-"+name)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{name: name, cmd: exec.Command(path, args(port, dir)...), port: port, dir: dir}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return s, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s, fmt.Errorf("%s does not answer", name)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// stop ends the servers.
func (all servers) stop() {
	for _, s := range all {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		_ = os.RemoveAll(s.dir)
	}
}

// fill writes each key about three times, so that nearly all are there, and so the
// counters if they are counted.
func (s *server) fill(cfg Config, tests []string) error {
	before := s.memory()
	_, err := s.benchmark(cfg, "set", 64, 3*cfg.Keys)
	s.perKey = float64(s.memory()-before) / float64(cfg.Keys)
	if err == nil && slices.Contains(tests, "incr") {
		_, err = s.benchmark(cfg, "incr", 64, 3*cfg.Keys)
	}
	return err
}

// requests is how many a round has, so that it takes some tenths of a second.
var requests = map[int]int{1: 25_000, 16: 100_000, 64: 150_000}

// gauge measures one round.
func (s *server) gauge(cfg Config, test string, pipeline int) []float64 {
	n := max(1000, int(float64(requests[pipeline])*cfg.Share))
	before := s.processor()
	seen, err := s.benchmark(cfg, test, pipeline, n)
	if err != nil {
		panic(err)
	}
	used := s.processor() - before
	return []float64{1e9 / seen.perSecond, float64(used) / float64(n), seen.p50, seen.p99}
}

// seen is what redis-benchmark reports.
type seen struct{ perSecond, p50, p99 float64 }

// benchmark runs redis-benchmark once.
func (s *server) benchmark(cfg Config, test string, pipeline, n int) (r seen, err error) {
	cmd := exec.Command("redis-benchmark", "-p", s.port, "-t", test, "-n", strconv.Itoa(n), "-r", strconv.Itoa(cfg.Keys), "-d", "64", "-c", "50", "-P", strconv.Itoa(pipeline), "--csv")
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("redis-benchmark of %s: %w", s.name, err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) < 2 {
		return r, fmt.Errorf("redis-benchmark of %s says %q: %w", s.name, out, err)
	}
	figure := func(column string, unit float64) float64 {
		for i, name := range rows[0] {
			if name == column {
				f, _ := strconv.ParseFloat(rows[len(rows)-1][i], 64)
				return f * unit
			}
		}
		return 0
	}
	r = seen{figure("rps", 1), figure("p50_latency_ms", 1e6), figure("p99_latency_ms", 1e6)}
	if r.perSecond == 0 {
		return r, fmt.Errorf("redis-benchmark of %s says %q", s.name, out)
	}
	return r, nil
}

// processor is what the process has used of processors.
func (s *server) processor() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The name of the program may have blanks: what follows it does not.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is what the process has in memory, in bytes.
func (s *server) memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kib)[0])
			return n << 10
		}
	}
	return 0
}
