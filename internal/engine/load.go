package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Calls of a program are counted for the shards of their keys when they have ended: commands, batches, and
// rows of scans, and transactions that say so. Bytes are those of values. What the server asks on behalf of its clients it counts itself,
// and background work is not counted.

// RecordLoad has the transaction counted: each read, also of attempts that are made again, and each write when it is
// committed.
func (tx *Txn) RecordLoad() { tx.recordsLoad = true }

// recordWrites counts what the transaction has written: the commit has taken so long.
func (tx *Txn) recordWrites(writes []txnWrite, failed bool, took time.Duration) {
	m := tx.db.node.Map()
	span := m.Find(writes[0].at.p).Span
	isOther := func(p partition.Position) bool { return !span.Contains(p) }
	isCross := slices.ContainsFunc(writes, func(w txnWrite) bool { return isOther(w.at.p) })
	for key := range tx.reads {
		isCross = isCross || isOther(partition.Position(key))
	}
	if isCross {
		for key := range tx.reads { // which are counted already
			m, shard, _ := tx.db.node.Locate(partition.Position(key))
			tx.db.node.Meter().RecordCrossShard(m, shard)
		}
	}
	for i, w := range writes {
		o := load.Op{Write: true, Failed: failed && i == 0, CrossShard: isCross, BytesIn: countWrittenBytes(w.command)}
		tx.db.recordOp(w.at.p, w.command, o, took/time.Duration(len(writes)), took)
	}
}

// recordWrites counts writes of a batch or a delete.
func (db *DB) recordWrites(n int, failed bool, began time.Time, write func(i int) (partition.Position, command.Command)) {
	took, isCross := time.Since(began), false
	first, _ := write(0)
	span := db.node.Map().Find(first).Span
	for i := 1; i < n && !isCross; i++ {
		p, _ := write(i)
		isCross = !span.Contains(p)
	}
	for i := range n {
		p, c := write(i)
		o := load.Op{Write: true, Failed: failed && i == 0, CrossShard: isCross, BytesIn: countWrittenBytes(c)}
		db.recordOp(p, c, o, took/time.Duration(n), took)
	}
}

// recordConflict counts a conflict at the key or range that a transaction was refused for, if the error names one. Each
// is recorded for the heat of keys: they are few beside operations, and each costs a whole attempt.
func (db *DB) recordConflict(err error) {
	var p partition.Position
	if changed := (*command.ConflictError)(nil); errors.As(err, &changed) {
		p = changed.Start
	} else if locked := (*txn.LockedError)(nil); errors.As(err, &locked) {
		p = locked.Lock.Start
	}
	if len(p) == 0 {
		return
	}
	m, shard, _ := db.node.Locate(p)
	db.node.Meter().RecordConflict(m, shard)
	if db.node.SharedHeat() != nil {
		db.node.RecordAccess(&heat.Access{Key: p, Write: true, Conflict: true, Command: "commit"}, 1)
	}
}

// scanLoad counts the rows of a scan as reads of the shards and keys that they are of: a scan of a thousand rows costs
// about as much as reading them, where they are and not where it begins. They come in order, so that those of a shard
// are counted together.
type scanLoad struct {
	db     *DB
	m      *partition.Map
	shards []scannedShard
	span   partition.Span // of the last of them
	left   int            // rows up to the next one of the sample of the heat of keys
}

type scannedShard struct{ index, rows, bytes int }

func newScanLoad(db *DB) *scanLoad {
	l := &scanLoad{db: db}
	l.left = l.drawGap()
	return l
}

// drawGap returns how many rows are passed over: each is in the sample with a chance of 1 in [load.SampleEvery].
func (l *scanLoad) drawGap() int { return int(rand.ExpFloat64() / -math.Log1p(-1.0/load.SampleEvery)) }

// visit counts a row.
func (l *scanLoad) visit(p partition.Position, bytes int) {
	if l.m == nil || !l.span.Contains(p) {
		if l.m == nil {
			l.m = l.db.node.Map()
		}
		i := l.m.Index(p)
		l.span = l.m.Find(p).Span
		l.shards = append(l.shards, scannedShard{index: i})
	}
	s := &l.shards[len(l.shards)-1]
	s.rows++
	s.bytes += bytes
	if l.left--; l.left < 0 {
		l.left = l.drawGap()
		if l.db.node.SharedHeat() != nil {
			l.db.node.RecordAccess(&heat.Access{Key: p, BytesOut: bytes, Command: "scan"}, load.SampleEvery)
		}
	}
}

// flush hands in what was counted. The rows took so long together, 0 if that is not known: between the rows of a loop
// the program does something else.
func (l *scanLoad) flush(took time.Duration) {
	rows := 0
	for _, s := range l.shards {
		rows += s.rows
	}
	for _, s := range l.shards {
		l.db.node.Meter().RecordScan(l.m, s.index, s.rows, s.bytes, took*time.Duration(s.rows)/time.Duration(rows))
	}
	l.shards, l.m = l.shards[:0], nil
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
