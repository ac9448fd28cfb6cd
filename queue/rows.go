package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// This file reads rows. What is not as the package writes it was written by somebody
// else: ErrDamaged.

func damaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func parseManifest(value []byte) (lanes.Manifest, error) {
	m, err := lanes.ParseManifest(value)
	return m, damaged(err)
}

// parseTail reads the tail of a bucket. One that is gone is closed.
func parseTail(value []byte, err error) (lanes.Tail, error) {
	if errors.Is(err, cleave.ErrNotFound) {
		return lanes.Tail{Closed: true}, nil
	}
	if err != nil {
		return lanes.Tail{}, err
	}
	t, err := lanes.ParseTail(value)
	return t, damaged(err)
}

// parseHead reads below which number a bucket has nothing: 0 if nobody has said.
func parseHead(value []byte, err error) (uint64, error) {
	switch {
	case errors.Is(err, cleave.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("%w: the head %.40q", ErrDamaged, value)
	}
	return binary.BigEndian.Uint64(value), nil
}

func headValue(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func parseLease(value []byte) (lanes.Lease, error) {
	l, err := lanes.ParseLease(value)
	return l, damaged(err)
}

func parseMessage(value []byte) (lanes.Head, []byte, error) {
	h, body, err := lanes.ParseHead(value)
	return h, body, damaged(err)
}

// keyOr is the key of a message, nil if it has none.
func keyOr(key string) []byte {
	if key == "" {
		return nil
	}
	return []byte(key)
}
