package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Read returns the row of a key, if there is one. Of a string in chunks that is not the value: see
// [DB.ReadString].
func (db *DB) Read(ctx context.Context, p partition.Position) (row command.Row, ok bool, err error) {
	m, shard, part := db.node.Locate(p)
	op := db.node.Meter().Begin(m, shard)
	row, ok, err = part.Group.Read(ctx, p, nil)
	if errors.Is(err, ownership.ErrWrongGroup) {
		err = db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
			row, ok, err = part.Group.Read(ctx, p, nil)
			return err
		})
	}
	db.endOp(op, p, nil, load.Op{Failed: err != nil, BytesOut: len(row.Payload)})
	return row, ok, err
}

// ReadString returns the row of a key that holds a string, with all of its value: a read past the
// queue is of one row, so this is one of a moment.
func (db *DB) ReadString(ctx context.Context, k *node.Keyspace, p partition.Position) (row command.Row, ok bool, err error) {
	op := db.beginOp(p)
	defer func() { db.endOp(op, p, nil, load.Op{Failed: err != nil, BytesOut: len(row.Payload)}) }()
	v, _, err := db.SnapshotAt(ctx, p)
	if err != nil {
		return row, false, err
	}
	defer v.Close()
	row, ok, err = readStringRow(v, effect.Rows.AppendKey(nil, p))
	return row, ok, withKeyName(keyRef{k, p}, err)
}

// ReadStrings returns the strings of keys in their order, nil for one that is absent, all as of one
// moment. The keys are store keys of rows, see [EncodeRowKeys].
func (db *DB) ReadStrings(ctx context.Context, k *node.Keyspace, keys [][]byte) ([][]byte, error) {
	began := time.Now()
	values, err := db.readStrings(ctx, k, keys)
	took := time.Since(began)
	for i, key := range keys {
		o := load.Op{Failed: err != nil && i == 0}
		if err == nil {
			o.BytesOut = len(values[i])
		}
		db.recordOp(key[1:], nil, o, took/time.Duration(len(keys)), took)
	}
	return values, err
}

func (db *DB) readStrings(ctx context.Context, k *node.Keyspace, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	shard := db.node.Map().Find(keys[0][1:]).Span
	if slices.ContainsFunc(keys, func(key []byte) bool { return !shard.Contains(key[1:]) }) {
		db.node.Counters.MultiShardReads.Add(1)
	}
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		var hosts []*node.StoreHost
		for _, key := range keys {
			if h := db.node.GroupHostAt(key[1:]).Host; !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		err := db.node.ReadSnapshot(ctx, hosts, func(v *node.Snapshot) error {
			for i, key := range keys {
				value, err := readStringValue(v, key)
				if err != nil {
					return fmt.Errorf("%v: %w", keyRef{k, key[1:]}, err)
				}
				values[i] = value
			}
			// Not before: rows of one that was dropped meanwhile go piece by piece.
			return cmp.Or(k.CheckOpen(), ctx.Err())
		})
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return values, err
		}
		if err := db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return nil, err
		}
	}
}

// EncodeRowKeys returns the store keys of the rows of keys, in memory of their own. Behind the first
// byte of each is the position.
func EncodeRowKeys(k *node.Keyspace, keys [][]byte) ([][]byte, error) {
	var all []byte
	ends := make([]int, len(keys))
	for i, key := range keys {
		p, err := AppendPosition(append(all, byte(effect.Rows)), k, key)
		if err != nil {
			return nil, err
		}
		all, ends[i] = p, len(p)
	}
	cut, from := make([][]byte, len(keys)), 0
	for i, end := range ends {
		cut[i], from = all[from:end], end
	}
	return cut, nil
}

// readStringValue returns the value of a string of bytes, nil if there is none.
func readStringValue(v *node.Snapshot, key []byte) ([]byte, error) {
	row, _, err := readStringRow(v, key)
	return row.Payload, err
}

// readStringRow returns the row of a key that holds a string of bytes, with all of its value, and
// whether there is one.
func readStringRow(v *node.Snapshot, key []byte) (row command.Row, ok bool, err error) {
	value, nowMS, ok, err := v.GetWithTime(key, nil)
	if err != nil || !ok {
		return row, false, err
	}
	if row, err = command.DecodeRow(value); err != nil || !row.IsAlive(nowMS) {
		return command.Row{}, false, err
	}
	if row.Payload, err = command.ReadStringValue(v, key[1:], &row); err != nil {
		return command.Row{}, false, err
	}
	return row, true, nil
}

// SnapshotAt returns the state of the store that has a position, and the time there.
func (db *DB) SnapshotAt(ctx context.Context, p partition.Position) (v *node.Snapshot, nowMS int64, err error) {
	err = db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
		if v, err = db.node.Snapshot(ctx, part.Host); err != nil {
			return err
		}
		if nowMS, err = v.NowMS(p); err != nil {
			v.Close()
		}
		return err
	})
	return v, nowMS, err
}

// EvalReadOnly evaluates a command that reads past the queue.
func (db *DB) EvalReadOnly(ctx context.Context, k *node.Keyspace, p partition.Position, c command.Command) (command.Reply, error) {
	if err := ctx.Err(); err != nil {
		return command.Reply{}, err
	}
	var reply command.Reply
	op := db.beginOp(p)
	err := db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
		if reply, err = part.Group.EvalReadOnly(ctx, p, c); err == nil {
			err = reply.Err
		}
		return err
	})
	db.endOp(op, p, c, load.Op{Failed: err != nil, BytesOut: countReplyBytes(&reply)})
	return reply, withKeyName(keyRef{k, p}, err)
}

// EvalAt evaluates a command that reads on a state of its store.
func (db *DB) EvalAt(v *node.Snapshot, nowMS int64, k *node.Keyspace, p partition.Position, c command.Command) (command.Reply, error) {
	op := db.beginOp(p)
	reply := group.EvalReadOnlyAt(c, v, nowMS)
	db.endOp(op, p, c, load.Op{Failed: reply.Err != nil, BytesOut: countReplyBytes(&reply)})
	return reply, withKeyName(keyRef{k, p}, reply.Err)
}
