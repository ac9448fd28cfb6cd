package mover

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/testkit/rowtable"
	"github.com/cleavekv/cleave/partition"
)

var testKeyspace = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func positionOf(key string) partition.Position { return testKeyspace.AppendPosition(nil, []byte(key)) }

// memoryDisk is a store: rows, and the log of what has changed them.
type memoryDisk struct {
	id   uint64
	rows *rowtable.Table
	log  []logEntry
}

type logEntry struct {
	position uint64
	batch    effect.Batch
}

func (d *memoryDisk) lastPosition() uint64 {
	if len(d.log) == 0 {
		return 1
	}
	return d.log[len(d.log)-1].position
}

// peer is a group in memory.
type peer struct {
	id    partition.GroupID
	disk  *memoryDisk
	env   *command.Env
	site  *ownership.Site
	clock int64
	next  uint64
}

func newPeer(id partition.GroupID, d *memoryDisk) *peer {
	p := &peer{id: id, disk: d, clock: 1000 + 100*int64(id), next: 1 + 10*uint64(id), env: command.NewEnv(d.rows)}
	p.reopen()
	return p
}

// reopen builds the list from its records, as after a crash.
func (p *peer) reopen() {
	l, err := ownership.LoadTable(p.disk.rows, p.id)
	if err != nil {
		panic(err)
	}
	p.site = &ownership.Site{Group: p.id, Table: l}
}

// evalCommand evaluates a command, without anything becoming durable.
func (p *peer) evalCommand(c command.Command) command.Reply {
	p.env.Begin(effect.Header{ClockMS: p.clock}, p.next)
	if b, ok := c.(SiteCommand); ok {
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
		p.disk.rows.Apply(op)
	}
	if batch.Len() > 0 {
		p.disk.log = append(p.disk.log, logEntry{p.disk.lastPosition() + 1 + uint64(len(p.disk.log)%3), batch})
	}
	p.next = p.env.NextVersion()
	return batch
}

// evalOne evaluates a command and makes it durable, unless it fails.
func (p *peer) evalOne(c command.Command) (command.Reply, effect.Batch) {
	before := p.site.Table
	reply := p.evalCommand(c)
	if reply.Err != nil {
		p.site.Table = before
		return reply, effect.Batch{}
	}
	batch := p.commit()
	p.raiseClock(c)
	return reply, batch
}

// raiseClock lets the clock go above the floor of a command.
func (p *peer) raiseClock(c command.Command) {
	if s, ok := c.(*ChangeDestination); ok {
		clock, _ := s.Floors()
		p.clock = max(p.clock, clock)
	}
}

// evalJoint evaluates commands of groups of one store, all or nothing.
func evalJoint(peers []*peer, commands []SiteCommand, carry bool) command.Reply {
	var before []*ownership.Table
	for _, p := range peers {
		before = append(before, p.site.Table)
	}
	for i, p := range peers {
		if s, ok := commands[i].(*ChangeDestination); ok && carry {
			s.SetFloors(peers[0].next, peers[0].clock)
		}
		if reply := p.evalCommand(commands[i]); reply.Err != nil {
			for k := range peers {
				peers[k].site.Table = before[k]
			}
			return reply
		}
	}
	for i, p := range peers {
		p.commit()
		p.raiseClock(commands[i])
	}
	return command.Reply{Kind: command.OK}
}

// clientWrite is a write of a client: rows of all tables that are about a key.
type clientWrite struct {
	site     *ownership.Site
	position partition.Position
	id       byte
	isDelete bool
	value    string
	expiry   command.Expiry
}

// Eval writes, if the group may.
func (c *clientWrite) Eval(e *command.Env) command.Reply {
	if err := c.site.CheckPosition(c.position, true); err != nil {
		return failedReply(err)
	}
	var reply command.Reply
	if c.isDelete {
		reply = (&command.Delete{Keys: []partition.Position{c.position}}).Eval(e)
	} else {
		reply = (&command.Set{Key: c.position, Value: []byte(c.value), Expiry: c.expiry}).Eval(e)
	}
	if reply.Err != nil {
		return reply
	}
	for i, t := range []effect.Table{effect.Dedup, effect.Marks, effect.Intents, effect.Orphans} {
		key := append(t.AppendKey(nil, c.position), c.id)
		if c.id>>i&1 == 0 {
			e.Put(key, []byte(c.value))
		} else {
			e.Delete(key)
		}
	}
	return reply
}
