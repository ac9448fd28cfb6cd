package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
)

// client does one call after another.
type client struct {
	*child
	id  int
	rng *rand.Rand
	// seen is what registers were read as, to swap it.
	seen map[string]seen
}

type seen struct {
	value   register.Value
	version uint64
}

// errNothing ends a call that certainly has changed nothing.
var errNothing = errors.New("nothing was changed")

func (c *client) run() {
	for !c.idle.Load() {
		if !c.askAgain() {
			c.step()
		}
		if !c.duels() {
			time.Sleep(time.Duration(c.rng.IntN(400)) * time.Microsecond) // others want to work too
		}
	}
	for c.askAgain() {
	}
}

// duels tells whether the client gets into the way of others on purpose.
func (c *client) duels() bool { return c.id <= duelists || c.Contended }

// step does something at random.
func (c *client) step() {
	switch n := c.rng.IntN(100); {
	case n < 70 && c.duels():
		c.duel()
	case n < 14:
		c.register()
	case n < 22:
		c.hashed()
	case n < 40:
		c.list()
	case n < 44:
		c.acquire()
	case n < 58:
		c.transfer()
	case n < 64:
		c.audit()
	case n < 72:
		c.book()
	case n < 86:
		c.count()
	case n < 94:
		c.change()
	default:
		c.scan()
	}
}

// do says what is asked, does it, and says what came of it.
func (c *client) do(ask call, f func(*call) error) bool {
	c.say(event{Say: sayCall, Client: c.id, Call: &ask})
	err := f(&ask)
	switch {
	case err == nil:
		ask.Status = check.OK
	case errors.Is(err, errNothing):
		ask.Status = check.Failed
	default:
		// No call fails because of a job, and a kill leaves no time to tell.
		ask.Status = check.Unknown
		c.trouble("client %d: %s: %v", c.id, ask.Work, err)
	}
	c.say(event{Say: sayAnswer, Client: c.id, Call: &ask})
	return err == nil
}

// number returns one that nobody else uses in any life.
func (c *child) number() uint64 { return uint64(c.Life+1)<<32 | c.serial.Add(1) }

// generation names the keys of now: some live through a kill or two, and none is
// used so often that its history cannot be judged.
func (c *child) generation(n, most uint64) string { return fmt.Sprintf("%d.%d", c.Life/2, n/most) }

func (c *client) letter() string { return []string{"h", "o"}[c.rng.IntN(2)] }

func decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// numberOf reads a decimal number, 0 if there is none.
func numberOf(b []byte, err error) (int64, error) {
	if errors.Is(err, cleave.ErrNotFound) || err == nil && b == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// register reads, writes, swaps or deletes a register.
func (c *client) register() {
	key := fmt.Sprintf("%s:reg %s %d", c.letter(), c.generation(c.registers.Add(1), 3000), c.rng.IntN(6))
	ks, k := c.at(key)
	r := &register.Call{Key: key, New: register.Value(c.number())}
	ask := call{Register: r, Work: "registers"}
	value := decimal(int64(r.New))
	was, known := c.seen[key]
	switch n := c.rng.IntN(8); {
	case n < 3:
		r.Kind = register.Get
		c.do(ask, func(*call) error {
			item, err := ks.Item(ctx, k)
			got, err := numberOf(item.Value, err)
			r.Got = register.Value(got)
			c.seen[key] = seen{r.Got, item.Version}
			return err
		})
	case n < 5:
		r.Kind = register.Set
		c.do(ask, func(*call) error { return ks.Set(ctx, k, value) })
	case n < 6:
		r.Kind = register.Delete
		c.do(ask, func(*call) error {
			n, err := ks.Delete(ctx, k)
			r.Done = n == 1
			return err
		})
	case known:
		r.Kind, r.Old = register.Swap, was.value
		c.do(ask, func(*call) error {
			_, err := ks.SetWith(ctx, k, value, cleave.SetOptions{IfVersion: true, Version: was.version})
			if r.Done = err == nil; errors.Is(err, cleave.ErrConflict) {
				return nil
			}
			return err
		})
	}
}

// counters is how many there are in each keyspace.
const counters = 3

// count adds to counters, or reads one.
func (c *client) count() {
	key := fmt.Sprintf("%s:cnt %d", c.letter(), c.rng.IntN(counters))
	ks, k := c.at(key)
	ask := call{Counts: []count{{key, check.Count{Delta: 1}}}, Work: "counters"}
	n := &ask.Counts[0].Count
	id := c.db.NewRequestID()
	switch c.rng.IntN(6) {
	case 0:
		n.Delta = 0
		c.do(ask, func(*call) (err error) {
			n.Value, err = numberOf(ks.Get(ctx, k))
			n.Told = err == nil
			return err
		})
	case 1:
		c.do(ask, func(*call) (err error) {
			n.Value, err = ks.Add(ctx, k, 1)
			n.Told = err == nil
			return err
		})
	case 2, 3:
		c.ask(request{hex.EncodeToString(id[:]), []string{key}})
	case 4: // in a batch, which tells nothing
		c.ask(request{hex.EncodeToString(id[:]), []string{"h" + key[1:], "o" + key[1:]}})
	default: // again
		if r, ok := c.someAnswered(); ok {
			c.ask(r)
		}
	}
}

// ask adds one to counters under a request id.
func (c *client) ask(r request) {
	ask := call{Request: r.ID, Work: "requests"}
	for _, key := range r.Keys {
		ask.Counts = append(ask.Counts, count{key, check.Count{Delta: 1}})
	}
	ok := c.do(ask, func(ask *call) (err error) {
		var id cleave.RequestID
		if _, err := hex.Decode(id[:], []byte(r.ID)); err != nil {
			return err
		}
		if len(r.Keys) == 1 {
			n := &ask.Counts[0].Count
			ks, k := c.at(r.Keys[0])
			n.Value, err = ks.AddOnce(ctx, id, k, 1)
			n.Told = err == nil
			return err
		}
		b := cleave.Batch{Request: id}
		for _, key := range r.Keys {
			ks, k := c.at(key)
			b.Add(ks, k, 1)
		}
		return c.db.Write(ctx, &b)
	})
	if ok {
		c.mu.Lock()
		c.answered = append(c.answered, r)
		c.mu.Unlock()
	}
}

// askAgain asks one of the requests that nobody has heard an answer to, if there is
// one.
func (c *client) askAgain() bool {
	c.mu.Lock()
	if len(c.pending) == 0 {
		c.mu.Unlock()
		return false
	}
	r := c.pending[0]
	c.pending = c.pending[1:]
	c.mu.Unlock()
	c.ask(r)
	return true
}

func (c *client) someAnswered() (request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answered) == 0 {
		return request{}, false
	}
	return c.answered[c.rng.IntN(len(c.answered))], true
}
