package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// FirstTxnVersion is above all versions that are ever given out: what a transaction has written has
// such a version until the commit.
const FirstTxnVersion = 1 << 62

// access is what a transaction does with a key.
type access uint8

const (
	// readRow reads a row, or an entry of an index.
	readRow access = iota
	// writeRow writes a row.
	writeRow
	// writeEntry writes an entry of an index, with the row that it is of.
	writeEntry
)

// Locate begins the transaction where a key is.
func (tx *Txn) Locate(k *node.Keyspace, p partition.Position, writes bool) error {
	return tx.locate(k, p, toAccess(writes))
}

func toAccess(writes bool) access {
	if writes {
		return writeRow
	}
	return readRow
}

func (tx *Txn) locate(k *node.Keyspace, p partition.Position, to access) error {
	if tx.err != nil {
		return tx.err
	}
	if err := k.CheckOpen(); err != nil {
		return err
	}
	if to == writeRow {
		if err := CheckWritable(k); err != nil {
			return err
		}
	}
	if to != readRow && tx.readOnly {
		return ErrReadOnly
	}
	tx.useKeyspace(k, to)
	if err := tx.extendSnapshot(tx.db.node.GroupHostAt(p).Host); err != nil {
		return err
	}
	return k.CheckOpen() // also of the moment of the state
}

// locateKey checks a key that is to be read and begins the transaction where it is.
func (tx *Txn) locateKey(k *node.Keyspace, key []byte) (keyRef, error) {
	if tx.err != nil {
		return keyRef{}, tx.err
	}
	p, err := AppendPosition(nil, k, key)
	if err != nil {
		return keyRef{}, err
	}
	return keyRef{k, p}, tx.locate(k, p, readRow)
}

// Read evaluates a command that only reads on the transaction's state. The row of its key counts as
// read.
func (tx *Txn) Read(k *node.Keyspace, p partition.Position, c command.Command) (command.Reply, error) {
	if !tx.recordsLoad {
		return tx.read(k, p, c)
	}
	op := tx.db.beginOp(p)
	reply, err := tx.read(k, p, c)
	tx.db.endOp(op, p, c, load.Op{Failed: err != nil, BytesOut: countReplyBytes(&reply)})
	return reply, err
}

func (tx *Txn) read(k *node.Keyspace, p partition.Position, c command.Command) (command.Reply, error) {
	if err := tx.locate(k, p, readRow); err != nil {
		return command.Reply{}, err
	}
	return tx.eval(keyRef{k, p}, c, true)
}

// Write evaluates a command on the transaction's state, and keeps it for the commit. seen reports
// whether the caller learns something about the row from the reply: then it counts as read.
func (tx *Txn) Write(k *node.Keyspace, p partition.Position, c command.Command, seen bool) (command.Reply, error) {
	if err := tx.locate(k, p, writeRow); err != nil {
		return command.Reply{}, err
	}
	return tx.evalWrite(keyRef{k, p}, c, seen, nil)
}

// Item returns what the transaction sees of a key that holds a string, and whether there is one. The
// version of what it wrote is 0.
func (tx *Txn) Item(k *node.Keyspace, p partition.Position) (item ScanItem, found bool, err error) {
	value, err := tx.Read(k, p, &command.Get{Key: p})
	if err != nil || value.Kind == command.Nil {
		return item, false, err
	}
	expiry, err := tx.eval(keyRef{k, p}, &command.TTL{Key: p, Absolute: true}, true)
	if err != nil {
		return item, false, err
	}
	item = ScanItem{Value: value.Bytes, ExpiryMS: max(expiry.Int, 0), Kind: command.String}
	if value.Version < FirstTxnVersion {
		item.Version = value.Version
	}
	return item, true, nil
}

// eval evaluates a command on the transaction's state.
func (tx *Txn) eval(at keyRef, cmd command.Command, seen bool) (command.Reply, error) {
	reply, err := tx.evalToReply(at, cmd, seen)
	if err == nil {
		err = withKeyName(at, reply.Err)
	}
	if err != nil {
		return command.Reply{}, err
	}
	return reply, nil
}

