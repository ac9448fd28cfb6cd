package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// Calls of a program are counted for the shards of their keys when they have ended: commands, batches, and
// transactions that say so. Bytes are those of values. What the server asks on behalf of its clients it counts itself,
// and background work is not counted.

// RecordLoad has the transaction counted: each read, also of attempts that are made again, and each write when it is
// committed.
func (tx *Txn) RecordLoad() { tx.recordsLoad = true }

// recordWrites counts what the transaction has written: the commit has taken so long.
func (tx *Txn) recordWrites(writes []txnWrite, failed bool, took time.Duration) {
	for i, w := range writes {
		tx.db.recordOp(w.at.p, w.command, load.Op{Write: true, Failed: failed && i == 0, BytesIn: countWrittenBytes(w.command)}, took/time.Duration(len(writes)), took)
	}
}

// recordWrites counts writes of a batch or a delete.
func (db *DB) recordWrites(n int, failed bool, began time.Time, write func(i int) (partition.Position, command.Command)) {
	took := time.Since(began)
	for i := range n {
		p, c := write(i)
		db.recordOp(p, c, load.Op{Write: true, Failed: failed && i == 0, BytesIn: countWrittenBytes(c)}, took/time.Duration(n), took)
	}
}

// recordOp counts an operation that was executed, nil for a plain read.
func (db *DB) recordOp(p partition.Position, c command.Command, o load.Op, busy, service time.Duration) {
	m, shard, _ := db.node.Locate(p)
	db.node.Meter().Record(m, shard, o, busy, service, 0)
	if shared := db.node.SharedHeat(); shared != nil {
		if weight := shared.Sampled(heat.Cost(o.BytesIn+o.BytesOut, busy)); weight > 0 {
			db.recordAccess(p, c, o, busy, service, weight)
		}
	}
}

// beginOp begins a command about one key.
func (db *DB) beginOp(p partition.Position) load.Operation {
	m, shard, _ := db.node.Locate(p)
	return db.node.Meter().Begin(m, shard)
}

// endOp ends it; c is nil for a plain read. The operations that are timed are the sample of the heat of keys too: so each
// of the sample has its time, and the others cost nothing.
func (db *DB) endOp(op load.Operation, p partition.Position, c command.Command, o load.Op) {
	if took := op.End(o); took > 0 && db.node.SharedHeat() != nil {
		db.recordAccess(p, c, o, took, took, load.SampleEvery)
	}
}

// recordAccess records an operation of the sample of the heat of keys.
func (db *DB) recordAccess(p partition.Position, c command.Command, o load.Op, busy, service time.Duration, weight float64) {
	db.node.RecordAccess(&heat.Access{
		Key: p, Write: o.Write, BytesIn: o.BytesIn, BytesOut: o.BytesOut, Busy: busy, Service: service,
		Command: commandName(c), Client: programClient,
	}, weight)
}

// programClient is what calls of the program itself come from.
const programClient = "program"

// commandName is the name of a command: hset of command.HSet.
func commandName(c command.Command) string {
	if c == nil {
		return "get"
	}
	name := fmt.Sprintf("%T", c)
	return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
}

// countWrittenBytes is how many bytes of values a command writes.
func countWrittenBytes(c command.Command) (n int) {
	switch c := c.(type) {
	case *command.Set:
		return len(c.Value)
	case *command.HSet:
		for i := range c.Fields {
			n += len(c.Fields[i].Value)
		}
	}
	return n
}

// countReplyBytes is how many bytes of values a reply has.
func countReplyBytes(r *command.Reply) int {
	n := len(r.Bytes)
	for i := range r.Items {
		n += len(r.Items[i].Value)
	}
	return n
}
