package mover

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// table is a Reader: rows in order.
type table struct {
	keys []string
	rows map[string]string
}

func newTable() *table { return &table{rows: map[string]string{}} }

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

func (s *table) clone() *table {
	c := newTable()
	c.keys = slices.Clone(s.keys)
	for k, v := range s.rows {
		c.rows[k] = v
	}
	return c
}

// disk is a store: rows, and the log of what has changed them.
type disk struct {
	id   uint64
	rows *table
	log  []entry
}

type entry struct {
	pos   uint64
	batch effect.Batch
}

func (d *disk) position() uint64 {
	if len(d.log) == 0 {
		return 1
	}
	return d.log[len(d.log)-1].pos
}

// peer is a group in memory.
type peer struct {
	id    partition.GroupID
	disk  *disk
	env   *command.Env
	site  *own.Site
	clock int64
	next  uint64
}

func newPeer(id partition.GroupID, d *disk) *peer {
	p := &peer{id: id, disk: d, clock: 1000 + 100*int64(id), next: 1 + 10*uint64(id), env: command.NewEnv(d.rows)}
	p.open()
	return p
}

// open builds the list from its records, as after a crash.
func (p *peer) open() {
	l, err := own.Load(p.disk.rows, p.id)
	if err != nil {
		panic(err)
	}
	p.site = &own.Site{Group: p.id, List: l}
}

// evaluate evaluates a command, without anything becoming durable.
func (p *peer) evaluate(c command.Command) command.Reply {
	p.env.Begin(effect.Header{ClockMS: p.clock}, p.next)
	if b, ok := c.(Bound); ok {
		b.Bind(p.site)
	}
	return p.env.Do(c).Clone()
}

// commit makes what was evaluated last durable.
func (p *peer) commit() effect.Batch {
	batch, err := effect.Parse(bytes.Clone(p.env.Effects().Bytes()))
	if err != nil {
		panic(err)
	}
	for _, op := range batch.All() {
		p.disk.rows.redo(op)
	}
	if batch.Len() > 0 {
		p.disk.log = append(p.disk.log, entry{p.disk.position() + 1 + uint64(len(p.disk.log)%3), batch})
	}
	p.next = p.env.NextVersion()
	return batch
}

// do evaluates a command and makes it durable, unless it fails.
func (p *peer) do(c command.Command) (command.Reply, effect.Batch) {
	before := p.site.List
	reply := p.evaluate(c)
	if reply.Err != nil {
		p.site.List = before
		return reply, effect.Batch{}
	}
	batch := p.commit()
	p.raise(c)
	return reply, batch
}

// raise lets the clock go above the floor of a command.
func (p *peer) raise(c command.Command) {
	if s, ok := c.(*Settle); ok {
		clock, _ := s.Floors()
		p.clock = max(p.clock, clock)
	}
}

// joint evaluates commands of groups of one store, all or nothing.
func joint(peers []*peer, commands []Bound, carry bool) command.Reply {
	var before []*own.List
	for _, p := range peers {
		before = append(before, p.site.List)
	}
	for i, p := range peers {
		if s, ok := commands[i].(*Settle); ok && carry {
			s.SetFloors(peers[0].next, peers[0].clock)
		}
		if reply := p.evaluate(commands[i]); reply.Err != nil {
			for k := range peers {
				peers[k].site.List = before[k]
			}
			return reply
		}
	}
	for i, p := range peers {
		p.commit()
		p.raise(commands[i])
	}
	return command.Reply{Kind: command.OK}
}

// client is a write of somebody: rows of all tables that are about a key.
type client struct {
	site   *own.Site
	p      partition.Position
	id     byte
	delete bool
	value  string
	expiry command.Expiry
}

// Eval writes, if the group may.
func (c *client) Eval(e *command.Env) command.Reply {
	if err := c.site.Check(c.p, true); err != nil {
		return failed(err)
	}
	var reply command.Reply
	if c.delete {
		reply = (&command.Delete{Keys: []partition.Position{c.p}}).Eval(e)
	} else {
		reply = (&command.Set{Key: c.p, Value: []byte(c.value), Expiry: c.expiry}).Eval(e)
	}
	if reply.Err != nil {
		return reply
	}
	for i, t := range []effect.Table{effect.Dedup, effect.Marks, effect.Intents, effect.Orphans} {
		key := append(t.AppendKey(nil, c.p), c.id)
		if c.id>>i&1 == 0 {
			e.Put(key, []byte(c.value))
		} else {
			e.Delete(key)
		}
	}
	return reply
}
