package cleave

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// place is where a key is.
type place struct {
	k *Keyspace
	p partition.Position
}

func (a place) part() *node.Part { return a.k.part(a.p) }

// String names the key in an error.
func (a place) String() string {
	key, _, err := a.k.space.Split(nil, a.p)
	if err != nil {
		return fmt.Sprintf("position %x of keyspace %s", []byte(a.p), a.k.Name())
	}
	return keyName(a.k, key)
}

// named adds to an error of a command which key it is about.
func named(at place, err error) error {
	switch {
	case errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %v has changed: read it again", command.ErrConflict, at)
	case errors.Is(err, command.ErrWrongType), errors.Is(err, command.ErrNotInteger), errors.Is(err, command.ErrOverflow):
		return fmt.Errorf("%w: %v", err, at)
	}
	return err
}

// shownBytes is how much of a key an error shows.
const shownBytes = 40

// keyName names a key in an error.
func keyName(k *Keyspace, key []byte) string {
	if len(key) > shownBytes {
		return fmt.Sprintf("key %q… of keyspace %s", key[:shownBytes], k.Name())
	}
	return fmt.Sprintf("key %q of keyspace %s", key, k.Name())
}
