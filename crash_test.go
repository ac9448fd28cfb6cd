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
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

const (
	crashClients = 4
	crashKeys    = 5
	// slack is how many operations more than asked for a life may have until
	// the next look: the checker does not bear long histories.
	slack = 200
)

// Clients read and write registers while the machine crashes again and again.
// At durability always their history is linearizable over all crashes.
func TestHistoriesAreLinearizableOverCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	var did tally.Counts
	for range scaleRounds(4) {
		w := newWorld(t, wal.Always, rng, &did)
		for range 6 {
			w.runClients(20 + rng.IntN(200))
			w.crash()
		}
		w.runClients(50)
		w.stopClients()
		w.history.check(t)
		did.Add("operations in histories", len(w.history.ops))
		did.Add("histories", 1)
	}
	did.Log(t, "histories", "crashes keeping 0%", "crashes keeping 50%", "crashes keeping 100%", "crashes during open",
		"operations cut by a crash", "requests retried over a crash", "transactions")
}

// crashWorld is a store on a disk that crashes, and its clients.
type crashWorld struct {
	t          *testing.T
	durability wal.Durability
	stores     int
	groups     int
	rng        *rand.Rand
	did        *tally.Counts

	disk    *crashDisk
	db      *DB
	mortals []*expiringKey
	history history
	clients []*crashClient
	// halt keeps the clients from beginning anything more, and wait waits until
	// they have ended what they began.
	halt, wait func()
	crashes    int
	// Transactions on the pair of keys.
	acknowledged, issued atomic.Int64
}

func newWorld(t *testing.T, d wal.Durability, rng *rand.Rand, did *tally.Counts) *crashWorld {
	w := &crashWorld{t: t, durability: d, stores: 1 + 2*rng.IntN(2), groups: 3 + rng.IntN(3), rng: rng, did: did, disk: newCrashDisk()}
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
func (w *crashWorld) open() {
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
		w.disk = w.disk.Crash(w.nextKeepPercent(), w.rng)
		w.did.Add("crashes during open", 1)
		if db := <-opened; db != nil {
			mustClose(w.t, db)
		}
	}
	w.openOnce()
}

func (w *crashWorld) openOnce() {
	w.db = mustOpen(w.t, w.options())
	w.checkExpired()
}

func (w *crashWorld) options() node.Options {
	offset := int64(w.rng.IntN(4000) - 2000) // the machine's clock jumps at a crash
	// All stores are on one disk: they crash at the same moment.
	o := tinyOptions(w.durability, nil, slices.Repeat([]store.FS{w.disk.FS()}, w.stores)...)
	o.Groups = w.groups
	o.Wall = func() int64 { return time.Now().UnixMilli() + offset }
	return o
}

// nextKeepPercent returns how much of what was not synced survives: each in turn.
func (w *crashWorld) nextKeepPercent() int {
	percent := []int{0, 50, 100}[w.crashes%3]
	w.crashes++
	w.did.Add(fmt.Sprintf("crashes keeping %d%%", percent), 1)
	return percent
}

// expiringKey is a key that expires.
type expiringKey struct {
	key  []byte
	dead bool // it was seen so
}

// checkExpired looks at keys that expire: one that was seen dead stays so, though the machine's clock
// was set back at a crash. Then there is another. Where acknowledged writes may be lost, so may
// be the clock that they were made by.
func (w *crashWorld) checkExpired() {
	if w.durability != wal.Always {
		return
	}
	ks := w.db.Default()
	for _, m := range w.mortals {
		_, err := ks.Get(ctx, m.key)
		switch {
		case err == nil && m.dead:
			w.t.Fatalf("%q is alive after it was dead", m.key)
		case errors.Is(err, ErrNotFound):
			m.dead = true
		case err != nil:
			w.t.Fatal(err)
		}
	}
	m := &expiringKey{key: fmt.Appendf(nil, "mortal %d", len(w.mortals))}
	if _, err := ks.SetWith(ctx, m.key, nil, SetOptions{TTL: time.Duration(1+w.rng.IntN(1500)) * time.Millisecond}); err != nil {
		w.t.Fatal(err)
	}
	w.mortals = append(w.mortals, m)
}

// runClients lets the clients work until there are so many operations more, and
// leaves them working.
func (w *crashWorld) runClients(operations int) {
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
	w.checkExpired()
	w.halt, w.wait = func() { close(stop) }, wg.Wait
}

// crash crashes the machine under the working clients, and opens what is left.
func (w *crashWorld) crash() {
	// What is unknown costs the checker dearly: each client has at most one
	// operation under way when the machine crashes.
	w.halt()
	known := w.acknowledged.Load()
	before := w.history.nextTick()
	disk := w.disk.Crash(w.nextKeepPercent(), w.rng)
	after := w.history.nextTick()
	issued := w.issued.Load()
	w.wait()
	mustClose(w.t, w.db)
	w.did.Add("operations cut by a crash", w.history.endLife(before, after))
	for _, c := range w.clients {
		c.endLife(before, after)
	}
	w.disk = disk
	w.open()
	w.checkPair(known, issued)
}

func (w *crashWorld) stopClients() {
	w.halt()
	w.wait()
	for _, c := range w.clients {
		for len(c.pending) > 0 { // a request is retried until it is answered
			c.step(w.db)
		}
		c.endLife(math.MaxInt64, math.MaxInt64) // there is none: all answers count
	}
	mustClose(w.t, w.db)
}

