package cleave

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// SetOptions say how a Set stores. The zero value stores always, for ever.
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

// setCall is a Set with the memory of its key.
type setCall struct {
	command.Set
	room []byte
}

var setCalls = sync.Pool{New: func() any { return new(setCall) }}

// Set stores a value, in the place of whatever the key holds, a hash too, and makes
// it live for ever. See SetWith for conditions and expiry. Add and the writes of
// fields leave the expiry of a key as it is.
func (k *Keyspace) Set(ctx context.Context, key, value []byte) error {
	if ctx.Done() != nil {
		_, err := k.SetWith(ctx, key, value, SetOptions{})
		return err
	}
	c := setCalls.Get().(*setCall)
	defer setCalls.Put(c) // nobody leaves early here: the command is done
	p, err := k.position(c.room[:0], key)
	if err != nil {
		return err
	}
	c.room, c.Set = p, command.Set{Key: p, Value: value}
	_, err = k.do(ctx, p, RequestID{}, &c.Set)
	c.Set = command.Set{}
	return err
}

// SetWith stores a value under conditions and returns the key's new version.
func (k *Keyspace) SetWith(ctx context.Context, key, value []byte, o SetOptions) (version uint64, err error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	c, err := o.command(p, owned(ctx, value))
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, o.Request, c)
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Version, err
}

func (o *SetOptions) command(p partition.Position, value []byte) (*command.Set, error) {
	c := &command.Set{Key: p, Value: value, Version: o.Version}
	conditions := 0
	for _, x := range []struct {
		on bool
		is command.Condition
	}{{o.IfAbsent, command.IfAbsent}, {o.IfPresent, command.IfPresent}, {o.IfVersion, command.IfVersion}} {
		if x.on {
			c.If = x.is
			conditions++
		}
	}
	switch {
	case conditions > 1:
		return nil, optionError("use one of IfAbsent, IfPresent and IfVersion")
	case o.TTL < 0:
		return nil, optionError("TTL is %v: use a positive one, or 0 for none", o.TTL)
	case o.TTL > 0 && o.KeepTTL:
		return nil, optionError("use one of TTL and KeepTTL")
	case o.KeepTTL:
		c.Expiry = command.Keep()
	case o.TTL > 0:
		c.Expiry = command.In(ceilMS(o.TTL))
	}
	return c, nil
}

// Delete deletes keys, all at once, and returns how many there were.
func (k *Keyspace) Delete(ctx context.Context, keys ...[]byte) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	if err := k.mayWrite(); err != nil {
		return 0, err
	}
	places := make([]place, len(keys))
	for i, key := range keys {
		p, err := k.position(nil, key)
		if err != nil {
			return 0, err
		}
		places[i] = place{k, p}
	}
	replies, err := k.db.together(ctx, func() (pieces []piece) {
		for _, at := range places {
			part := at.part()
			i := slices.IndexFunc(pieces, func(p piece) bool { return p.part == part })
			if i < 0 {
				i = len(pieces)
				pieces = append(pieces, piece{part, at, group.Request{Command: &command.Delete{}, Key: at.p, Gate: node.Plain{Space: k.space}}})
			}
			c := pieces[i].request.Command.(*command.Delete)
			c.Keys = append(c.Keys, at.p)
		}
		return pieces
	}, func(_ int, err error) error { return err })
	deleted := 0
	if errors.Is(err, errApart) || errors.Is(err, node.ErrIndexes) {
		err = k.db.Update(ctx, func(tx *Txn) error {
			deleted, err = tx.Delete(k, keys...)
			return err
		})
		return deleted, err
	}
	for i := range replies {
		deleted += int(replies[i].Int)
	}
	return deleted, public(err)
}

// Add adds delta to the decimal number that the key holds, 0 if it is absent,
// and returns the sum.
func (k *Keyspace) Add(ctx context.Context, key []byte, delta int64) (int64, error) {
	return k.AddOnce(ctx, RequestID{}, key, delta)
}

// AddOnce is Add with a request id: a retry with the same one does not add
// again, and returns what the first returned.
func (k *Keyspace) AddOnce(ctx context.Context, id RequestID, key []byte, delta int64) (int64, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, id, &command.Add{Key: p, Delta: delta})
	return reply.Int, err
}

// AddOptions say how an AddWith adds. The zero value adds always.
type AddOptions struct {
	// IfPresent adds only if there is such a key; else the error is ErrNotStored.
	IfPresent bool
	// Request makes a retry harmless. That nothing was stored is remembered too: a
	// retry hears the same, even if the key has come since.
	Request RequestID
}

// AddWith is Add under conditions.
func (k *Keyspace) AddWith(ctx context.Context, key []byte, delta int64, o AddOptions) (int64, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, o.Request, &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Int, err
}

// Expire makes a key expire after a time, and tells whether there is one. A
// time that is not positive deletes it.
func (k *Keyspace) Expire(ctx context.Context, key []byte, after time.Duration) (bool, error) {
	return k.count(ctx, key, func(p partition.Position) command.Command {
		return &command.Expire{Key: p, Expiry: command.In(ceilMS(after))}
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

// Persist makes a key live for ever, and tells whether it had an expiry.
func (k *Keyspace) Persist(ctx context.Context, key []byte) (bool, error) {
	return k.count(ctx, key, func(p partition.Position) command.Command { return &command.Persist{Key: p} })
}

// count executes a command that answers how many it changed, 0 or 1.
func (k *Keyspace) count(ctx context.Context, key []byte, c func(partition.Position) command.Command) (bool, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return false, err
	}
	reply, err := k.do(ctx, p, RequestID{}, c(p))
	return reply.Int == 1, err
}
