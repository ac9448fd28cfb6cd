package patterncells

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"sort"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/cache"
	"github.com/cleavekv/cleave/cache/storecache"
)

const (
	// cacheKeys are the rows behind the cache, which holds a tenth of them.
	cacheKeys = 20_000
	// cacheSkew makes for hits in more than 95 of 100 reads.
	cacheSkew = 1.4
)

// cacheCells compare reads of skewed keys through a cache with reads of what is behind
// it: a store on disk whose own memory is as small as it may be.
func cacheCells(cfg Config, yield func(duel.Cell) bool) bool {
	cell := duel.Cell{ID: "patterns/cache-get", Title: "a read of a skewed key that lives elsewhere, through a cache of a tenth of the keys"}
	s, err := openSource(cfg)
	if err != nil {
		cell.Contestants = []duel.Contestant{{Name: "cache", Ours: true, Work: func(int) { panic(err) }}}
		return yield(cell)
	}
	defer s.close()
	read := func(get func(key uint64) error) func(int) {
		i := 0
		return func(ops int) {
			for range ops {
				if err := get(s.stream[i%len(s.stream)]); err != nil {
					panic(err)
				}
				i++
			}
		}
	}
	cell.Contestants = []duel.Contestant{
		{Name: "cache", Ours: true, Work: read(s.cached), Facts: s.facts},
		{Name: "what is behind it", Work: read(func(key uint64) error {
			_, err := s.load(context.Background(), key)
			return err
		})},
	}
	return yield(cell)
}

// source is a store with a cache in front of it.
type source struct {
	dir    string
	db     *cleave.DB
	cache  *cache.Cache[uint64, []byte]
	stream []uint64
}

func openSource(cfg Config) (s *source, err error) {
	s = &source{}
	if s.dir, err = os.MkdirTemp(cfg.Dir, "cache"); err != nil {
		return nil, err
	}
	if s.db, err = cleave.Open(s.dir, cleave.Options{Durability: cleave.Never, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	var b cleave.Batch
	for i := range uint64(cacheKeys) {
		b.Set(s.db.Default(), cacheKey(i), make([]byte, 100))
		if b.Len() == 1000 {
			if err := s.db.Write(context.Background(), &b); err != nil {
				return nil, errors.Join(err, s.close())
			}
			b.Reset()
		}
	}
	s.cache, err = cache.New(cache.Options[uint64, []byte]{Load: s.load, MaxEntries: cacheKeys / 10, TTL: -1})
	if err == nil {
		err = storecache.Follow(s.cache, s.db, func(op cleave.ChangeOp) []uint64 { return []uint64{binary.BigEndian.Uint64(op.Key)} })
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.stream = skewed(1<<17, cacheKeys, cacheSkew)
	return s, nil
}

func (s *source) close() error {
	var errs []error
	if s.cache != nil {
		errs = append(errs, s.cache.Close())
	}
	return errors.Join(append(errs, s.db.Close(), os.RemoveAll(s.dir))...)
}

func cacheKey(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

func (s *source) load(ctx context.Context, key uint64) ([]byte, error) {
	return s.db.Default().Get(ctx, cacheKey(key))
}

func (s *source) cached(key uint64) error {
	_, err := s.cache.Get(context.Background(), key)
	return err
}

// facts plays the stream twice, and counts how many reads of the second time went
// through to what is behind the cache.
func (s *source) facts() []duel.Fact {
	var before cache.Metrics
	for range 2 {
		before = s.cache.Metrics()
		for _, key := range s.stream {
			if err := s.cached(key); err != nil {
				panic(err)
			}
		}
	}
	m := s.cache.Metrics()
	loads := m.Loads - before.Loads
	return []duel.Fact{
		{Name: "hits, %", Value: 100 * (1 - float64(m.Misses-before.Misses)/float64(len(s.stream)))},
		{Name: "times fewer reads behind it", Value: float64(len(s.stream)) / float64(max(loads, 1))},
	}
}

// skewed draws keys of which the i-th has a weight of 1/(i+1)^s.
func skewed(n, keys int, s float64) []uint64 {
	sums := make([]float64, keys)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -s)
		sums[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(sort.SearchFloat64s(sums, r.Float64()*sum))
	}
	return out
}
