package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// crashClient does operations on registers, one after another.
type crashClient struct {
	world *world
	id    int
	rng   *rand.Rand
	made  int64
	// versions are those that it has read, for cas.
	versions map[string]uint64
	pending  []*request // no answer was heard to them
	answered []*request // in this life of the store
}

// request is an add with a request id. It is one operation, however often it is
// tried.
type request struct {
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
		err = c.try(db)
	case c.rng.IntN(10) == 0:
		err = c.pair(db)
	case c.rng.IntN(10) == 0:
		c.pending = []*request{{id: db.NewRequestID(), in: registerInput{op: "add", key: c.key(), value: 1}, call: c.world.history.tick()}}
		err = c.try(db)
	case c.rng.IntN(20) == 0 && len(c.answered) > 0:
		err = c.again(db, c.answered[c.rng.IntN(len(c.answered))])
	default:
		err = c.operate(db)
	}
	if err != nil {
		c.world.t.Errorf("client %d: %v", c.id, err)
	}
}

func (c *crashClient) key() string { return fmt.Sprintf("register:%d", c.rng.IntN(crashKeys)) }

// operate does one operation and records it.
func (c *crashClient) operate(db *DB) error {
	in := registerInput{op: []string{"get", "get", "set", "cas", "delete", "add"}[c.rng.IntN(6)], key: c.key()}
	c.made++
	in.value = int64(c.id+1)*1_000_000 + c.made // nobody else writes it
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
	call := c.world.history.tick()
	out, err := c.execute(db, in)
	if err != nil {
		return fmt.Errorf("%s: %w", in.op, err)
	}
	c.world.history.record(c.id, call, in, out)
	return nil
}

func (c *crashClient) execute(db *DB, in registerInput) (out registerOutput, err error) {
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

// try sends the first pending request, for the first time or again.
func (c *crashClient) try(db *DB) error {
	r := c.pending[0]
	if r.tries++; r.tries > 1 {
		c.world.did.Add("requests retried over a crash", 1)
	}
	sum, err := db.Default().AddOnce(ctx, r.id, []byte(r.in.key), r.in.value)
	if err != nil {
		return err
	}
	r.answer, r.ret = sum, c.world.history.tick()
	c.answered, c.pending = append(c.answered, r), c.pending[1:]
	return nil
}

// again repeats a request that was answered: it gets the same answer.
func (c *crashClient) again(db *DB, r *request) error {
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

// pair adds one to two keys at once, in a transaction or in a batch.
func (c *crashClient) pair(db *DB) error {
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

// crash looks at the requests of a life that ended between two ticks. Those that
// were answered before it are operations of the history, and some are kept to
// be repeated. Whoever heard no answer tries again. What was called after it
// never happened.
func (c *crashClient) crash(before, after int64) {
	var known []*request
	for _, r := range c.answered {
		switch {
		case r.recorded:
			known = append(known, r)
		case r.ret <= before:
			r.recorded = true
			c.world.history.add(c.id, r)
			known = append(known, r)
		case r.call <= after:
			c.pending = append(c.pending, r)
		}
	}
	c.answered = known
}
