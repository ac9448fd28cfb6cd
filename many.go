package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
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
	some := make([]manyKey, len(keys))
	for i, key := range keys {
		p, err := k.position(nil, key)
		if err != nil {
			return nil, err
		}
		some[i] = manyKey{p, effect.Rows.AppendKey(nil, p)}
	}
	shard := k.db.node.Map().Find(some[0].position).Span
	if slices.ContainsFunc(some, func(key manyKey) bool { return !shard.Contains(key.position) }) {
		k.db.node.Count.Scattered.Add(1)
	}
	for attempt := 0; ; attempt++ {
		version := k.db.node.Map().Version()
		var hosts []*node.Host
		for i := range some {
			if h := k.part(some[i].position).Host; !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
		err := k.db.node.At(ctx, hosts, func(from command.Reader, judge node.Judge) error {
			for i := range some {
				value, err := textOf(from, &some[i], judge)
				if err != nil {
					return fmt.Errorf("%s: %w", keyName(k, keys[i]), err)
				}
				values[i] = value
			}
			return ctx.Err()
		})
		if !errors.Is(err, own.ErrWrongGroup) {
			return values, public(err)
		}
		if err := k.db.node.Reroute(ctx, version, attempt); err != nil {
			return nil, public(err)
		}
	}
}

// manyKey is one key of several.
type manyKey struct {
	position partition.Position
	storeKey []byte
}

// textOf returns the value of a string of bytes, nil if there is none.
func textOf(from command.Reader, key *manyKey, judge node.Judge) ([]byte, error) {
	nowMS, err := judge(key.position)
	if err != nil {
		return nil, err
	}
	value, ok, err := from.Get(key.storeKey, nil)
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
