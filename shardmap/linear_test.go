package shardmap

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is checked key by key against a register that may be absent.
type (
	linearInput struct {
		op       string
		key      int
		arg, old uint64
	}
	linearOutput struct {
		value uint64
		ok    bool
	}
	register struct {
		value   uint64
		present bool
	}
)

var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(linearInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		want, next := stepRegister(state.(register), input.(linearInput))
		return want == output.(linearOutput), next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// stepRegister returns what an operation must answer and what it leaves.
func stepRegister(r register, in linearInput) (linearOutput, register) {
	was := linearOutput{r.value, r.present}
	stored := register{in.arg, true}
	switch in.op {
	case "load":
		return was, r
	case "store":
		return linearOutput{}, stored
	case "swap":
		return was, stored
	case "loadOrStore":
		if r.present {
			return was, r
		}
		return linearOutput{in.arg, false}, stored
	case "loadAndDelete":
		return was, register{}
	case "clear":
		return linearOutput{}, register{}
	case "add": // Compute that deletes at multiples of five
		sum := register{r.value + in.arg, true}
		if sum.value%5 == 0 {
			sum = register{}
		}
		return linearOutput{sum.value, sum.present}, sum
	case "cas":
		if r.present && r.value == in.old {
			return linearOutput{ok: true}, stored
		}
		return linearOutput{}, r
	default: // "cad"
		if r.present && r.value == in.old {
			return linearOutput{ok: true}, register{}
		}
		return linearOutput{}, r
	}
}

// typed runs operations on a map of any type; number panics on a torn value.
type typed[K, V comparable] struct {
	m      *Map[K, V]
	key    func(int) K
	value  func(uint64) V
	number func(V) uint64
}

func (d typed[K, V]) runOp(in linearInput) (out linearOutput) {
	k, v := d.key(in.key), d.value(in.arg)
	var got V
	switch in.op {
	case "load":
		got, out.ok = d.m.Load(k)
	case "store":
		d.m.Store(k, v)
		return out
	case "swap":
		got, out.ok = d.m.Swap(k, v)
	case "loadOrStore":
		got, out.ok = d.m.LoadOrStore(k, v)
	case "loadAndDelete":
		got, out.ok = d.m.LoadAndDelete(k)
	case "clear":
		d.m.Clear()
		return out
	case "add":
		got, out.ok = d.m.Compute(k, func(old V, _ bool) (V, Op) {
			sum := d.number(old) + in.arg
			if sum%5 == 0 {
				return old, Delete
			}
			return d.value(sum), Update
		})
	case "cas":
		out.ok = CompareAndSwap(d.m, k, d.value(in.old), v)
		return out
	default:
		out.ok = CompareAndDelete(d.m, k, d.value(in.old))
		return out
	}
	out.value = d.number(got)
	return out
}

const linearKeys = 3

var linearOps = []string{"load", "load", "load", "store", "swap", "loadOrStore", "loadAndDelete", "add", "cas", "cad"}

// checkLinearizable records what several goroutines see while another one
// makes the map grow and shrink under them, and asks porcupine.
func checkLinearizable[K, V comparable](t *testing.T, key func(int) K, value func(uint64) V, number func(V) uint64) {
	seed := rand.Uint64()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	if os.Getenv("CLEAVE_SOAK") != "" {
		rounds = 2000
	}
	for round := range rounds {
		m, err := New[K, V](Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := typed[K, V]{m, key, value, number}
		history := recordHistory(d, seed+uint64(round))
		// A check that does not end proves nothing, so it is no pass.
		if verdict := porcupine.CheckOperationsTimeout(registerModel, history, time.Minute); verdict != porcupine.Ok {
			t.Fatalf("seed %d: linearizability is %v: %v", seed+uint64(round), verdict, history)
		}
	}
}

func recordHistory[K, V comparable](d typed[K, V], seed uint64) (history []porcupine.Operation) {
	const clients, opsEach = 4, 120
	var clock atomic.Int64
	var wg sync.WaitGroup
	logs := make([][]porcupine.Operation, clients)
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for i := range opsEach {
				in := linearInput{op: linearOps[rng.IntN(len(linearOps))], key: rng.IntN(linearKeys), arg: rng.Uint64N(8), old: rng.Uint64N(8)}
				if c == 0 && i%40 == 39 {
					in.op = "clear"
				}
				call := clock.Add(1)
				out := d.runOp(in)
				back := clock.Add(1)
				for k := range linearKeys {
					if k == in.key || in.op == "clear" {
						in.key = k
						logs[c] = append(logs[c], porcupine.Operation{ClientId: c, Input: in, Call: call, Output: out, Return: back})
					}
				}
			}
		})
	}
	done := make(chan struct{})
	var churner sync.WaitGroup
	churner.Go(func() { churnMap(d.m, d.key, d.value, done) })
	wg.Wait()
	close(done)
	churner.Wait()
	for _, l := range logs {
		history = append(history, l...)
	}
	return history
}

