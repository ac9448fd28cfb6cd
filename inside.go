package cleave

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// The server's ways in: see package inside.
func init() {
	inside.Node = func(db any) *node.Node { return db.(*DB).node }
	inside.Update = func(ctx context.Context, db any, f func(inside.Txn)) error {
		return db.(*DB).Update(ctx, commands(f))
	}
	inside.View = func(ctx context.Context, db any, f func(inside.Txn)) error {
		return db.(*DB).View(ctx, commands(f))
	}
	inside.Scan = func(ctx context.Context, db any, k *node.Space, span partition.Span, limit int, visit func([]byte, command.Kind, int64) bool) error {
		return (&Keyspace{db: db.(*DB), space: k}).walk(ctx, span, limit, visit)
	}
	inside.Clear = func(ctx context.Context, db any, k *node.Space, most int) (bool, error) {
		return (&Keyspace{db: db.(*DB), space: k}).clear(ctx, most)
	}
	inside.OpenSmall = func(dir string, opts any, disk store.FS) (any, error) {
		no, err := opts.(Options).node(dir)
		if err != nil {
			return nil, err
		}
		no.Store.SegmentBytes = smallSegmentBytes
		if disk != nil {
			no.FS = func(int) store.FS { return disk }
		}
		return openNode(no)
	}
}

// smallSegmentBytes is the size of the segments of stores that tests open.
const smallSegmentBytes = 256 << 10

// walk visits live keys with what they hold, and when they expire.
func (k *Keyspace) walk(ctx context.Context, span partition.Span, limit int, visit func([]byte, command.Kind, int64) bool) (err error) {
	if err := k.space.Check(); err != nil {
		return public(err)
	}
	w := walker{k: k, ctx: ctx, o: &ScanOptions{KeysOnly: true}, left: limit}
	w.yield = func(item Item, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		expiryMS := int64(0)
		if !item.Expires.IsZero() {
			expiryMS = item.Expires.UnixMilli()
		}
		return visit(item.Key, w.kind, expiryMS)
	}
	w.walk(span, newest)
	return err
}

// clear deletes all keys at one moment, unless there are more than so many. What is written
// meanwhile is gone too, or comes after it.
func (k *Keyspace) clear(ctx context.Context, most int) (done bool, err error) {
	err = k.db.Update(ctx, func(tx *Txn) error {
		var keys [][]byte
		for item, err := range tx.Scan(k, ScanOptions{Limit: most + 1}) {
			if err != nil {
				return err
			}
			keys = append(keys, item.Key)
		}
		if done = len(keys) <= most; !done {
			return nil
		}
		for _, key := range keys {
			if _, err := tx.Delete(k, key); err != nil {
				return err
			}
		}
		return nil
	})
	return done && err == nil, err
}

// commands makes a function of commands one of a transaction.
func commands(f func(inside.Txn)) func(*Txn) error {
	return func(tx *Txn) error {
		t := &commandTxn{tx: tx}
		f(t)
		return t.err
	}
}

// commandTxn is a transaction that executes commands.
type commandTxn struct {
	tx  *Txn
	err error // why the transaction cannot go on
	// marked is how many writes there were at the last mark, and before the state that the
	// first one after it has found.
	marked int
	before command.Point
}

// Do implements [inside.Txn]. What a command refuses is its reply: the transaction goes
// on. What the store refuses ends it.
func (t *commandTxn) Do(space *node.Space, p partition.Position, c command.Command, writes bool) command.Reply {
	if t.err == nil {
		t.err = t.begin(space, p, writes)
	}
	var reply command.Reply
	if t.err == nil {
		reply, t.err = t.do(place{&Keyspace{db: t.tx.db, space: space}, p}, c, writes)
	}
	if t.err == nil && reply.Err != nil && !command.IsAnswer(reply.Err) {
		t.err = reply.Err
	}
	if t.err != nil {
		return command.Reply{Kind: command.Failed, Err: t.err}
	}
	return reply
}

// begin begins the transaction where a key is.
func (t *commandTxn) begin(space *node.Space, p partition.Position, writes bool) error {
	k := &Keyspace{db: t.tx.db, space: space}
	if err := space.Check(); err != nil {
		return public(err)
	}
	if writes {
		if err := k.mayWrite(); err != nil {
			return err
		}
	}
	t.tx.use(k, writes)
	if err := t.tx.begin(k.part(p).Host); err != nil {
		return err
	}
	return public(space.Check())
}

func (t *commandTxn) do(at place, c command.Command, writes bool) (command.Reply, error) {
	if !writes {
		return t.tx.evaluated(at, c, true)
	}
	if err := t.tx.touch(at); err != nil {
		return command.Reply{}, err
	}
	c = t.tx.date(at, c)
	if len(t.tx.writes) == t.marked {
		t.before = t.tx.env.Mark()
	}
	set, ok := c.(*command.Set)
	reply, err := t.tx.evaluated(at, c, !ok || !set.Blind())
	if err == nil && reply.Err == nil {
		t.tx.writes = append(t.tx.writes, txnWrite{at, c})
	}
	return reply, err
}

// NowMS implements [inside.Txn].
func (t *commandTxn) NowMS() int64 {
	if err := t.tx.begin(t.tx.db.node.Hosts()...); err != nil {
		t.err = err
		return t.tx.db.node.WallMS()
	}
	return t.tx.env.NowMS()
}

// Mark implements [inside.Txn].
func (t *commandTxn) Mark() { t.marked = len(t.tx.writes) }

// Rewind implements [inside.Txn]. What was read stays read.
func (t *commandTxn) Rewind() {
	if len(t.tx.writes) > t.marked {
		t.tx.env.Rewind(t.before)
		t.tx.writes = t.tx.writes[:t.marked]
	}
}
