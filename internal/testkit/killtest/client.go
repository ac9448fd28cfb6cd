package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
)

// client does one call after another.
type client struct {
	*child
	id  int
	rng *rand.Rand
	// seenRegisters is what registers were read as, to swap it.
	seenRegisters map[string]seenRegister
}

type seenRegister struct {
	value   register.Value
	version uint64
}

// errNotChanged ends a call that certainly has changed nothing.
var errNotChanged = errors.New("nothing was changed")

func (c *client) run() {
	for !c.isStopping.Load() {
		if !c.retryPending() {
			c.step()
		}
		if !c.isContending() {
			time.Sleep(time.Duration(c.rng.IntN(400)) * time.Microsecond) // others want to work too
		}
	}
	for c.retryPending() {
	}
}

// isContending reports whether the client gets into the way of others on purpose.
func (c *client) isContending() bool { return c.id <= contenderCount || c.Contended }

// step does something at random.
func (c *client) step() {
	switch n := c.rng.IntN(100); {
	case n < 70 && c.isContending():
		c.runContendedOp()
	case n < 14:
		c.runRegisterOp()
	case n < 22:
		c.runHashOp()
	case n < 40:
		c.runListOp()
	case n < 44:
		c.acquireLease()
	case n < 58:
		c.transferMoney()
	case n < 64:
		c.auditBank()
	case n < 72:
		c.bookCabin()
	case n < 86:
		c.runCounterOp()
	case n < 94:
		c.changeScanKey()
	default:
		c.runScan()
	}
}

// runCall reports what is asked, does it, and reports what came of it.
func (c *client) runCall(ask clientCall, f func(*clientCall) error) bool {
	c.writeEvent(event{Say: eventCall, Client: c.id, Call: &ask})
	err := f(&ask)
	switch {
	case err == nil:
		ask.Status = check.OK
	case errors.Is(err, errNotChanged):
		ask.Status = check.Failed
	default:
		// No call fails because of a job, and a kill leaves no time to tell.
		ask.Status = check.Unknown
		c.reportTrouble("client %d: %s: %v", c.id, ask.Work, err)
	}
	c.writeEvent(event{Say: eventAnswer, Client: c.id, Call: &ask})
	return err == nil
}

// nextNumber returns one that is unique across all lives.
func (c *child) nextNumber() uint64 { return uint64(c.Life+1)<<32 | c.serial.Add(1) }

// keyGeneration names the keys of now: some live through a kill or two, and none is
// used so often that its history cannot be judged.
func (c *child) keyGeneration(n, most uint64) string { return fmt.Sprintf("%d.%d", c.Life/2, n/most) }

func (c *client) drawLetter() string { return []string{"h", "o"}[c.rng.IntN(2)] }

func formatDecimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// parseDecimal reads a decimal number, 0 if there is none.
func parseDecimal(b []byte, err error) (int64, error) {
	if errors.Is(err, cleave.ErrNotFound) || err == nil && b == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(b), 10, 64)
}

// runRegisterOp reads, writes, swaps or deletes a register.
func (c *client) runRegisterOp() {
	key := fmt.Sprintf("%s:reg %s %d", c.drawLetter(), c.keyGeneration(c.registerCalls.Add(1), 3000), c.rng.IntN(6))
	ks, k := c.locateKey(key)
	r := &register.Call{Key: key, New: register.Value(c.nextNumber())}
	ask := clientCall{Register: r, Work: "registers"}
	value := formatDecimal(int64(r.New))
	was, known := c.seenRegisters[key]
	switch n := c.rng.IntN(8); {
	case n < 3:
		r.Kind = register.Get
		c.runCall(ask, func(*clientCall) error {
			item, err := ks.Item(ctx, k)
			got, err := parseDecimal(item.Value, err)
			r.Got = register.Value(got)
			c.seenRegisters[key] = seenRegister{r.Got, item.Version}
			return err
		})
	case n < 5:
		r.Kind = register.Set
		c.runCall(ask, func(*clientCall) error { return ks.Set(ctx, k, value) })
	case n < 6:
		r.Kind = register.Delete
		c.runCall(ask, func(*clientCall) error {
			n, err := ks.Delete(ctx, k)
			r.Done = n == 1
			return err
		})
	case known:
		r.Kind, r.Old = register.Swap, was.value
		c.runCall(ask, func(*clientCall) error {
			_, err := ks.SetWith(ctx, k, value, cleave.SetOptions{IfVersion: true, Version: was.version})
			if r.Done = err == nil; errors.Is(err, cleave.ErrConflict) {
				return nil
			}
			return err
		})
	}
}

// countersPerKeyspace is how many there are in each keyspace.
const countersPerKeyspace = 3

// runCounterOp adds to counters, or reads one.
func (c *client) runCounterOp() {
	key := fmt.Sprintf("%s:cnt %d", c.drawLetter(), c.rng.IntN(countersPerKeyspace))
	ks, k := c.locateKey(key)
	ask := clientCall{Counts: []counterAdd{{key, check.Count{Delta: 1}}}, Work: "counters"}
	n := &ask.Counts[0].Count
	id := c.db.NewRequestID()
	switch c.rng.IntN(6) {
	case 0:
		n.Delta = 0
		c.runCall(ask, func(*clientCall) (err error) {
			n.Value, err = parseDecimal(ks.Get(ctx, k))
			n.Told = err == nil
			return err
		})
	case 1:
		c.runCall(ask, func(*clientCall) (err error) {
			n.Value, err = ks.Add(ctx, k, 1)
			n.Told = err == nil
			return err
		})
	case 2, 3:
		c.addOnce(request{hex.EncodeToString(id[:]), []string{key}})
	case 4: // in a batch, which tells nothing
		c.addOnce(request{hex.EncodeToString(id[:]), []string{"h" + key[1:], "o" + key[1:]}})
	default: // again
		if r, ok := c.pickAnswered(); ok {
			c.addOnce(r)
		}
	}
}

// addOnce adds one to counters under a request id.
func (c *client) addOnce(r request) {
	ask := clientCall{Request: r.ID, Work: "requests"}
	for _, key := range r.Keys {
		ask.Counts = append(ask.Counts, counterAdd{key, check.Count{Delta: 1}})
	}
	ok := c.runCall(ask, func(ask *clientCall) (err error) {
		var id cleave.RequestID
		if _, err := hex.Decode(id[:], []byte(r.ID)); err != nil {
			return err
		}
		if len(r.Keys) == 1 {
			n := &ask.Counts[0].Count
			ks, k := c.locateKey(r.Keys[0])
			n.Value, err = ks.AddOnce(ctx, id, k, 1)
			n.Told = err == nil
			return err
		}
		b := cleave.Batch{Request: id}
		for _, key := range r.Keys {
			ks, k := c.locateKey(key)
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

// retryPending repeats one of the requests that have had no answer, if there is
// one.
func (c *client) retryPending() bool {
	c.mu.Lock()
	if len(c.pending) == 0 {
		c.mu.Unlock()
		return false
	}
	r := c.pending[0]
	c.pending = c.pending[1:]
	c.mu.Unlock()
	c.addOnce(r)
	return true
}

func (c *client) pickAnswered() (request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answered) == 0 {
		return request{}, false
	}
	return c.answered[c.rng.IntN(len(c.answered))], true
}
