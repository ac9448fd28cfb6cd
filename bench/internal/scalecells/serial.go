package scalecells

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/google/pprof/profile"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// section is work that one thread does at a time: by itself, or by turns.
type section struct {
	name string
	// function is the one below which all of that work happens.
	function string
	// growsWithCores means that there is one for each processor: a loop, or the executor of a group. Of the others
	// there is one for each store.
	growsWithCores bool
}

const (
	ourModule = "github.com/cleavekv/cleave/internal/"
	tables    = "github.com/cockroachdb/pebble/v2."
)

var sections = []section{
	{"event loops", ourModule + "server/conn.(*loop).run", true},
	{"executors of groups", ourModule + "shard/group.(*batchRun).executeBatch", true},
	{"log turn", ourModule + "storage/wal.(*Log).Append", false},
	{"log sync", ourModule + "storage/wal.(*Log).syncInBackground", false},
	{"preparer of segments", ourModule + "storage/wal.(*Log).runPreparer", false},
	{"applier", ourModule + "storage/store.(*Store).runApplier", false},
	{"flush of tables", tables + "(*DB).flush", false},
	{"compaction of tables", tables + "(*DB).compact", false},
}

// Names of contestants and metrics of serial cells.
const (
	BusiestSerial = "busiest of one for each store"
	busiestThread = "busiest thread"
	outside       = "outside of all"
	ShareOfCPU    = "share of CPU"
)

// boundCores are the numbers of processors that bounds are reckoned for.
var boundCores = []int{16, 64}

// shares is what part of the CPU of a server each section takes, by its name. Sections that contain others take
// theirs too.
type shares map[string]float64

// sharesOf reads them from a profile.
func sharesOf(p *profile.Profile) shares {
	value := len(p.SampleType) - 1 // nanoseconds
	var all, rest int64
	within := make([]int64, len(sections))
	for _, s := range p.Sample {
		all += s.Value[value]
		found := false
		for i := range sections {
			if isBelow(s, sections[i].function) {
				within[i] += s.Value[value]
				found = true
			}
		}
		if !found {
			rest += s.Value[value]
		}
	}
	out := shares{outside: float64(rest) / float64(max(all, 1))}
	for i, s := range sections {
		out[s.name] = float64(within[i]) / float64(max(all, 1))
		if !s.growsWithCores {
			out[BusiestSerial] = max(out[BusiestSerial], out[s.name])
		}
	}
	return out
}

// isBelow reports whether a function is on the stack of a sample.
func isBelow(s *profile.Sample, function string) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(l profile.Line) bool { return l.Function != nil && l.Function.Name == function })
	})
}

// checkSections fails if a function of the sections is not in the server: it has another name then, and its share would
// be taken for none.
func checkSections(binary string) error {
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if !bytes.Contains(text, []byte(s.function+"\x00")) {
			return fmt.Errorf("the server has no function %s, by which the profile tells %q: name the one that took its place", s.function, s.name)
		}
	}
	return nil
}

// profiler is a server under load, of which profiles are taken: one for each round, for all sections.
type profiler struct {
	cfg     Config
	machine int
	address string
	server  *serverprocess.Server
}

// start starts the server, with one store and a group for each of its processors.
func (p *profiler) start() error {
	if p.server != nil {
		return nil
	}
	port, err := serverprocess.FreePort()
	if err != nil {
		return err
	}
	p.address = "127.0.0.1:" + port
	v := variant{"profiled", serverCores, []string{"--groups", strconv.Itoa(serverCores)}}
	s, err := launch(p.cfg, p.machine, v, serverprocess.Options{Name: v.name, Env: serverprocess.ProfiledEnv}, serverprocess.ProfiledArgs(p.address)...)
	if err == nil {
		err = checkSections(s.Path)
	}
	if err != nil {
		s.Stop()
		return err
	}
	serverprocess.WaitQuiet(s.CPU, 5*quietWindows) // what filling it has left to do is not of the load
	p.server = s
	return nil
}

// take takes one profile under a load.
func (p *profiler) take(test string, depth int) (shares, error) {
	if err := p.start(); err != nil {
		return nil, err
	}
	stop, err := p.server.BenchmarkUntilStopped(p.cfg.load(p.machine, serverCores, test, depth))
	if err != nil {
		return nil, err
	}
	defer stop()
	time.Sleep(200 * time.Millisecond) // until they are connected
	before := p.server.ThreadCPU()
	recorded, err := serverprocess.Profile(context.Background(), p.address, p.cfg.ProfileSeconds)
	if err != nil {
		return nil, err
	}
	out := sharesOf(recorded)
	out[busiestThread] = shareOfBusiest(before, p.server.ThreadCPU())
	return out, nil
}

// shareOfBusiest is which part of what all threads have used one has used.
func shareOfBusiest(before, after map[string]time.Duration) float64 {
	var all, most time.Duration
	for thread, used := range after {
		used -= before[thread]
		all, most = all+used, max(most, used)
	}
	return float64(most) / float64(max(all, 1))
}

// serialCells yields what is serial in a server, by load.
func serialCells(cfg Config, machine int, yield func(duel.Cell) bool) bool {
	p := &profiler{cfg: cfg, machine: machine}
	defer func() { p.server.Stop() }()
	for _, test := range Tests {
		for _, depth := range Depths {
			if !yield(p.cell(test, depth)) {
				return false
			}
		}
	}
	return true
}

// cell is one load. Its contestants are the sections, which share the profile of a round.
func (p *profiler) cell(test string, depth int) duel.Cell {
	cell := duel.Cell{
		ID: ID("serial", test, depth), Rounds: p.cfg.Profiles,
		Title:   fmt.Sprintf("what one thread does at a time during a %s, %d at a time, everysec, in profiles of %d s, with one store and a group for each processor", test, depth, p.cfg.ProfileSeconds),
		Metrics: []duel.Metric{{Name: ShareOfCPU, Unit: duel.Share}},
	}
	var rounds []shares
	add := func(name string, threads func(cores int) int) {
		next := 0
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: true,
			Gauge: func() []float64 {
				if next == len(rounds) {
					s, err := p.take(test, depth)
					must(err)
					rounds = append(rounds, s)
				}
				next++
				return []float64{rounds[next-1][name]}
			},
			Facts: func() []duel.Fact { return bounds(rounds, name, threads) },
		})
	}
	one := func(int) int { return 1 }
	for _, s := range sections {
		if s.growsWithCores {
			add(s.name, func(cores int) int { return cores })
		} else {
			add(s.name, one)
		}
	}
	add(BusiestSerial, one)
	add(busiestThread, nil)
	add(outside, nil)
	return cell
}

// bounds are the facts of a section: how much faster many processors can be, by the median of its shares.
func bounds(rounds []shares, name string, threads func(cores int) int) (list []duel.Fact) {
	if threads == nil {
		return nil
	}
	var all []float64
	for _, r := range rounds {
		all = append(all, r[name])
	}
	for _, cores := range boundCores {
		list = append(list, duel.Fact{Name: fmt.Sprintf("bound on %d cores", cores), Value: Bound(duel.Median(all), threads(cores), cores)})
	}
	return list
}
