package scalecells

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// serverCores is how many processors the server has where their number is not what is compared.
const serverCores = 2

// variant is a server of a comparison.
type variant struct {
	name  string
	cores int
	flags []string
}

// comparison is a list of servers that differ in one thing. The first is what the others are compared with.
type comparison struct {
	name, title string
	variants    []variant
}

// byFlag compares the values of a flag.
func byFlag(name, title, flag, what string, values ...int) comparison {
	c := comparison{name: name, title: title}
	for _, n := range values {
		c.variants = append(c.variants, variant{Count(n, what), serverCores, []string{flag, strconv.Itoa(n)}})
	}
	return c
}

func comparisons(machine int) []comparison {
	cores := comparison{name: "cores", title: "by the number of processors"}
	for _, n := range serverprocess.Steps(machine) {
		cores.variants = append(cores.variants, variant{name: Count(n, "core"), cores: n})
	}
	return []comparison{
		cores,
		byFlag("loops", "by the number of loops (--io-threads)", "--io-threads", "loop", 1, 2),
		byFlag("stores", "by the number of stores, on one disk", "--stores", "store", 1, 2, 4),
		byFlag("groups", "by the number of groups in one store", "--groups", "group", 1, 4, 16),
	}
}

// requests is how many a round has, so that it takes some tenths of a second.
var requests = map[int]int{1: 25_000, 16: 200_000, 64: 400_000}

// quietWindows is how long a round waits for what the one before has left to do: a fifth of a second at most.
const quietWindows = 10

// describeCores says where servers and load run.
func (c comparison) describeCores(machine int) string {
	if !serverprocess.CanPin() {
		return "nothing is pinned, as there is no taskset"
	}
	var list []string
	for _, v := range c.variants {
		servers, generators := serverprocess.Split(machine, v.cores)
		text := fmt.Sprintf("server on processors %s, load on %s", serverprocess.List(servers), serverprocess.List(generators))
		if slices.Equal(servers, generators) {
			text = fmt.Sprintf("server and load share processors %s, as there are no others", serverprocess.List(servers))
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// fleet are the servers of a comparison. They are started when the first is needed.
type fleet struct {
	cfg     Config
	machine int
	c       comparison
	once    sync.Once
	err     error
	servers []*serverprocess.Server
}

// server returns a running server.
func (f *fleet) server(i int) *serverprocess.Server {
	f.once.Do(func() {
		for _, v := range f.c.variants {
			s, err := launch(f.cfg, f.machine, v, serverprocess.Options{Name: f.c.name})
			if s != nil {
				f.servers = append(f.servers, s)
			}
			if f.err = err; err != nil {
				return
			}
		}
	})
	if f.err != nil {
		panic(f.err)
	}
	return f.servers[i]
}

func (f *fleet) stop() {
	for _, s := range f.servers {
		s.Stop()
	}
}

// launch starts and fills our server as a variant says.
func launch(cfg Config, machine int, v variant, o serverprocess.Options, more ...string) (s *serverprocess.Server, err error) {
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		return nil, errors.New("there is no redis-benchmark: install it, as make bench-scale does")
	}
	if o.Path, err = serverprocess.Build(cfg.Dir, cfg.Module); err != nil {
		return nil, err
	}
	o.Dir = cfg.Dir
	o.Cores, _ = serverprocess.Split(machine, v.cores)
	if len(more) == 0 {
		more = []string{"--http-addr", "none"}
	}
	o.Args = func(port, dir string) []string {
		return slices.Concat([]string{"serve", "--resp-addr", "127.0.0.1:" + port, "--data", filepath.Join(dir, "data"), "--appendfsync", "everysec", "--cache-mib", "512"}, more, v.flags)
	}
	if s, err = serverprocess.Launch(o); err == nil {
		err = s.Fill(cfg.Keys)
	}
	return s, err
}

// load is what a server of so many processors is loaded with.
func (cfg Config) load(machine, cores int, test string, depth int) serverprocess.Load {
	_, generators := serverprocess.Split(machine, cores)
	return serverprocess.Load{Test: test, Depth: depth, Requests: cfg.scaled(requests[depth]), Keys: cfg.Keys, Cores: generators}
}

// gauge measures one round of a server.
func (f *fleet) gauge(i int, test string, depth int) []float64 {
	s := f.server(i)
	serverprocess.WaitQuiet(f.usedByAll, quietWindows)
	load := f.cfg.load(f.machine, f.c.variants[i].cores, test, depth)
	before := s.CPU()
	seen, err := s.Benchmark(load)
	if err != nil {
		panic(err)
	}
	used := s.CPU() - before
	return []float64{1e9 / seen.PerSecond, float64(used) / float64(load.Requests)}
}

// usedByAll is what all servers have used of processors.
func (f *fleet) usedByAll() (used time.Duration) {
	for _, s := range f.servers {
		used += s.CPU()
	}
	return used
}

// serverCells yields the comparisons of servers.
func serverCells(cfg Config, machine int, yield func(duel.Cell) bool) bool {
	for _, c := range comparisons(machine) {
		if !(&fleet{cfg: cfg, machine: machine, c: c}).cells(yield) {
			return false
		}
	}
	return true
}

func (f *fleet) cells(yield func(duel.Cell) bool) bool {
	defer f.stop()
	for _, test := range Tests {
		for _, depth := range Depths {
			cell := duel.Cell{
				ID: ID(f.c.name, test, depth),
				Title: fmt.Sprintf("%s of one of %d keys of a server, %d at a time, everysec, %s; %s",
					test, f.cfg.Keys, depth, f.c.title, f.c.describeCores(f.machine)),
				Metrics: duel.Costs,
			}
			for i, v := range f.c.variants {
				cell.Contestants = append(cell.Contestants, duel.Contestant{
					Name: v.name, Ours: i > 0 || len(f.c.variants) == 1,
					Gauge: func() []float64 { return f.gauge(i, test, depth) },
				})
			}
			if !yield(cell) {
				return false
			}
		}
	}
	return true
}
