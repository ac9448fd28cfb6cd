package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/partition"
)

// embeddedAbout says what measureEmbedded measures.
const embeddedAbout = "Where a group is the limit: three stores in the process of this program, which makes the load itself, so that next to no " +
	"time goes into clients, connections and parsing. %d goroutines without a pause, default options but for `everysec`, keys drawn evenly from " +
	"%d of the default keyspace. *Off*: all keys lie in the slots of one group, and relief is manual. *On*: the same, with relief, once the map " +
	"has been still for %s. *Spread*: keys as they fall, which is what relief could bring at most. The stores take turns, %s each, in %d rounds: " +
	"the medians, and of the ratios of a round the median and the quartiles. Shares are those of the busiest group, by the keys that it has. A ratio is at most the number of processors; " +
	"*spread* says how much of that is left when the log, the tables and the garbage collector have had theirs."

const (
	embeddedWorkers = 16
	embeddedKeys    = 20_000
	embeddedRounds  = 21
	embeddedWindow  = 300 * time.Millisecond
	embeddedStill   = 12 * time.Second
	embeddedRelief  = time.Minute
	embeddedFields  = 64
)

// embeddedLoad is what each goroutine does again and again.
type embeddedLoad struct {
	name string
	do   func(ctx context.Context, k *cleave.Keyspace, r *rand.Rand, key []byte) error
}

func embeddedLoads() []embeddedLoad {
	value := make([]byte, 64)
	var names [embeddedFields][]byte
	for i := range names {
		names[i] = fmt.Appendf(nil, "field%02d", i)
	}
	return []embeddedLoad{
		{"Set of 64 bytes", func(ctx context.Context, k *cleave.Keyspace, _ *rand.Rand, key []byte) error {
			return k.Set(ctx, key, value)
		}},
		{"Add to a counter", func(ctx context.Context, k *cleave.Keyspace, _ *rand.Rand, key []byte) error {
			_, err := k.Add(ctx, key, 1)
			return err
		}},
		{"HAdd to one of 64 fields", func(ctx context.Context, k *cleave.Keyspace, r *rand.Rand, key []byte) error {
			_, err := k.HAdd(ctx, key, names[r.IntN(embeddedFields)], 1)
			return err
		}},
		{"Update that reads a key and writes it", func(ctx context.Context, k *cleave.Keyspace, _ *rand.Rand, key []byte) error {
			return k.DB().Update(ctx, func(tx *cleave.Txn) error {
				if _, err := tx.Get(k, key); err != nil && !errors.Is(err, cleave.ErrNotFound) {
					return err
				}
				return tx.Set(k, key, value)
			})
		}},
	}
}

// embeddedStore is a store with the keys that it is asked for.
type embeddedStore struct {
	db   *cleave.DB
	keys [][]byte
}

// run loads the store for a while and returns how many operations there were in a second.
func (s *embeddedStore) run(do embeddedLoad, window time.Duration) (perSecond float64, err error) {
	ctx := context.Background()
	var ops atomic.Int64
	var stop atomic.Bool
	var failed atomic.Pointer[error]
	var work sync.WaitGroup
	began := time.Now()
	for i := range embeddedWorkers {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(began.UnixNano())))
			n := int64(0)
			for ; !stop.Load(); n++ {
				if err := do.do(ctx, s.db.Default(), r, s.keys[r.IntN(len(s.keys))]); err != nil {
					failed.CompareAndSwap(nil, &err)
					break
				}
			}
			ops.Add(n)
		})
	}
	time.Sleep(window)
	stop.Store(true)
	work.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(ops.Load()) / time.Since(began).Seconds(), nil
}

// share is the share of the keys that the group with the most has.
func (s *embeddedStore) share() float64 {
	counts := map[partition.GroupID]int{}
	most := 0
	for _, k := range s.keys {
		g := s.db.Default().Locate(k).Group
		counts[g]++
		most = max(most, counts[g])
	}
	return float64(most) / float64(len(s.keys))
}

// runUntilStill loads all stores in turn, so that they have the same past, until the map of one has not changed for a while.
func runUntilStill(stores []*embeddedStore, one *embeddedStore, do embeddedLoad) error {
	began := time.Now()
	last, version := began, one.db.Map().Version()
	for time.Since(last) < embeddedStill && time.Since(began) < embeddedRelief {
		for _, s := range stores {
			if _, err := s.run(do, embeddedWindow); err != nil {
				return err
			}
		}
		if now := one.db.Map().Version(); now != version {
			last, version = time.Now(), now
		}
	}
	return nil
}

// measureEmbedded measures what relief brings where a group is the limit. It returns lines of the report.
func measureEmbedded(dir string, progress io.Writer) (lines []string, err error) {
	var one, all [][]byte
	for i := 0; len(one) < embeddedKeys; i++ {
		name := fmt.Sprintf("user:%d", i)
		if len(all) < embeddedKeys {
			all = append(all, []byte(name))
		}
		if hash.SlotOfString(name) < hash.Slots/2 {
			one = append(one, []byte(name))
		}
	}
	for i, load := range embeddedLoads() {
		line, err := measureEmbeddedLoad(filepath.Join(dir, fmt.Sprint("embedded", i)), load, one, all)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", load.name, err)
		}
		fmt.Fprintf(progress, "  %s\n", line)
		lines = append(lines, line)
	}
	return lines, nil
}

func measureEmbeddedLoad(dir string, load embeddedLoad, one, all [][]byte) (line string, err error) {
	const off, on, spread = 0, 1, 2
	stores := make([]*embeddedStore, 3)
	defer func() {
		for _, s := range stores {
			if s != nil {
				err = errors.Join(err, s.db.Close())
			}
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for i := range stores {
		db, err := cleave.Open(filepath.Join(dir, fmt.Sprint(i)), cleave.Options{Durability: cleave.EverySec, ManualRelief: i != on})
		if err != nil {
			return "", err
		}
		stores[i] = &embeddedStore{db: db, keys: one}
		if i == spread {
			stores[i].keys = all
		}
	}
	if err := runUntilStill(stores, stores[on], load); err != nil {
		return "", err
	}
	var rates, ratios [3][]float64
	for round := range embeddedRounds {
		var rate [3]float64
		for j := range stores {
			i := (round + j) % len(stores) // each is first as often
			if rate[i], err = stores[i].run(load, embeddedWindow); err != nil {
				return "", err
			}
		}
		for i := range rates {
			rates[i], ratios[i] = append(rates[i], rate[i]), append(ratios[i], rate[i]/rate[off])
		}
	}
	for i := range rates {
		slices.Sort(rates[i])
		slices.Sort(ratios[i])
	}
	ratio := func(i int) string {
		r := ratios[i]
		return fmt.Sprintf("%.2fx (%.2f to %.2f)", r[len(r)/2], r[len(r)/4], r[len(r)*3/4])
	}
	return fmt.Sprintf("| %s | %.0f %% → %.0f %% | %.0f | %.0f | %.0f | %s | %s |", load.name, 100*stores[off].share(), 100*stores[on].share(),
		rates[off][embeddedRounds/2], rates[on][embeddedRounds/2], rates[spread][embeddedRounds/2], ratio(on), ratio(spread)), nil
}
