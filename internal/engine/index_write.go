package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// executeIndexed executes a command on a keyspace with indexes: as a transaction, which
// writes the entries too.
func (db *DB) executeIndexed(ctx context.Context, k *node.Keyspace, p partition.Position, id group.RequestID, c command.Command) (reply command.Reply, err error) {
	at := keyRef{k, bytes.Clone(p)}
	if c, err = cloneCommand(c, at.p); err != nil { // it may be looked at after a caller has left
		return reply, err
	}
	request := group.Request{Key: at.p, ID: id}
	if reply, done, err := db.lookupReply(ctx, request); done || err != nil {
		return reply, err
	}
	var heard *replyRecorder
	_, err = db.runUpdate(ctx, patientTurn, func(tx *Txn) error {
		heard = new(replyRecorder) // one for each attempt: an older one may still be evaluated
		if err := tx.locate(k, at.p, writeRow); err != nil {
			return err
		}
		_, err := tx.evalWrite(at, c, true, func(c command.Command) command.Command {
			heard.command = c
			if id == (group.RequestID{}) {
				return heard
			}
			once := request
			once.Command = heard
			return &group.RecordRequest{Request: once, Remember: db.node.Remember()}
		})
		return err
	})
	switch {
	case errors.Is(err, errRetry):
		return command.Reply{}, ctx.Err()
	case errors.Is(err, group.ErrDuplicateRequest):
		var done bool
		if reply, done, err = db.lookupReply(ctx, request); err != nil || !done {
			err = fmt.Errorf("%w: %w", group.ErrUnknown, cmp.Or(err, group.ErrDuplicateRequest)) // it has taken effect, but how?
		}
		return reply, err
	case err != nil && !isUnknown(err):
		// The same request may have been executed meanwhile, and this one be refused
		// because of that.
		if reply, done, err := db.lookupReply(ctx, request); done || err != nil {
			return reply, err
		}
	}
	if err != nil {
		return command.Reply{}, err
	}
	return heard.reply, nil
}

// replyRecorder is a command whose reply its caller wants when it is committed.
type replyRecorder struct {
	command command.Command
	reply   command.Reply
}

// Eval evaluates the command and keeps what its reply says.
func (w *replyRecorder) Eval(e *command.Env) command.Reply {
	r := e.Do(w.command)
	w.reply = command.Reply{Kind: r.Kind, Int: r.Int, Version: r.Version}
	return r
}

// isUnknown reports whether a write may or may not have taken effect.
func isUnknown(err error) bool {
	return errors.Is(err, group.ErrUnknown) || errors.Is(err, store.ErrUnknown)
}

// lookupReply returns the reply to a request if it was executed before.
func (db *DB) lookupReply(ctx context.Context, r group.Request) (reply command.Reply, done bool, err error) {
	if r.ID == (group.RequestID{}) {
		return reply, false, nil
	}
	err = db.routeToGroup(ctx, r.Key, func(part *node.GroupHost) error {
		found, err := part.Group.Execute(ctx, group.Request{Command: &group.LookupRecord{Request: r}})
		if err = errors.Join(group.AsReadError(ctx, err), found.Err); err == nil && found.Int == 1 {
			reply, err = group.DecodeRecord(found.Bytes)
			done = err == nil
		}
		return err
	})
	return reply, done, err
}

// cloneCommand returns a copy of a command that shares no memory with it.
func cloneCommand(c command.Command, p partition.Position) (command.Command, error) {
	switch c := c.(type) {
	case *command.Set:
		same := *c
		same.Key, same.Value = p, append([]byte{}, c.Value...)
		return &same, nil
	case *command.Add:
		same := *c
		same.Key = p
		return &same, nil
	case *command.Expire:
		same := *c
		same.Key = p
		return &same, nil
	case *command.Persist:
		return &command.Persist{Key: p}, nil
	case *command.HSet:
		same := &command.HSet{Key: p, Fields: make([]command.FieldValue, len(c.Fields))}
		for i, f := range c.Fields {
			same.Fields[i] = command.FieldValue{Field: bytes.Clone(f.Field), Value: bytes.Clone(f.Value)}
		}
		return same, nil
	case *command.HDel:
		same := &command.HDel{Key: p, Fields: make([][]byte, len(c.Fields))}
		for i, f := range c.Fields {
			same.Fields[i] = bytes.Clone(f)
		}
		return same, nil
	case *command.HIncrBy:
		return &command.HIncrBy{Key: p, Field: bytes.Clone(c.Field), Delta: c.Delta}, nil
	}
	return nil, fmt.Errorf("engine: %T is not known to keyspaces with indexes", c)
}
