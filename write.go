package cleave

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/partition"
)

// SetOptions specify how a Set stores. The zero value stores always, for ever.
type SetOptions struct {
	// TTL is how long the key lives, to the millisecond, rounded up. 0 means for ever.
	TTL time.Duration
	// KeepTTL leaves the key's expiry as it is.
	KeepTTL bool
	// IfAbsent and IfPresent store only if there was no such key, or if there
	// was one; else the error is ErrNotStored.
	IfAbsent, IfPresent bool
	// IfVersion stores only if the key is at Version, 0 for absent; else the
	// error is ErrConflict.
	IfVersion bool
	Version   uint64
	// Request makes a retry harmless.
	Request RequestID
}

// pooledSet is a Set with the memory of its key.
type pooledSet struct {
	command.Set
	keyBuf []byte
}

var setPool = sync.Pool{New: func() any { return new(pooledSet) }}

// Set stores a value, in the place of whatever the key holds, a hash too, and makes
// it live for ever. See SetWith for conditions and expiry. Add and the writes of
// fields leave the expiry of a key as it is.
func (k *Keyspace) Set(ctx context.Context, key, value []byte) error {
	if ctx.Done() != nil {
		_, err := k.SetWith(ctx, key, value, SetOptions{})
		return err
	}
	c := setPool.Get().(*pooledSet)
	defer setPool.Put(c) // this function always waits: the command is done by then
	p, err := k.appendPosition(c.keyBuf[:0], key)
	if err != nil {
		return err
	}
	c.keyBuf, c.Set = p, command.Set{Key: p, Value: value}
	_, err = k.executeCommand(ctx, p, RequestID{}, &c.Set)
	c.Set = command.Set{}
	return err
}

// SetWith stores a value under conditions and returns the key's new version.
func (k *Keyspace) SetWith(ctx context.Context, key, value []byte, o SetOptions) (version uint64, err error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	c, err := o.toCommand(p, cloneIfCancelable(ctx, value))
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, o.Request, c)
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Version, err
}

func (o *SetOptions) toCommand(p partition.Position, value []byte) (*command.Set, error) {
	c := &command.Set{Key: p, Value: value, Version: o.Version}
	conditions := 0
	for _, x := range []struct {
		on bool
		is command.Condition
	}{{o.IfAbsent, command.IfAbsent}, {o.IfPresent, command.IfPresent}, {o.IfVersion, command.IfVersion}} {
		if x.on {
			c.Condition = x.is
			conditions++
		}
	}
	switch {
	case conditions > 1:
		return nil, optionErrorf("use one of IfAbsent, IfPresent and IfVersion")
	case o.TTL < 0:
		return nil, optionErrorf("TTL is %v: use a positive one, or 0 for none", o.TTL)
	case o.TTL > 0 && o.KeepTTL:
		return nil, optionErrorf("use one of TTL and KeepTTL")
	case o.KeepTTL:
		c.Expiry = command.KeepExpiry()
	case o.TTL > 0:
		c.Expiry = command.ExpireIn(ceilMS(o.TTL))
	}
	return c, nil
}

// Delete deletes keys, all at once, and returns how many there were.
func (k *Keyspace) Delete(ctx context.Context, keys ...[]byte) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	at := make([]partition.Position, len(keys))
	for i, key := range keys {
		p, err := k.appendPosition(nil, key)
		if err != nil {
			return 0, err
		}
		at[i] = p
	}
	n, err := k.db.engine.DeleteKeys(ctx, k.keyspace, at)
	return n, toPublicError(err)
}

// Add adds delta to the decimal number that the key holds, 0 if it is absent,
// and returns the sum.
func (k *Keyspace) Add(ctx context.Context, key []byte, delta int64) (int64, error) {
	return k.AddOnce(ctx, RequestID{}, key, delta)
}

// AddOnce is Add with a request id: a retry with the same one does not add
// again, and returns what the first returned.
func (k *Keyspace) AddOnce(ctx context.Context, id RequestID, key []byte, delta int64) (int64, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, id, &command.Add{Key: p, Delta: delta})
	return reply.Int, err
}

// AddOptions specify how an AddWith adds. The zero value adds always.
type AddOptions struct {
	// IfPresent adds only if there is such a key; else the error is ErrNotStored.
	IfPresent bool
	// Request makes a retry harmless. That nothing was stored is remembered too: a
	// retry gets the same answer, even if the key has come since.
	Request RequestID
}

// AddWith is Add under conditions.
func (k *Keyspace) AddWith(ctx context.Context, key []byte, delta int64, o AddOptions) (int64, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, o.Request, &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Int, err
}

// Expire makes a key expire after a time, and reports whether there is one. A
// time that is not positive deletes it.
func (k *Keyspace) Expire(ctx context.Context, key []byte, after time.Duration) (bool, error) {
	return k.executeBool(ctx, key, func(p partition.Position) command.Command {
		return &command.Expire{Key: p, Expiry: command.ExpireIn(ceilMS(after))}
	})
}

// ceilMS is d in milliseconds, rounded up: a time that is positive stays so.
func ceilMS(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}

// Persist makes a key live for ever, and reports whether it had an expiry.
func (k *Keyspace) Persist(ctx context.Context, key []byte) (bool, error) {
	return k.executeBool(ctx, key, func(p partition.Position) command.Command { return &command.Persist{Key: p} })
}

// executeBool executes a command that answers how many it changed, 0 or 1.
func (k *Keyspace) executeBool(ctx context.Context, key []byte, c func(partition.Position) command.Command) (bool, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return false, err
	}
	reply, err := k.executeCommand(ctx, p, RequestID{}, c(p))
	return reply.Int == 1, err
}

// RequestID names a request, so that a retry of it has no second effect: it
// gets the answer of the first. An id is remembered for Options.RequestTTL from
// the time that is in it, together with the key: another request on the same key
// under the same id is taken for a retry and gets the answer of the first. The zero
// value is no id.
type RequestID [16]byte

// NewRequestID returns a new id, made now by the clock of Options.Now, or by that of the
// store while it is ahead: it does not go back. Make one
// for each request, and use it again for retries of that request alone: also
// after a restart, if it was kept.
func (db *DB) NewRequestID() RequestID {
	var id RequestID
	_, _ = rand.Read(id[6:]) // never fails
	ms := uint64(db.node.NowMS())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

// Time is when an id was made, to the millisecond.
func (id RequestID) Time() time.Time { return time.UnixMilli(group.RequestID(id).TimeMS()) }
