package cleave

import (
	"context"

	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// The server's ways in: see package inside.
func init() {
	inside.NodeOf = func(db any) *node.Node { return db.(*DB).node }
	inside.Update = func(ctx context.Context, db any, f func(inside.Txn)) error {
		return db.(*DB).Update(ctx, asTxnFunc(f))
	}
	inside.View = func(ctx context.Context, db any, f func(inside.Txn)) error {
		return db.(*DB).View(ctx, asTxnFunc(f))
	}
	inside.ScanKeys = func(ctx context.Context, db any, k *node.Keyspace, span partition.Span, limit int, visit func([]byte, command.Kind, int64) bool) error {
		return (&Keyspace{db: db.(*DB), keyspace: k}).visitKeys(ctx, span, limit, visit)
	}
	inside.DeleteAllKeys = func(ctx context.Context, db any, k *node.Keyspace, most int) (bool, error) {
		return (&Keyspace{db: db.(*DB), keyspace: k}).deleteAllKeys(ctx, most)
	}
	inside.OpenWithSmallSegments = func(dir string, opts any, disk store.FS) (any, error) {
		no, err := opts.(Options).toNodeOptions(dir)
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

// visitKeys visits live keys with what they hold, and when they expire.
func (k *Keyspace) visitKeys(ctx context.Context, span partition.Span, limit int, visit func([]byte, command.Kind, int64) bool) (err error) {
	if err := k.keyspace.CheckAddr(); err != nil {
		return toPublicError(err)
	}
	w := itemScanner{k: k, ctx: ctx, o: &ScanOptions{KeysOnly: true}, remaining: limit}
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
	w.scanSpan(span, scanCommitted)
	return err
}

// deleteAllKeys deletes all keys at one moment, unless there are more than so many. What is written
// meanwhile is gone too, or comes after it.
func (k *Keyspace) deleteAllKeys(ctx context.Context, most int) (done bool, err error) {
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
			// As in Redis, nobody is notified of each key.
			if _, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
				return &command.WithoutEvents{Command: &command.Delete{Keys: []partition.Position{p}}}, nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return done && err == nil, err
}

// asTxnFunc makes a function of commands one of a transaction.
func asTxnFunc(f func(inside.Txn)) func(*Txn) error {
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
	// markedWrites is how many writes there were at the last mark, and before the state that the
	// first one after it has found.
	markedWrites int
	beforeMark   command.Savepoint
}

// Eval implements [inside.Txn]. What a command refuses is its reply: the transaction goes
// on. What the store refuses ends it.
func (t *commandTxn) Eval(space *node.Keyspace, p partition.Position, c command.Command, writes bool) command.Reply {
	if t.err == nil {
		t.err = t.beginAt(space, p, writes)
	}
	var reply command.Reply
	if t.err == nil {
		reply, t.err = t.evalCommand(keyRef{&Keyspace{db: t.tx.db, keyspace: space}, p}, c, writes)
	}
	if t.err == nil && reply.Err != nil && !command.IsCommandError(reply.Err) {
		t.err = reply.Err
	}
	if t.err != nil {
		return command.Reply{Kind: command.Failed, Err: t.err}
	}
	return reply
}

// beginAt begins the transaction where a key is.
func (t *commandTxn) beginAt(space *node.Keyspace, p partition.Position, writes bool) error {
	k := &Keyspace{db: t.tx.db, keyspace: space}
	if err := space.CheckAddr(); err != nil {
		return toPublicError(err)
	}
	if writes {
		if err := k.checkWritable(); err != nil {
			return err
		}
	}
	t.tx.useKeyspace(k, writes)
	if err := t.tx.extendSnapshot(k.findGroupHost(p).Host); err != nil {
		return err
	}
	return toPublicError(space.CheckAddr())
}

func (t *commandTxn) evalCommand(at keyRef, c command.Command, writes bool) (command.Reply, error) {
	if !writes {
		return t.tx.evalToReply(at, c, true)
	}
	if err := t.tx.trackIndexedRow(at); err != nil {
		return command.Reply{}, err
	}
	c = t.tx.fixExpiryClock(at, c)
	if len(t.tx.writes) == t.markedWrites {
		t.beforeMark = t.tx.env.Savepoint()
	}
	set, ok := c.(*command.Set)
	reply, err := t.tx.evalToReply(at, c, !ok || !set.IsBlind())
	if err == nil && reply.Err == nil {
		t.tx.writes = append(t.tx.writes, txnWrite{at, c})
	}
	return reply, err
}

// NowMS implements [inside.Txn].
func (t *commandTxn) NowMS() int64 {
	if err := t.tx.extendSnapshot(t.tx.db.node.StoreHosts()...); err != nil {
		t.err = err
		return t.tx.db.node.WallMS()
	}
	return t.tx.env.NowMS()
}

// CheckSize implements [inside.Txn].
func (t *commandTxn) CheckSize() error {
	if t.err == nil && t.tx.env != nil {
		t.err = t.tx.env.CheckTxn(t.tx.beforeWrites)
	}
	return t.err
}

// Mark implements [inside.Txn].
func (t *commandTxn) Mark() { t.markedWrites = len(t.tx.writes) }

// Rewind implements [inside.Txn]. What was read stays read.
func (t *commandTxn) Rewind() {
	if len(t.tx.writes) > t.markedWrites {
		t.tx.env.RollbackTo(t.beforeMark)
		t.tx.writes = t.tx.writes[:t.markedWrites]
	}
}

func init() {
	inside.FollowEvents = func(ctx context.Context, db any, from string, visit func(inside.KeyEvent)) error {
		return db.(*DB).followEvents(ctx, Cursor(from), visit)
	}
}

// followEvents visits the events of keys that are committed after a place, in the order of the
// commits, until ctx ends, whose error it then returns. It is Feed of what commands did,
// while the node records that: see [node.Node.RecordEvents].
func (db *DB) followEvents(ctx context.Context, from Cursor, visit func(inside.KeyEvent)) error {
	r, err := db.newFeedReader(from, nil)
	if err != nil {
		return err
	}
	r.KeyEvents = true
	for {
		more := db.node.NextCommit() // before it looks, so that nothing slips through
		found := false
		for i, h := range db.node.StoreHosts() {
			batch, err := feed.ReadBatch(&r.Reader, i, h.Store, ctx.Err, db.appendEvent)
			found = found || len(batch) > 0
			feed.Deliver(&r.Reader, i, batch, func(events *[]inside.KeyEvent) bool {
				for _, e := range *events {
					visit(e)
				}
				return true
			})
			if err != nil {
				return toPublicError(err)
			}
		}
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

// appendEvent adds the event of a key of a user's keyspace.
func (db *DB) appendEvent(events *[]inside.KeyEvent, op effect.Op) error {
	p := partition.Position(op.Key[1:])
	id, err := partition.IDOf(p)
	if err != nil {
		return err
	}
	space := db.node.KeyspaceByID(id)
	if space == nil || space.OwningIndex() != "" || len(op.Value) != 1 {
		return nil // of the system, or dropped since, or what others follow, or of a newer version
	}
	key, _, err := space.Split(nil, p)
	if err != nil {
		return err
	}
	*events = append(*events, inside.KeyEvent{Keyspace: space.Name, Key: key, Event: command.Event(op.Value[0])})
	return nil
}
