package serve

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/counter"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handleSlow(map[string]func(*turn){"cleave.counter|add": counterAdd, "cleave.counter|sum": counterSum})
	handle(map[string]func(*turn){
		"cleave.counter|help": help("CLEAVE.COUNTER", "ADD <name> <n>", "    Add <n> to the counter <name>.",
			"SUM <name> [MAXAGE <ms>]", "    Return the sum of the counter, exact or at most <ms> old."),
	})
}

// counters are the split counters that clients use, by keyspace. They are those of package
// counter: a program that embeds the store sees the same.
type counters struct {
	mu     sync.Mutex
	spaces map[string]*counter.Counters
}

// of returns the counters of a keyspace. Old ones are of a keyspace of that name that is
// gone: others take their place.
func (k *counters) of(db *cleave.DB, name string, old *counter.Counters) (*counter.Counters, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.spaces[name]; c != nil && c != old {
		return c, nil
	}
	space, err := db.Keyspace(name)
	if err != nil {
		return nil, err
	}
	c, err := counter.New(db, space, counter.Options{})
	if err != nil {
		return nil, err
	}
	if k.spaces == nil {
		k.spaces = map[string]*counter.Counters{}
	}
	if old != nil {
		_ = old.Close() // it never fails
	}
	k.spaces[name] = c
	return c, nil
}

// close ends what watches the counters.
func (k *counters) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.spaces {
		_ = c.Close()
	}
}

// counting does something with the counters of the client's keyspace, again if that was
// emptied meanwhile.
func (t *turn) counting(f func(*counter.Counters) error) {
	name := t.c.space.Name
	c, err := t.s.counters.of(t.s.db, name, nil)
	if err == nil {
		err = f(c)
	}
	if errors.Is(err, cleave.ErrNoKeyspace) {
		if c, err = t.s.counters.of(t.s.db, name, c); err == nil {
			err = f(c)
		}
	}
	if err != nil {
		t.out.Fail(refused(err))
	}
}

func counterAdd(t *turn) {
	n, err := strconv.ParseInt(string(t.Args[3]), 10, 64)
	if err != nil {
		t.out.Fail(redis.Error("ERR value is not an integer or out of range"))
		return
	}
	t.counting(func(c *counter.Counters) error {
		err := c.Add(t.ctx, string(t.Args[2]), n)
		if err == nil {
			t.out.OK()
		}
		return err
	})
}

func counterSum(t *turn) {
	bound := time.Duration(-1)
	if len(t.Args) > 3 {
		ms, err := int64(0), error(redis.ErrSyntax)
		if len(t.Args) == 5 && redis.Is(t.Args[3], "MAXAGE") {
			ms, err = strconv.ParseInt(string(t.Args[4]), 10, 32)
		}
		if err != nil || ms < 0 {
			t.out.Fail(redis.ErrSyntax)
			return
		}
		bound = time.Duration(ms) * time.Millisecond
	}
	t.counting(func(c *counter.Counters) error {
		sum, err := int64(0), error(nil)
		if bound < 0 {
			sum, err = c.Sum(t.ctx, string(t.Args[2]))
		} else {
			var r counter.Reading
			r, err = c.Fast(t.ctx, string(t.Args[2]), bound)
			sum = r.Sum
		}
		if err == nil {
			t.out.Int(sum)
		}
		return err
	})
}
