package cleave

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// GetMany returns the values of keys in their order, nil for one that is absent.
// Those that live in one store, see Options.Stores, are of one moment.
func (k *Keyspace) GetMany(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	some := make([]manyKey, len(keys))
	for i, key := range keys {
		p, err := k.position(nil, key)
		if err != nil {
			return nil, err
		}
		some[i] = manyKey{i, p, effect.Rows.AppendKey(nil, p)}
	}
	for attempt := 0; len(some) > 0; attempt++ {
		version := k.db.node.Map().Version()
		first := k.part(some[0].position).Host
		var here, others []manyKey
		for _, key := range some {
			if k.part(key.position).Host == first {
				here = append(here, key)
			} else {
				others = append(others, key)
			}
		}
		err := first.At(ctx, func(from command.Reader, judge node.Judge) error {
			for _, key := range here {
				value, err := textOf(from, &key, judge)
				if err != nil {
					return fmt.Errorf("%s: %w", keyName(k, keys[key.index]), err)
				}
				values[key.index] = value
			}
			return ctx.Err()
		})
		switch {
		case errors.Is(err, own.ErrWrongGroup):
			err = k.db.node.Reroute(ctx, version, attempt)
		case err == nil:
			some, attempt = others, -1
		}
		if err != nil {
			return nil, public(err)
		}
	}
	return values, nil
}

// manyKey is one key of several.
type manyKey struct {
	index    int
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