// evalToReply is eval, but what the command refuses is in its reply.
func (tx *Txn) evalToReply(at keyRef, cmd command.Command, seen bool) (command.Reply, error) {
	if tx.trackedKey = nil; seen && !tx.readOnly {
		tx.trackedKey = at.p
	}
	reply := tx.env.Do(cmd)
	if errors.Is(reply.Err, ownership.ErrWrongGroup) {
		tx.err = errRetry
		return command.Reply{}, tx.err
	}
	return reply.Clone(), nil
}

// evalWrite evaluates a command that writes, and keeps it for the commit, as something else
// if that is given.
func (tx *Txn) evalWrite(at keyRef, cmd command.Command, seen bool, as func(command.Command) command.Command) (command.Reply, error) {
	if err := tx.trackIndexedRow(at); err != nil {
		return command.Reply{}, err
	}
	cmd = tx.fixExpiryClock(at, cmd)
	reply, err := tx.eval(at, cmd, seen)
	if err != nil {
		return command.Reply{}, err
	}
	if as != nil {
		cmd = as(cmd)
	}
	tx.writes = append(tx.writes, txnWrite{at, cmd})
	return reply, nil
}

// expiryClock is how a key is judged that a transaction has given an expiry.
type expiryClock struct {
	nowMS int64
	// atCommit reports whether the commit must judge it like that too.
	atCommit bool
}

// fixExpiryClock returns a command as it is evaluated, and notes by which time its key is judged from
// then on if it gives it an expiry: by that of its group, also if a transaction that is in
// doubt has locked the key. A time to live does not count from the lock; and at the commit
// the lock is gone. If the row has entries in indexes it becomes a time on the clock: the
// entries, which may be in other groups, have to expire with it.
func (tx *Txn) fixExpiryClock(at keyRef, cmd command.Command) command.Command {
	dates, matters := command.SetsExpiry(cmd)
	if !dates {
		return cmd
	}
	d, dated := tx.expiryClocks[string(at.p)]
	if !dated {
		nowMS, err := tx.snapshot.ClockMS(at.p)
		if err != nil { // the command gets the error too
			return cmd
		}
		d.nowMS = nowMS
		if tx.isKeptByLock(at.p, nowMS) {
			tx.err = errRetry // the row exists for a transaction that has read it, but not at the commit
			return cmd
		}
	}
	if tx.indexedRows[string(at.p)] != nil {
		cmd, matters = command.WithAbsoluteExpiry(cmd, d.nowMS), true
	}
	d.atCommit = d.atCommit || matters
	if tx.expiryClocks == nil {
		tx.expiryClocks = map[string]expiryClock{}
	}
	tx.expiryClocks[string(at.p)] = d
	return cmd
}

// isKeptByLock reports whether nothing but a lock keeps a key alive in the transaction's state.
func (tx *Txn) isKeptByLock(p partition.Position, nowMS int64) bool {
	judgeMS, err := tx.snapshot.NowMS(p)
	if err != nil || judgeMS >= nowMS {
		return false
	}
	value, ok, err := tx.snapshot.Get(effect.Rows.AppendKey(nil, p), nil)
	if err != nil || !ok {
		return false
	}
	row, err := command.DecodeRow(value)
	return err == nil && row.IsAlive(judgeMS) && !row.IsAlive(nowMS)
}

// usedKeyspaces are keyspaces that a transaction has used.
type usedKeyspaces []usedKeyspace

// usedKeyspace is a keyspace that was read or written.
type usedKeyspace struct {
	keyspace *node.Keyspace
	// written reports whether it was written, and with which indexes the transaction
	// maintains: those that there were at its first write.
	written bool
	indexes *node.IndexSet
}

