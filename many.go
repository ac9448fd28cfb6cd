package cleave

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
)

// GetMany returns the values of keys in their order, nil for one that is absent, all
// as of one moment.
func (k *Keyspace) GetMany(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	some, err := k.storeKeys(keys)
	if err != nil {
		return nil, err
	}
	shard := k.db.node.Map().Find(some[0][1:]).Span
	if slices.ContainsFunc(some, func(key []byte) bool { return !shard.Contains(key[1:]) }) {
		k.db.node.Count.Scattered.Add(1)
	}
	for attempt := 0; ; attempt++ {
		version := k.db.node.Map().Version()
		var hosts []*node.Host
		for _, key := range some {
			if h := k.part(key[1:]).Host; !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		err := k.db.node.At(ctx, hosts, func(v *node.View) error {
			for i, key := range some {
				value, err := textOf(v, key)
				if err != nil {
					return fmt.Errorf("%s: %w", keyName(k, keys[i]), err)
				}
				values[i] = value
			}
			// Not before: rows of one that was dropped meanwhile go piece by piece.
			return cmp.Or(k.space.Check(), ctx.Err())
		})
		if !errors.Is(err, own.ErrWrongGroup) {
			return values, public(err)
		}
		if err := k.db.node.Reroute(ctx, version, attempt); err != nil {
			return nil, public(err)
		}
	}
}

// storeKeys returns the store keys of the rows of keys, in memory of their own. Behind
// the first byte of each is the position.
func (k *Keyspace) storeKeys(keys [][]byte) ([][]byte, error) {
	var all []byte
	ends := make([]int, len(keys))
	for i, key := range keys {
		p, err := k.position(append(all, byte(effect.Rows)), key)
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

// textOf returns the value of a string of bytes, nil if there is none.
func textOf(v *node.View, key []byte) ([]byte, error) {
	value, nowMS, ok, err := v.Read(key, nil)
	if err != nil || !ok {
		return nil, err
	}
	row, err := command.DecodeRow(value)
	if err != nil {
		return nil, err
	}
	text, _, err := row.Text(nowMS)
	return text, err
}
