package engine

import (
	"context"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// CommandTxn is a transaction for a caller that speaks commands, such as the server.
type CommandTxn struct {
	tx  *Txn
	err error // why the transaction cannot go on
	// markedWrites is how many writes there were at the last mark, and beforeMark the state that the
	// first one after it has found.
	markedWrites int
	beforeMark   command.Savepoint
}

// UpdateCommands is [DB.Update] for a function of commands.
func (db *DB) UpdateCommands(ctx context.Context, f func(*CommandTxn)) error {
	return db.Update(ctx, asTxnFunc(f))
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