// checkPair looks at two keys that are only ever written together.
func (w *crashWorld) checkPair(known, issued int64) {
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

// crashClient does operations on registers, one after another.
type crashClient struct {
	world *crashWorld
	id    int
	rng   *rand.Rand
	made  int64
	// versions are those that it has read, for cas.
	versions map[string]uint64
	pending  []*clientRequest // requests without an answer
	answered []*clientRequest // in this life of the store
}

// clientRequest is an add with a request id. It is one operation, however often it is
// tried.
type clientRequest struct {
	id     RequestID
	in     registerInput
	call   int64
	answer int64
	ret    int64
	tries  int
	// recorded means that it is in the history.
	recorded bool
}

func (c *crashClient) step(db *DB) {
	var err error
	switch {
	case len(c.pending) > 0:
		err = c.sendPending(db)
	case c.rng.IntN(10) == 0:
		err = c.addToPair(db)
	case c.rng.IntN(10) == 0:
		c.pending = []*clientRequest{{id: db.NewRequestID(), in: registerInput{op: "add", key: c.drawKey(), value: 1}, call: c.world.history.nextTick()}}
		err = c.sendPending(db)
	case c.rng.IntN(20) == 0 && len(c.answered) > 0:
		err = c.repeatAnswered(db, c.answered[c.rng.IntN(len(c.answered))])
	default:
		err = c.runOperation(db)
	}
	if err != nil {
		c.world.t.Errorf("client %d: %v", c.id, err)
	}
}

func (c *crashClient) drawKey() string { return fmt.Sprintf("register:%d", c.rng.IntN(crashKeys)) }

// runOperation does one operation and records it.
func (c *crashClient) runOperation(db *DB) error {
	in := registerInput{op: []string{"get", "get", "set", "cas", "delete", "add"}[c.rng.IntN(6)], key: c.drawKey()}
	c.made++
	in.value = int64(c.id+1)*1_000_000 + c.made // no other client writes it
	if c.versions == nil {
		c.versions = map[string]uint64{}
	}
	in.version = 0
	if in.op == "cas" {
		in.version = c.versions[in.key]
	}
	if in.op == "add" {
		in.value = 1
	}
	call := c.world.history.nextTick()
	out, err := c.executeInput(db, in)
	if err != nil {
		return fmt.Errorf("%s: %w", in.op, err)
	}
	c.world.history.recordOperation(c.id, call, in, out)
	return nil
}

func (c *crashClient) executeInput(db *DB, in registerInput) (out registerOutput, err error) {
	ks, key := db.Default(), []byte(in.key)
	// Rows of different sizes, so that segments fill.
	value := fmt.Appendf(nil, "%d", in.value)
	switch in.op {
	case "get":
		var item Item
		if item, err = ks.Item(ctx, key); errors.Is(err, ErrNotFound) {
			return out, nil
		}
		out.version = item.Version
		c.versions[in.key] = item.Version
		if err == nil {
			out.value, err = strconv.ParseInt(string(item.Value), 10, 64)
		}
	case "set":
		out.version, err = ks.SetWith(ctx, key, value, SetOptions{})
	case "cas":
		out.version, err = ks.SetWith(ctx, key, value, SetOptions{IfVersion: true, Version: in.version})
		if out.ok = err == nil; errors.Is(err, ErrConflict) {
			return registerOutput{}, nil
		}
	case "delete":
		var n int
		n, err = ks.Delete(ctx, key)
		out.ok = n == 1
	case "add":
		out.value, err = ks.Add(ctx, key, in.value)
	}
	return out, err
}

// sendPending sends the first pending request, for the first time or again.
func (c *crashClient) sendPending(db *DB) error {
	r := c.pending[0]
	if r.tries++; r.tries > 1 {
		c.world.did.Add("requests retried over a crash", 1)
	}
	sum, err := db.Default().AddOnce(ctx, r.id, []byte(r.in.key), r.in.value)
	if err != nil {
		return err
	}
	r.answer, r.ret = sum, c.world.history.nextTick()
	c.answered, c.pending = append(c.answered, r), c.pending[1:]
	return nil
}

// repeatAnswered repeats a request that was answered: it gets the same answer.
func (c *crashClient) repeatAnswered(db *DB, r *clientRequest) error {
	sum, err := db.Default().AddOnce(ctx, r.id, []byte(r.in.key), r.in.value)
	if err != nil {
		return err
	}
	if sum != r.answer {
		return fmt.Errorf("a request was answered with %d, its repetition with %d", r.answer, sum)
	}
	c.world.did.Add("requests repeated", 1)
	return nil
}

// addToPair adds one to two keys at once, in a transaction or in a batch.
func (c *crashClient) addToPair(db *DB) error {
	c.world.issued.Add(1)
	if c.rng.IntN(2) == 0 {
		var b Batch
		for _, key := range pairKeys {
			b.Add(db.Default(), key, 1)
		}
		err := db.Write(ctx, &b)
		if err == nil {
			c.world.acknowledged.Add(1)
			c.world.did.Add("batches", 1)
		}
		return err
	}
	err := db.Update(ctx, func(tx *Txn) error {
		for _, key := range pairKeys {
			if _, err := tx.Add(db.Default(), key, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.world.acknowledged.Add(1)
		c.world.did.Add("transactions", 1)
	}
	return err
}

// endLife looks at the requests of a life that ended between two ticks. Those that
// were answered before it are operations of the history, and some are kept to
// be repeated. A client without an answer tries again. What was called after it
// never happened.
func (c *crashClient) endLife(before, after int64) {
	var known []*clientRequest
	for _, r := range c.answered {
		switch {
		case r.recorded:
			known = append(known, r)
		case r.ret <= before:
			r.recorded = true
			c.world.history.addAnswered(c.id, r)
			known = append(known, r)
		case r.call <= after:
			c.pending = append(c.pending, r)
		}
	}
	c.answered = known
}
