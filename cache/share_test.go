package cache

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sort"
	"sync/atomic"
	"testing"
)

// zipf draws keys of which the i-th is asked for with a weight of 1/(i+1)^s. The
// standard library has it for s > 1 only.
type zipf struct {
	random *rand.Rand
	sums   []float64
}

func newZipf(r *rand.Rand, keys int, s float64) *zipf {
	z := &zipf{random: r, sums: make([]float64, keys)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	return z
}

func (z *zipf) next() int {
	return sort.SearchFloat64s(z.sums, z.random.Float64()*z.sums[len(z.sums)-1])
}

// share is how much of all requests the hottest keys have.
func (z *zipf) share(keys int) float64 { return z.sums[keys-1] / z.sums[len(z.sums)-1] }

func TestNinetyFivePercentHitsAreTwentyTimesFewerReads(t *testing.T) {
	// A cache of a tenth of the keys, under requests whose skew makes for 95 % of hits,
	// while one request in a thousand is a write.
	const keys, requests = 20_000, 60_000
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 1))
	z := newZipf(r, keys, 1.4)
	var loads atomic.Int64
	c := mustNew(t, Options[int, int]{Load: counting(&loads), MaxEntries: keys / 10, TTL: -1})
	serve := func() {
		for range requests {
			key := z.next()
			if r.IntN(1000) == 0 {
				c.Invalidate(key)
			}
			mustGet(t, c, key, key*10)
		}
	}
	serve() // until it has what is hot
	before, cold := c.Metrics(), loads.Load()
	serve()
	m := c.Metrics()
	m.Hits, m.Misses = m.Hits-before.Hits, m.Misses-before.Misses
	behind := loads.Load() - cold
	t.Logf("%d requests, %.1f %% of them hits, are %d reads behind the cache: %.1f times fewer; the hottest tenth of the keys has %.1f %%",
		requests, 100*m.HitRate(), behind, requests/float64(behind), 100*z.share(keys/10))
	if m.HitRate() < 0.95 {
		t.Errorf("only %.1f %% of requests were hits, want 95", 100*m.HitRate())
	}
	if behind*20 > requests {
		t.Errorf("%d requests were %d reads behind the cache: want 20 times fewer", requests, behind)
	}
}

func TestASweepDoesNotDriveOutWhatIsHot(t *testing.T) {
	const keys, requests = 10_000, 50_000
	r := rand.New(rand.NewPCG(seedOf(t), 2))
	z := newZipf(r, keys, 1)
	var loads atomic.Int64
	c := mustNew(t, Options[int, int]{Load: counting(&loads), MaxEntries: keys / 10})
	lru := newLRU(keys / 10)
	swept, hits, plain := keys, 0, 0
	for i := range 2 * requests {
		key := z.next()
		if i%2 == 1 { // every other request is for a key that is asked for once
			key = swept
			swept++
		}
		before := loads.Load()
		mustGet(t, c, key, key*10)
		hit := lru.get(key)
		if i >= requests && key < keys {
			if loads.Load() == before {
				hits++
			}
			if hit {
				plain++
			}
		}
	}
	rate := func(n int) float64 { return float64(n) / (requests / 2) }
	t.Logf("hits among requests for keys of the working set: %.1f %%, by recency alone %.1f %%, at best %.1f %%",
		100*rate(hits), 100*rate(plain), 100*z.share(keys/10))
	if rate(hits) < rate(plain)+0.05 {
		t.Errorf("%.3f of requests were hits, %.3f without admission by frequency", rate(hits), rate(plain))
	}
}

// lru is a cache that goes by recency alone.
type lru struct {
	size  int
	order *list.List
	at    map[int]*list.Element
}

func newLRU(size int) *lru { return &lru{size: size, order: list.New(), at: map[int]*list.Element{}} }

// get tells whether a key was there, and puts it in.
func (l *lru) get(key int) bool {
	if e, ok := l.at[key]; ok {
		l.order.MoveToFront(e)
		return true
	}
	l.at[key] = l.order.PushFront(key)
	if l.order.Len() > l.size {
		delete(l.at, l.order.Remove(l.order.Back()).(int))
	}
	return false
}