// CheckOpen implements [group.Gate]: all of them must still be there at the commit. Also one
// that was only read, or the transaction could take place neither before its end nor
// after.
func (u usedKeyspaces) CheckOpen() error {
	for i := range u {
		err := u[i].keyspace.CheckOpen()
		switch {
		case err != nil && u[i].keyspace.OwningIndex() != "":
			return node.ErrIndexesChanged // a caller that reads it again gets an error with what is gone
		case err == nil && u[i].written:
			err = u[i].keyspace.CheckWrite(u[i].indexes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// useKeyspace notes that a keyspace is read or written. The entries of an index are written with
// their rows, and stand and fall with those.
func (tx *Txn) useKeyspace(k *node.Keyspace, to access) {
	if to == writeEntry {
		return
	}
	i := slices.IndexFunc(tx.keyspaces, func(u usedKeyspace) bool { return u.keyspace == k })
	if i < 0 {
		i = len(tx.keyspaces)
		tx.keyspaces = append(tx.keyspaces, usedKeyspace{keyspace: k})
	}
	if u := &tx.keyspaces[i]; to == writeRow && !u.written {
		u.written, u.indexes = true, k.Indexes()
	}
}

// findIndexes returns the indexes that the transaction maintains of a keyspace that it
// writes, nil for none.
func (tx *Txn) findIndexes(k *node.Keyspace) *node.IndexSet {
	for i := range tx.keyspaces {
		if tx.keyspaces[i].keyspace == k {
			return tx.keyspaces[i].indexes
		}
	}
	return nil
}

// CommandTxn is a transaction for a caller that speaks commands, such as the server.
type CommandTxn struct {
	tx  *Txn
	err error // why the transaction cannot go on
	// markedWrites is how many writes there were at the last mark, and beforeMark the state that the
	// first one after it has found.
	markedWrites int
	beforeMark   command.Savepoint
}

// UpdateCommands is [DB.Update] for a function of commands of a client: where writers have to wait, it does so no
// longer than [admission.WriteLimits.MaxWait].
func (db *DB) UpdateCommands(ctx context.Context, f func(*CommandTxn)) error {
	return db.update(ctx, writerTurn{maxWait: db.node.WriteLimits().MaxWait()}, asTxnFunc(f))
}

// ViewCommands is [DB.View] for a function of commands.
func (db *DB) ViewCommands(ctx context.Context, f func(*CommandTxn)) error {
	return db.View(ctx, asTxnFunc(f))
}

func asTxnFunc(f func(*CommandTxn)) func(*Txn) error {
	return func(tx *Txn) error {
		t := &CommandTxn{tx: tx}
		f(t)
		return t.err
	}
}

// Eval evaluates a command about one key on the transaction's state, and keeps one that writes for the
// commit. What a command refuses is its reply: the transaction goes on. What the store refuses ends
// it, and all that follows fails too.
func (t *CommandTxn) Eval(space *node.Keyspace, p partition.Position, c command.Command, writes bool) command.Reply {
	if t.err == nil {
		t.err = t.tx.locate(space, p, toAccess(writes))
	}
	var reply command.Reply
	if t.err == nil {
		reply, t.err = t.evalCommand(keyRef{space, p}, c, writes)
	}
	if t.err == nil && reply.Err != nil && !command.IsCommandError(reply.Err) {
		t.err = reply.Err
	}
	if t.err != nil {
		return command.Reply{Kind: command.Failed, Err: t.err}
	}
	return reply
}

func (t *CommandTxn) evalCommand(at keyRef, c command.Command, writes bool) (command.Reply, error) {
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

// NowMS is the clock of the transaction, in Unix milliseconds.
func (t *CommandTxn) NowMS() int64 {
	if err := t.tx.extendSnapshot(t.tx.db.node.StoreHosts()...); err != nil {
		t.err = err
		return t.tx.db.node.WallMS()
	}
	return t.tx.env.NowMS()
}

// CheckSize refuses a transaction that has written more than one may: it ends it.
func (t *CommandTxn) CheckSize() error {
	if t.err == nil && t.tx.env != nil {
		t.err = t.tx.env.CheckTxn(t.tx.beforeWrites)
	}
	return t.err
}

// Mark begins a request: see Rewind.
func (t *CommandTxn) Mark() { t.markedWrites = len(t.tx.writes) }

// Rewind takes back what was written since the last Mark. What was read stays read.
func (t *CommandTxn) Rewind() {
	if len(t.tx.writes) > t.markedWrites {
		t.tx.env.RollbackTo(t.beforeMark)
		t.tx.writes = t.tx.writes[:t.markedWrites]
	}
}
