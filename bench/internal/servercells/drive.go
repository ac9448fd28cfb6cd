package servercells

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// driveClients is how many connections a mix has, and driveDepth how many operations each
// sends at once.
const (
	driveClients = 16
	driveDepth   = 16
)

// drive does n operations of a mix and returns what a round of a cell yields.
func (s *server) drive(m *mix, speech speech, keys keysOf, n int) []float64 {
	before, began := s.CPU(), time.Now()
	took := make([][]time.Duration, driveClients)
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range driveClients {
		wg.Go(func() {
			var err error
			if took[i], err = s.driveOne(m, speech, keys, n/driveClients, uint64(i)); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	wall := time.Since(began)
	if err := failed.Load(); err != nil {
		panic(fmt.Errorf("%s, mix %s: %w", s.name, m.name, *err))
	}
	used := s.CPU() - before
	all := slices.Concat(took...)
	slices.Sort(all)
	at := func(share float64) float64 { return float64(all[int(share*float64(len(all)-1))]) }
	return []float64{float64(wall) / float64(n), float64(used) / float64(n), at(0.5), at(0.99)}
}

// driveOne is one connection, and returns how long its exchanges took.
func (s *server) driveOne(m *mix, speech speech, keys keysOf, n int, number uint64) (took []time.Duration, err error) {
	r := rand.New(rand.NewPCG(rand.Uint64(), number))
	if m.scans > 0 {
		w, err := s.scanner()
		if err != nil {
			return nil, err
		}
		defer w.Close()
		for range max(1, n) {
			d, err := s.scanOne(m, w, r, keys)
			if err != nil {
				return nil, err
			}
			took = append(took, d)
		}
		return took, nil
	}
	w, err := dial(s.Port, speech)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var room []byte
	var inserts []int
	for done := 0; done == 0 || done < n; done += driveDepth {
		answers := 0
		for range driveDepth {
			answers += m.ask(w, r, keys, &room, &inserts)
		}
		began := time.Now()
		if err := w.exchange(answers); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		keys.census.inserted(inserts)
		inserts = inserts[:0]
	}
	return took, nil
}

// load writes all keys.
func (s *server) load(speech speech, n int) error {
	w, err := dial(s.Port, speech)
	if err != nil {
		return err
	}
	defer w.Close()
	for k := 0; k < n; {
		answers := 0
		for ; k < n && answers < 1000; k++ {
			w.out = w.write(w.out, keysOf{}.key(nil, k))
			answers++
		}
		if err := w.exchange(answers); err != nil {
			return err
		}
	}
	return nil
}

// driveOps is how many operations a round of a mix has, and scanOps if they are scans.
const (
	driveOps = 100_000
	scanOps  = 4_000
)

// mixCells yields the mixes, against Redis, and reads and writes against memcached too.
func mixCells(cfg Config, yield func(duel.Cell) bool) bool {
	servers, err := startMixes(cfg)
	if err != nil {
		return yield(failing("server/ycsb", err))
	}
	defer servers.stop()
	draw := newZipf(cfg.Keys)
	counts := map[*server]*census{}
	for _, s := range servers {
		counts[s] = newCensus(cfg.Keys)
	}
	for i := range mixes {
		m := &mixes[i]
		if !yield(servers.mixCell(cfg, m, draw, counts, "server/ycsb-"+m.name, fmt.Sprintf("YCSB-like mix %s: %s, everysec", m.name, m.what), Peer)) {
			return false
		}
	}
	if !servers.have(Cached) {
		return true
	}
	for _, m := range []mix{{name: "get", reads: 100}, {name: "set", updates: 100}} {
		if !yield(servers.mixCell(cfg, &m, draw, counts, "server/memcached-"+m.name, m.name+" of a key by a Zipf law, beside memcached, which keeps nothing; ours everysec", Cached)) {
			return false
		}
	}
	return true
}

// have reports whether there is a server of a name.
func (all servers) have(name string) bool {
	return slices.ContainsFunc(all, func(s *server) bool { return s.name == name })
}

// mixCell is a cell with our server and one peer.
func (all servers) mixCell(cfg Config, m *mix, draw *zipf, counts map[*server]*census, id, title, peer string) duel.Cell {
	cell := duel.Cell{ID: id, Metrics: metrics,
		Title: fmt.Sprintf("%s: %d keys by a Zipf law (%.2f), %d bytes, %d connections", title, cfg.Keys, skew, serverprocess.ValueBytes, driveClients)}
	n := driveOps
	if m.scans > 0 {
		n = scanOps
	} else {
		cell.Title += fmt.Sprintf(", %d at a time", driveDepth)
	}
	n = max(driveClients*driveDepth, int(float64(n)*cfg.Share))
	for _, s := range all {
		if s.name != Ours && s.name != peer {
			continue
		}
		var speech speech = respSpeech{}
		if s.name == Cached {
			speech = plainSpeech{}
		}
		keys := keysOf{draw, counts[s]}
		cell.Contestants = append(cell.Contestants, duel.Contestant{
			Name: s.name, Ours: s.name == Ours,
			Gauge: func() []float64 { return s.drive(m, speech, keys, n) },
		})
	}
	return cell
}
