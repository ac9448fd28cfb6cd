package engine

import (
	"time"

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
		tx.db.recordOp(w.at.p, load.Op{Write: true, Failed: failed && i == 0, BytesIn: countWrittenBytes(w.command)}, took/time.Duration(len(writes)), took)
	}
}

// recordWrites counts writes of a batch or a delete.
func (db *DB) recordWrites(n int, failed bool, began time.Time, write func(i int) (partition.Position, command.Command)) {
	took := time.Since(began)
	for i := range n {
		p, c := write(i)
		db.recordOp(p, load.Op{Write: true, Failed: failed && i == 0, BytesIn: countWrittenBytes(c)}, took/time.Duration(n), took)
	}
}

func (db *DB) recordOp(p partition.Position, o load.Op, busy, service time.Duration) {
	m, shard, _ := db.node.Locate(p)
	db.node.Meter().Record(m, shard, o, busy, service, 0)
}

// beginOp begins a command about one key.
func (db *DB) beginOp(p partition.Position) load.Operation {
	m, shard, _ := db.node.Locate(p)
	return db.node.Meter().Begin(m, shard)
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