// churnMap fills the map with other keys and empties it again until done.
func churnMap[K, V comparable](m *Map[K, V], key func(int) K, value func(uint64) V, done <-chan struct{}) {
	const others = 150
	for {
		for i := range others {
			m.Store(key(linearKeys+i), value(1))
		}
		for i := range others {
			m.Delete(key(linearKeys + i))
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestEveryLayoutIsLinearizablePerKey(t *testing.T) {
	identity := func(x uint64) uint64 { return x }
	word := func(i int) uint64 { return uint64(i) }
	name := func(i int) string { return fmt.Sprint("key", i) }
	t.Run("word", func(t *testing.T) { checkLinearizable(t, word, identity, identity) })
	t.Run("wide", func(t *testing.T) { checkLinearizable(t, word, spreadWord, gatherWord) })
	t.Run("word box", func(t *testing.T) { checkLinearizable(t, name, identity, identity) })
	t.Run("value box", func(t *testing.T) {
		checkLinearizable(t, name,
			func(x uint64) string { return fmt.Sprint(x) },
			func(s string) (x uint64) { fmt.Sscan(s, &x); return x })
	})
	t.Run("pointer box", func(t *testing.T) {
		var pool [4096]uint64
		for i := range pool {
			pool[i] = uint64(i)
		}
		checkLinearizable(t, word,
			func(x uint64) *uint64 { return &pool[x] },
			func(p *uint64) uint64 {
				if p == nil {
					return 0
				}
				return *p
			})
	})
}

// spreadWord and gather put a number into all words of a value, and see whether
// the words still agree.
func spreadWord(x uint64) (v wide) {
	for i := range v {
		v[i] = x
	}
	return v
}

func gatherWord(v wide) uint64 {
	if v != spreadWord(v[0]) {
		panic(fmt.Sprintf("torn value %v", v))
	}
	return v[0]
}

// TestReadersSeeWholeEntries runs without a clock or a lock that would order
// the goroutines by accident. Every entry holds its own key in its value; keys
// share slots because they come and go.
func TestReadersSeeWholeEntries(t *testing.T) {
	const keys, rounds = 12, 1500
	t.Run("word", func(t *testing.T) {
		checkWholeEntries(t, keys, rounds, func(k, i uint64) uint64 { return k + i*keys }, func(v uint64) uint64 { return v % keys })
	})
	t.Run("wide", func(t *testing.T) {
		checkWholeEntries(t, keys, rounds, func(k, i uint64) wide { return spreadWord(k + i*keys) }, func(v wide) uint64 { return gatherWord(v) % keys })
	})
	t.Run("entry", func(t *testing.T) {
		type pair struct{ a, b *uint64 }
		checkWholeEntries(t, keys, rounds,
			func(k, i uint64) pair { x := k + i*keys; return pair{&x, &x} },
			func(v pair) uint64 {
				if v.a != v.b {
					panic("torn pair")
				}
				return *v.a % keys
			})
	})
}

func checkWholeEntries[V any](t *testing.T, keys uint64, rounds int, value func(k, i uint64) V, keyOf func(V) uint64) {
	m, err := New[uint64, V](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for g := range 2 {
		writers.Go(func() {
			for i := range rounds {
				for k := range keys {
					if (i+int(k)+g)%3 == 0 {
						m.Delete(k)
					} else {
						m.Store(k, value(k, uint64(i)))
					}
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for k := range keys {
					if v, ok := m.Load(k); ok && keyOf(v) != k {
						t.Errorf("Load(%d) returned the value of %d", k, keyOf(v))
						return
					}
				}
				for k, v := range m.All() {
					if keyOf(v) != k {
						t.Errorf("All yields %d with the value of %d", k, keyOf(v))
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// TestAReusedSlotIsNotTakenForItsOldKey lets two keys take turns in one slot:
// a reader that finds the one and then copies the value of the other must
// notice.
func TestAReusedSlotIsNotTakenForItsOldKey(t *testing.T) {
	const flips = 60000
	t.Run("word", func(t *testing.T) {
		checkSlotReuse(t, flips, func(k uint64) uint64 { return k }, func(v uint64) uint64 { return v })
	})
	t.Run("wide", func(t *testing.T) { checkSlotReuse(t, flips, spreadWord, gatherWord) })
	t.Run("entry", func(t *testing.T) {
		checkSlotReuse(t, flips, func(k uint64) any { return k }, func(v any) uint64 { return v.(uint64) })
	})
}

func checkSlotReuse[V any](t *testing.T, flips int, value func(uint64) V, keyOf func(V) uint64) {
	m, err := New[uint64, V](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	pair := [2]uint64{0, rootNeighbour(m)}
	var writer, readers sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := range flips {
			k := pair[i%2]
			m.Store(k, value(k))
			m.Delete(k)
		}
	})
	for _, k := range pair {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for range 100 {
					if v, ok := m.Load(k); ok && keyOf(v) != k {
						t.Errorf("Load(%d) returned the value of %d", k, keyOf(v))
						return
					}
				}
			}
		})
	}
	writer.Wait()
	close(stop)
	readers.Wait()
}

// TestDeletingRaisesTheVersion: readers know by nothing else that a slot has
// another key than when they looked, in the root and behind it.
func TestDeletingRaisesTheVersion(t *testing.T) {
	m, err := New[uint64, uint64](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb := &m.ensureState().words.wordTable
	tb.seeds.second = 0 // every hash is now 0, so that all keys are in one chain
	for k := range uint64(2 * wordSlots) {
		m.Store(k, k)
	}
	root := (*wordBucket)(findSegment(tb.shardOf(0).loadDirectory(), 0).bucketAt(0, wordBucketBytes))
	for k := range uint64(2 * wordSlots) {
		before := root.header.Load()
		m.Delete(k)
		if root.hasVersion(before) {
			t.Errorf("the version is the same after deleting key %d", k)
		}
	}
}

// rootNeighbour returns a key that has its root in common with key 0 as long as
// the map has its first, smallest segment.
func rootNeighbour[V any](m *Map[uint64, V]) uint64 {
	s := m.ensureState()
	first := segment{roots: uint32(s.loadTable().sizes[0].buckets)}
	root := func(k uint64) uint64 { return first.rootIndex(s.loadTable().seeds.hashWord(k)) }
	k := uint64(1)
	for root(k) != root(0) {
		k++
	}
	return k
}
