package cleave

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/node"
)

// GetMany returns the values of keys in their order, nil for one that is absent.
// Those that live in one store, see Options.Stores, are of one moment.
func (k *Keyspace) GetMany(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	byPart := map[*node.Part][]manyKey{}
	for i, key := range keys {
		p, err := k.position(nil, key)
		if err != nil {
			return nil, err
		}
		part := k.part(p)
		byPart[part] = append(byPart[part], manyKey{i, effect.Rows.AppendKey(nil, p)})
	}
	values := make([][]byte, len(keys))
	for part, some := range byPart {
		err := part.At(ctx, func(from command.Reader, nowMS int64) error {
			for _, key := range some {
				value, err := textOf(from, key.storeKey, nowMS)
				if err != nil {
					return fmt.Errorf("%s: %w", keyName(k, keys[key.index]), err)
				}
				values[key.index] = value
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, public(err)
		}
	}
	return values, nil
}

// manyKey is one key of several.
type manyKey struct {
	index    int
	storeKey []byte
}

// textOf returns the value of a string of bytes, nil if there is none.
func textOf(from command.Reader, storeKey []byte, nowMS int64) ([]byte, error) {
	value, ok, err := from.Get(storeKey, nil)
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
