package server

import (
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/counter"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

func init() {
	registerBlockingHandlers(map[string]func(*call){"cleave.explain": handleExplain, "cleave.shards": handleShards})
}

// replyMap is a map of names and values that is written when it is complete.
type replyMap []replyMapEntry

type replyMapEntry struct {
	name  string
	value any // a string, bytes or a number
}

func (f *replyMap) add(name string, value any) { *f = append(*f, replyMapEntry{name, value}) }

// writeReply writes the map. Nil bytes are null.
func (f replyMap) writeReply(out *redis.Writer) {
	out.Map(len(f))
	for _, p := range f {
		out.Text(p.name)
		switch v := p.value.(type) {
		case string:
			out.Text(v)
		case int64:
			out.Int(v)
		case int:
			out.Int(int64(v))
		case uint64:
			out.Int(int64(v))
		case []byte:
			if v == nil {
				out.Null()
			} else {
				out.Bulk(v)
			}
		default:
			panic("serve: a fact of a type that nobody writes")
		}
	}
}

// handleExplain replies with where a key is and what it holds.
func handleExplain(t *call) {
	name := t.Args[1]
	if err := command.CheckKey(name); err != nil {
		t.out.Fail(err)
		return
	}
	space, err := t.s.db.Keyspace(t.c.keyspace.Name)
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	at, p := space.Locate(name), partition.Position(space.After(name))
	var f replyMap
	f.add("keyspace", space.Name())
	f.add("kind", space.Options().Kind.String())
	if at.Slot >= 0 {
		f.add("slot", at.Slot)
	}
	f.add("shard", uint64(at.Shard))
	f.add("group", uint64(at.Group))
	f.add("store", at.Store)
	f.add("map-version", uint64(t.s.db.Map().Version()))
	f.add("position", hex.EncodeToString(p))
	var row command.Row
	found := false
	err = t.s.withGroup(t.ctx, p, func(part *node.GroupHost) (err error) {
		row, found, err = part.Group.Read(t.ctx, p, nil)
		return err
	})
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	if !found {
		f.add("type", "none")
		f.writeReply(t.out)
		return
	}
	f.add("type", redis.TypeName(row.Type()))
	switch row.Kind {
	case command.String:
		f.add("bytes", len(row.Payload))
	case command.Chunked:
		f.add("bytes", row.Length)
	default:
		f.add("fields", row.Length)
	}
	f.add("version", row.Version)
	f.add("expires-ms", row.ExpiryMS) // 0 for never
	f.writeReply(t.out)
}

// handleShards lists the shards, of one keyspace or of all.
func handleShards(t *call) {
	if len(t.Args) > 2 {
		t.out.Fail(redis.NewArityError(t.Spec.Name))
		return
	}
	all, err := t.s.db.Shards(t.ctx)
	if err == nil && len(t.Args) == 2 {
		var space *node.Keyspace
		if space, err = t.s.findKeyspace(string(t.Args[1])); err == nil {
			kept := all[:0]
			for _, s := range all {
				if s.Keyspace == space.Name {
					kept = append(kept, s)
				}
			}
			all = kept
		}
	}
	if err != nil {
		t.out.Fail(clientError(err))
		return
	}
	t.out.Array(len(all))
	for i := range all {
		describeShard(&all[i]).writeReply(t.out)
	}
}

func describeShard(s *cleave.Shard) (f replyMap) {
	f.add("shard", uint64(s.ID))
	f.add("keyspace", s.Keyspace)
	if s.FirstSlot >= 0 {
		f.add("slots", strconv.Itoa(s.FirstSlot)+"-"+strconv.Itoa(s.LastSlot))
	} else {
		f.add("start-key", s.StartKey)
		f.add("end-key", s.EndKey)
	}
	f.add("group", uint64(s.Group))
	f.add("store", s.Store)
	f.add("rows", s.Rows)
	f.add("bytes", s.Bytes)
	return f
}

func init() {
	registerBlockingHandlers(map[string]func(*call){"cleave.counter|add": handleCounterAdd, "cleave.counter|sum": handleCounterSum})
	registerHandlers(map[string]func(*call){
		"cleave.counter|help": newHelpHandler("CLEAVE.COUNTER", "ADD <name> <n>", "    Add <n> to the counter <name>.",
			"SUM <name> [MAXAGE <ms>]", "    Return the sum of the counter, exact or at most <ms> old."),
	})
}

// counterTable are the split counters that clients use, by keyspace. They are those of package
// counter: a program that embeds the store sees the same.
type counterTable struct {
	mu         sync.Mutex
	byKeyspace map[string]*counter.Counters
}

// forKeyspace returns the counters of a keyspace. Old ones are of a keyspace of that name that is
// gone: others take their place.
func (k *counterTable) forKeyspace(db *cleave.DB, name string, old *counter.Counters) (*counter.Counters, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.byKeyspace[name]; c != nil && c != old {
		return c, nil
	}
	space, err := db.Keyspace(name)
	if err != nil {
		return nil, err
	}
	c, err := counter.Open(db, space, counter.Options{})
	if err != nil {
		return nil, err
	}
	if k.byKeyspace == nil {
		k.byKeyspace = map[string]*counter.Counters{}
	}
	if old != nil {
		_ = old.Close() // it never fails
	}
	k.byKeyspace[name] = c
	return c, nil
}

// close ends what watches the counters.
func (k *counterTable) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.byKeyspace {
		_ = c.Close()
	}
}

// withCounters does something with the counters of the client's keyspace, again if that was
// emptied meanwhile.
func (t *call) withCounters(f func(*counter.Counters) error) {
	name := t.c.keyspace.Name
	c, err := t.s.counters.forKeyspace(t.s.db, name, nil)
	if err == nil {
		err = f(c)
	}
	if errors.Is(err, cleave.ErrNoKeyspace) {
		if c, err = t.s.counters.forKeyspace(t.s.db, name, c); err == nil {
			err = f(c)
		}
	}
	if err != nil {
		t.out.Fail(clientError(err))
	}
}

func handleCounterAdd(t *call) {
	n, err := strconv.ParseInt(string(t.Args[3]), 10, 64)
	if err != nil {
		t.out.Fail(redis.Error("ERR value is not an integer or out of range"))
		return
	}
	t.withCounters(func(c *counter.Counters) error {
		err := c.Add(t.ctx, string(t.Args[2]), n)
		if err == nil {
			t.out.OK()
		}
		return err
	})
}

func handleCounterSum(t *call) {
	bound := time.Duration(-1)
	if len(t.Args) > 3 {
		ms, err := int64(0), error(redis.ErrSyntax)
		if len(t.Args) == 5 && redis.IsKeyword(t.Args[3], "MAXAGE") {
			ms, err = strconv.ParseInt(string(t.Args[4]), 10, 32)
		}
		if err != nil || ms < 0 {
			t.out.Fail(redis.ErrSyntax)
			return
		}
		bound = time.Duration(ms) * time.Millisecond
	}
	t.withCounters(func(c *counter.Counters) error {
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
