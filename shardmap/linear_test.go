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

func (d typed[K, V]) run(in linearInput) (out linearOutput) {
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
		history := record(d, seed+uint64(round))
		// A check that does not end proves nothing, so it is no pass.
		if verdict := porcupine.CheckOperationsTimeout(registerModel, history, 20*time.Second); verdict != porcupine.Ok {
			t.Fatalf("seed %d: linearizability is %v: %v", seed+uint64(round), verdict, history)
		}
	}
}

func record[K, V comparable](d typed[K, V], seed uint64) (history []porcupine.Operation) {
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
				out := d.run(in)
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
	churner.Go(func() { churn(d.m, d.key, d.value, done) })
	wg.Wait()
	close(done)
	churner.Wait()
	for _, l := range logs {
		history = append(history, l...)
	}
	return history
}

// churn fills the map with other keys and empties it again until done.
func churn[K, V comparable](m *Map[K, V], key func(int) K, value func(uint64) V, done <-chan struct{}) {
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
	t.Run("wide", func(t *testing.T) { checkLinearizable(t, word, spread, gather) })
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

// spread and gather put a number into all words of a value, and see whether
// the words still agree.
func spread(x uint64) (v wide) {
	for i := range v {
		v[i] = x
	}
	return v
}

func gather(v wide) uint64 {
	if v != spread(v[0]) {
		panic(fmt.Sprintf("torn value %v", v))
	}
	return v[0]
}
