package txn

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// table is a Reader: rows in order.
type table struct {
	keys []string
	rows map[string]string
}

func (s *table) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := s.rows[string(key)]
	return append(dst, value...), ok, nil
}

func (s *table) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	from, _ := slices.BinarySearch(s.keys, string(start))
	to, _ := slices.BinarySearch(s.keys, string(end))
	keys := slices.Clone(s.keys[from:max(from, to)])
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if !visit([]byte(key), []byte(s.rows[key])) {
			return nil
		}
	}
	return nil
}

func (s *table) redo(op effect.Op) {
	i, found := slices.BinarySearch(s.keys, string(op.Key))
	switch {
	case op.Delete && found:
		s.keys = slices.Delete(s.keys, i, i+1)
	case !op.Delete && !found:
		s.keys = slices.Insert(s.keys, i, string(op.Key))
	}
	if delete(s.rows, string(op.Key)); !op.Delete {
		s.rows[string(op.Key)] = string(op.Value)
	}
}

// count returns how many rows a table has.
func (s *table) count(t effect.Table) (n int) {
	for _, key := range s.keys {
		if key[0] == byte(t) {
			n++
		}
	}
	return n
}

var errWrongShard = errors.New("test: wrong shard")

// peer is a group in memory: it evaluates batches of commands and applies what
// comes out of them.
type peer struct {
	id    partition.GroupID
	store *table
	env   *command.Env
	locks *Locks
	holds *Holds
	site  *Site
	owned []partition.Span
	clock int64
	next  uint64
}

func newPeer(id partition.GroupID) *peer {
	p := &peer{id: id, store: &table{rows: map[string]string{}}, clock: 1000, next: 1, holds: new(Holds)}
	p.env = command.NewEnv(p.store)
	p.open()
	return p
}

// open builds memory from the records, as after a crash.
func (p *peer) open() {
	p.locks, p.holds = NewLocks(), new(Holds)
	if err := p.locks.Load(p.store, partition.Whole, nil); err != nil {
		panic(err)
	}
	p.locks.Begin()
	p.site = NewSite(p.id, p.locks, p.holds, p.check)
}

// check tells whether all of a span is owned.
func (p *peer) check(s partition.Span) error {
	if left := []partition.Span{s}; len(p.owned) > 0 {
		for _, mine := range p.owned {
			left = subtract(left, mine)
		}
		if len(left) == 0 {
			return nil
		}
	}
	return errWrongShard
}

// batch evaluates commands as one batch. If it is refused, nothing has happened.
func (p *peer) batch(refuse bool, commands ...command.Command) []command.Reply {
	p.env.Begin(effect.Header{ClockMS: p.clock}, p.next)
	p.locks.Begin()
	var replies []command.Reply
	for _, c := range commands {
		if x, ok := c.(Participant); ok {
			x.Bind(p.site)
		}
		mark := p.locks.Mark()
		reply := p.env.Do(c)
		if reply.Err != nil {
			p.locks.Rewind(mark)
		}
		replies = append(replies, reply.Clone())
	}
	if refuse {
		p.locks.Rewind(0)
		return nil
	}
	batch, err := effect.Parse(bytes.Clone(p.env.Effects().Bytes()))
	if err != nil {
		panic(err)
	}
	for _, op := range batch.All() {
		p.store.redo(op)
	}
	p.next = p.env.NextVersion()
	return replies
}

func (p *peer) do(c command.Command) command.Reply { return p.batch(false, c)[0] }

// consistent tells whether the locks in memory are those of the records.
func (p *peer) consistent() bool {
	fresh := NewLocks()
	if err := fresh.Load(p.store, partition.Whole, nil); err != nil {
		return false
	}
	return slices.EqualFunc(p.locks.All(), fresh.All(), func(a, b *Lock) bool {
		return bytes.Equal(a.key(nil), b.key(nil)) && bytes.Equal(a.append(nil, nil), b.append(nil, nil))
	})
}
