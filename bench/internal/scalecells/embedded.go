package scalecells

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

const (
	// goroutines is how many call an embedded store at once.
	goroutines = 64
	// rowBytes is how long its values are, and cacheBytes enough memory for all of them.
	rowBytes   = 64
	cacheBytes = 512 << 20
)

// embedded is a store in this process, used with so many processors.
type embedded struct {
	cfg   Config
	cores int
	once  sync.Once
	dir   string
	db    *cleave.DB
	ks    *cleave.Keyspace
}

// onCores calls f while Go has so many processors.
func onCores(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

// open opens and fills the store, once.
func (e *embedded) open() {
	e.once.Do(func() {
		onCores(e.cores, func() {
			var err error
			e.dir, err = os.MkdirTemp(e.cfg.Dir, "scale")
			must(err)
			e.db, err = cleave.Open(e.dir, cleave.Options{Durability: cleave.EverySec, CacheBytes: cacheBytes})
			must(err)
			e.ks, err = e.db.OpenKeyspace(context.Background(), cleave.KeyspaceOptions{Name: "bench"})
			must(err)
			caller := newCaller(e, 0)
			for row := 0; row < e.cfg.Rows; {
				var b cleave.Batch
				for ; row < e.cfg.Rows && b.Len() < 500; row++ {
					b.Set(e.ks, caller.key(row), caller.value)
				}
				must(e.db.Write(context.Background(), &b))
			}
		})
	})
}

func (e *embedded) close() {
	if e.db != nil {
		_ = e.db.Close()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// caller is a goroutine that uses a store.
type caller struct {
	*embedded
	random *rand.Rand
	room   []byte
	value  []byte
}

func newCaller(e *embedded, number int) *caller {
	return &caller{embedded: e, random: rand.New(rand.NewPCG(rand.Uint64(), uint64(number))), value: make([]byte, rowBytes)}
}

// key is that of a row, good until the next one.
func (c *caller) key(row int) []byte {
	c.room = append(c.room[:0], "row:00000000"...)
	for i := len(c.room) - 1; row > 0; i-- {
		c.room[i] = byte('0' + row%10)
		row /= 10
	}
	return c.room
}

func (c *caller) anyKey() []byte { return c.key(c.random.IntN(c.cfg.Rows)) }

// calls are what is measured, and how many a round has.
var calls = []struct {
	name, title string
	ops         int
	one         func(*caller)
}{
	{"get", "Get", 400_000, func(c *caller) {
		value, err := c.ks.Get(context.Background(), c.anyKey())
		must(err)
		if len(value) != rowBytes {
			panic("lost a row")
		}
	}},
	{"set", "Set, everysec,", 150_000, func(c *caller) { must(c.ks.Set(context.Background(), c.anyKey(), c.value)) }},
	{"update", "Update, everysec, that reads and writes a row,", 60_000, func(c *caller) {
		key := c.anyKey()
		must(c.db.Update(context.Background(), func(tx *cleave.Txn) error {
			if _, err := tx.Get(c.ks, key); err != nil {
				return err
			}
			return tx.Set(c.ks, key, c.value)
		}))
	}},
}

// embeddedCells yields what the machine gives to plain arithmetic, and the embedded store, by the number of processors.
func embeddedCells(cfg Config, machine int, yield func(duel.Cell) bool) bool {
	var stores []*embedded
	defer func() {
		for _, e := range stores {
			e.close()
		}
	}()
	arithmetic := duel.Cell{ID: EmbeddedID("none"), Metrics: duel.Costs, Ops: cfg.scaled(2000),
		Title: "nothing but arithmetic, GOMAXPROCS by the number of processors: what the machine gives"}
	for i, n := range serverprocess.Steps(machine) {
		e := &embedded{cfg: cfg, cores: n}
		stores = append(stores, e)
		arithmetic.Contestants = append(arithmetic.Contestants, duel.Contestant{Name: Count(n, "core"), Ours: i > 0 || machine == 1, Work: func(ops int) {
			onCores(e.cores, func() { workload.Parallel(goroutines, ops, func(_, n int) { calculate(n) }) })
		}})
	}
	if !yield(arithmetic) {
		return false
	}
	process := duel.NewSystem()
	for _, call := range calls {
		cell := duel.Cell{ID: EmbeddedID(call.name), Metrics: duel.Costs, Ops: cfg.scaled(call.ops),
			Title: fmt.Sprintf("%s of one of %d rows of %d bytes of an embedded store, %d goroutines, GOMAXPROCS by the number of processors", call.title, cfg.Rows, rowBytes, goroutines)}
		for i, e := range stores {
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: Count(e.cores, "core"), Ours: i > 0 || machine == 1,
				Prepare: func() {
					e.open()
					serverprocess.WaitQuiet(process.CPU, quietWindows)
				},
				Work: func(ops int) {
					onCores(e.cores, func() {
						workload.Parallel(goroutines, ops, func(number, n int) {
							c := newCaller(e, number)
							for range n {
								call.one(c)
							}
						})
					})
				}})
		}
		if !yield(cell) {
			return false
		}
	}
	return true
}

// calculated is where results go, so that they are needed.
var calculated struct {
	sync.Mutex
	sum uint64
}

// calculate takes about as long as so many times 50 µs.
func calculate(times int) {
	var sum uint64
	for i := range times * 20_000 {
		sum = workload.Scramble(sum + uint64(i))
	}
	calculated.Lock()
	defer calculated.Unlock()
	calculated.sum += sum
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
