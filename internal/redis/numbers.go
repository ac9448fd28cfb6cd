package redis

import (
	"errors"
	"math"

	"github.com/cleavekv/cleave/internal/command"
)

func init() {
	one := Keys{1, 1, 1}
	spec := func(name, since, summary string, arity int, build func(*Builder) (command.Command, error)) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one, build: build,
			Doc: Doc{"string", since, summary, "O(1)", ""}}
	}
	byFloat := spec("incrbyfloat", "2.6.0", "Adds a number with a fraction to the one that a key holds, 0 if there is none.", 3, buildIncrByFloat)
	byFloat.fail = ofFloat
	register(byFloat,
		spec("incr", "1.0.0", "Adds one to the number that a key holds, 0 if there is none.", 2,
			func(b *Builder) (command.Command, error) { return b.add(1), nil }),
		spec("decr", "1.0.0", "Takes one from the number that a key holds, 0 if there is none.", 2,
			func(b *Builder) (command.Command, error) { return b.add(-1), nil }),
		spec("incrby", "1.0.0", "Adds to the number that a key holds, 0 if there is none.", 3, buildIncrBy),
		spec("decrby", "1.0.0", "Takes from the number that a key holds, 0 if there is none.", 3, buildDecrBy),
	)
}

func (b *Builder) add(delta int64) command.Command {
	c := b.Room.adds.take()
	c.Key, c.Delta = b.Key, delta
	return c
}

func buildIncrBy(b *Builder) (command.Command, error) {
	n, ok := integer(b.Args[2])
	if !ok {
		return nil, errNotInteger
	}
	return b.add(n), nil
}

func buildDecrBy(b *Builder) (command.Command, error) {
	n, ok := integer(b.Args[2])
	if !ok {
		return nil, errNotInteger
	}
	if n == math.MinInt64 { // it has no opposite
		return nil, Error("ERR decrement would overflow")
	}
	return b.add(-n), nil
}

// ofFloat says that a sum is no number.
func ofFloat(err error) error {
	if errors.Is(err, command.ErrOverflow) {
		return errNaN
	}
	return err
}

func buildIncrByFloat(b *Builder) (command.Command, error) {
	return &command.AddFloat{Key: b.Key, Delta: b.Args[2]}, nil
}
