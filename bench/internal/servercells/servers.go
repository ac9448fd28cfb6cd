package servercells

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// server is a server with what is known of it.
type server struct {
	*serverprocess.Server
	name   string
	http   string // of ours, in mixes
	perKey float64
}

type servers []*server

// contestant is a server of a class, before it is started.
type contestant struct {
	name, path string
	args       func(port, dir string) []string
}

// launch starts a server.
func launch(cfg Config, c contestant) (*server, error) {
	p, err := serverprocess.Launch(serverprocess.Options{Name: c.name, Path: c.path, Args: c.args, Dir: cfg.Dir})
	if p == nil {
		return nil, err
	}
	return &server{Server: p, name: c.name}, err
}

// redisArgs are the arguments of Redis, and of those that take the same.
func redisArgs(more ...string) func(port, dir string) []string {
	return func(port, dir string) []string {
		return append([]string{"--port", port, "--dir", dir, "--save", ""}, more...)
	}
}

// start starts the servers of a class and fills them.
func start(cfg Config, c class) (servers, error) {
	ours, err := serverprocess.Build(cfg.Dir, cfg.Module)
	if err != nil {
		return nil, err
	}
	peer, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server: apt-get install redis-server")
	}
	contestants := []contestant{{Peer, peer, redisArgs(c.redis...)}}
	if path, err := exec.LookPath("valkey-server"); err == nil {
		contestants = append(contestants,
			contestant{Valkey, path, redisArgs(c.redis...)},
			contestant{ValkeyThreads, path, redisArgs(append(slices.Clone(c.redis), "--io-threads", "2")...)})
	}
	contestants = append(contestants, contestant{Ours, ours, func(port, dir string) []string {
		return append([]string{"serve", "--http-addr", "none", "--resp-addr", "127.0.0.1:" + port, "--data", filepath.Join(dir, "data")}, c.ours...)
	}})
	var all servers
	for _, s := range contestants {
		one, err := launch(cfg, s)
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
	ours, err := serverprocess.Build(cfg.Dir, cfg.Module)
	if err != nil {
		return nil, err
	}
	http, err := serverprocess.FreePort()
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		contestant
		speech speech
	}{
		{contestant{Peer, "redis-server", redisArgs("--appendonly", "yes", "--appendfsync", "everysec")}, respSpeech{}},
		{contestant{Ours, ours, func(port, dir string) []string {
			return []string{"serve", "--http-addr", "127.0.0.1:" + http, "--resp-addr", "127.0.0.1:" + port, "--data", filepath.Join(dir, "data"), "--appendfsync", "everysec"}
		}}, respSpeech{}},
		{contestant{Cached, "memcached", func(port, dir string) []string {
			return []string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "1024", "-u", "root"}
		}}, plainSpeech{}},
	} {
		path, err := exec.LookPath(s.path)
		if err != nil && s.name == Cached {
			continue // make bench-redis installs it; the tests can do without
		}
		if err != nil {
			return all, fmt.Errorf("there is no %s: install it, as make bench-redis does", s.path)
		}
		s.path = path
		one, err := launch(cfg, s.contestant)
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

// stop ends the servers.
func (all servers) stop() {
	for _, s := range all {
		s.Stop()
	}
}

// fill writes each key about three times, so that nearly all are there, and so the
// counters if they are counted.
func (s *server) fill(cfg Config, tests []string) error {
	before := s.Memory()
	_, err := s.Benchmark(serverprocess.Load{Test: "set", Depth: 64, Requests: 3 * cfg.Keys, Keys: cfg.Keys})
	s.perKey = float64(s.Memory()-before) / float64(cfg.Keys)
	if err == nil && slices.Contains(tests, "incr") {
		_, err = s.Benchmark(serverprocess.Load{Test: "incr", Depth: 64, Requests: 3 * cfg.Keys, Keys: cfg.Keys})
	}
	return err
}

// requests is how many a round has, so that it takes some tenths of a second.
var requests = map[int]int{1: 25_000, 16: 100_000, 64: 150_000}

// gauge measures one round.
func (s *server) gauge(cfg Config, test string, pipeline int) []float64 {
	n := max(1000, int(float64(requests[pipeline])*cfg.Share))
	before := s.CPU()
	seen, err := s.Benchmark(serverprocess.Load{Test: test, Depth: pipeline, Requests: n, Keys: cfg.Keys})
	if err != nil {
		panic(err)
	}
	used := s.CPU() - before
	return []float64{1e9 / seen.PerSecond, float64(used) / float64(n), seen.P50, seen.P99}
}

// Versions says which peers there are, for a report.
func Versions() []string {
	var list []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		out, err := exec.Command(name, "--version").Output()
		if err != nil {
			list = append(list, name+": not on PATH, so it was not measured")
			continue
		}
		line, _, _ := strings.Cut(string(out), "\n")
		list = append(list, name+": "+line)
	}
	return list
}
