package cleave

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

const (
	crashClients = 4
	crashKeys    = 5
	// slack is how many operations more than asked for a life may have until
	// somebody looks: the checker does not bear long histories.
	slack = 200
)

// Clients read and write registers while the machine crashes again and again.
// At durability always their history is linearizable over all crashes.
func TestHistoriesAreLinearizableOverCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	var did tally.Counts
	for range soaking(4) {
		w := newWorld(t, wal.Always, rng, &did)
		for range 6 {
			w.life(20 + rng.IntN(200))
			w.crash()
		}
		w.life(50)
		w.end()
		w.history.check(t)
		did.Add("operations in histories", len(w.history.ops))
		did.Add("histories", 1)
	}
	did.Log(t, "histories", "crashes keeping 0%", "crashes keeping 50%", "crashes keeping 100%", "crashes during open",
		"operations cut by a crash", "requests retried over a crash", "transactions")
}

// world is a store on a disk that crashes, and its clients.
type world struct {
	t          *testing.T
	durability wal.Durability
	stores     int
	groups     int
	rng        *rand.Rand
	did        *tally.Counts

	disk    *crashDisk
	db      *DB
	clock   int64 // the highest that a group was heard to say
	history history
	clients []*crashClient
	// halt keeps the clients from beginning anything more, and wait waits until
	// they have ended what they began.
	halt, wait func()
	crashes    int
	// Transactions on the pair of keys.
	acknowledged, issued atomic.Int64
}

func newWorld(t *testing.T, d wal.Durability, rng *rand.Rand, did *tally.Counts) *world {
	w := &world{t: t, durability: d, stores: 1 + 2*rng.IntN(2), groups: 3 + rng.IntN(3), rng: rng, did: did, disk: newCrashDisk()}
	if w.stores == 1 && rng.IntN(2) == 0 {
		w.groups = 1
	}
	for i := range crashClients {
		w.clients = append(w.clients, &crashClient{world: w, id: i, rng: rand.New(rand.NewPCG(rng.Uint64(), 2))})
	}
	w.open()
	return w
}

// open opens the store, and crashes the machine while it opens, now and then.
func (w *world) open() {
	for w.rng.IntN(3) == 0 {
		opened := make(chan *DB, 1)
		doomed := w.options()
		go func() {
			db, err := openNode(doomed)
			if err != nil {
				w.t.Errorf("open: %v", err)
			}
			opened <- db
		}()
		time.Sleep(time.Duration(w.rng.IntN(3000)) * time.Microsecond)
		w.disk = w.disk.Crash(w.keep(), w.rng)
		w.did.Add("crashes during open", 1)
		if db := <-opened; db != nil {
			mustClose(w.t, db)
		}
	}
	w.openOnce()
}

func (w *world) openOnce() {
	w.db = mustOpen(w.t, w.options())
	w.listen()
}

func (w *world) options() node.Options {
	offset := int64(w.rng.IntN(4000) - 2000) // the machine's clock jumps at a crash
	// All stores are on one disk: they crash at the same moment.
	o := tiny(w.durability, nil, slices.Repeat([]store.FS{w.disk.FS()}, w.stores)...)
	o.Groups = w.groups
	o.Wall = func() int64 { return time.Now().UnixMilli() + offset }
	return o
}

// keep says how much of what was not synced survives: each in turn.
func (w *world) keep() int {
	percent := []int{0, 50, 100}[w.crashes%3]
	w.crashes++
	w.did.Add(fmt.Sprintf("crashes keeping %d%%", percent), 1)
	return percent
}

// listen hears what the clock says.
func (w *world) listen() {
	now := w.db.node.Hosts()[0].Parts()[0].Group.NowMS()
	if now < w.clock {
		w.t.Fatalf("the clock says %d after %d", now, w.clock)
	}
	w.clock = now
}

// life lets the clients work until there are so many operations more, and
// leaves them working.
func (w *world) life(operations int) {
	var n atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	db := w.db
	for _, c := range w.clients {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if n.Load() > int64(operations)+slack {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				c.step(db)
				n.Add(1)
			}
		})
	}
	for n.Load() < int64(operations) {
		time.Sleep(100 * time.Microsecond)
	}
	w.listen()
	w.halt, w.wait = func() { close(stop) }, wg.Wait
}

// crash crashes the machine under the working clients, and opens what is left.
func (w *world) crash() {
	// What is unknown costs the checker dearly: each client has at most one
	// operation under way when the machine crashes.
	w.halt()
	known := w.acknowledged.Load()
	before := w.history.tick()
	disk := w.disk.Crash(w.keep(), w.rng)
	after := w.history.tick()
	issued := w.issued.Load()
	w.wait()
	mustClose(w.t, w.db)
	w.did.Add("operations cut by a crash", w.history.crash(before, after))
	for _, c := range w.clients {
		c.crash(before, after)
	}
	w.disk = disk
	w.open()
	w.checkPair(known, issued)
}

func (w *world) end() {
	w.halt()
	w.wait()
	for _, c := range w.clients {
		for len(c.pending) > 0 { // a request is retried until it is answered
			c.step(w.db)
		}
		c.crash(math.MaxInt64, math.MaxInt64) // there is none: all answers count
	}
	mustClose(w.t, w.db)
}

// checkPair looks at two keys that are only ever written together.
func (w *world) checkPair(known, issued int64) {
	a, b := readPair(w.t, w.db)
	if a != b {
		w.t.Fatalf("one of the pair says %d, the other %d", a, b)
	}
	if w.durability == wal.Always && a < known || a > issued {
		w.t.Fatalf("the pair says %d, but %d were acknowledged and %d tried", a, known, issued)
	}
	w.acknowledged.Store(a)
	w.issued.Store(a)
}

func readPair(t *testing.T, db *DB) (a, b int64) {
	must(t, db.View(ctx, func(tx *Txn) error {
		for i, n := range []*int64{&a, &b} {
			text, err := tx.Get(db.Default(), pairKeys[i])
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if *n, err = strconv.ParseInt(string(text), 10, 64); err != nil {
				return err
			}
		}
		return nil
	}))
	return a, b
}

// pairKeys are in different groups, and on different stores if there are several.
var pairKeys = [][]byte{[]byte("pair:a"), []byte("pair:b")}
