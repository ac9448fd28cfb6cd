package redis

import (
	"errors"

	"github.com/cleavekv/cleave/internal/command"
)

func init() {
	spec := func(name, since, summary, cost string, arity int, flags Flag) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: HashType, Keys: Keys{1, 1, 1}, Doc: Doc{"hash", since, summary, cost, ""}}
	}
	single := func(s *Spec, build func(*Builder) (command.Command, error), answer func(*Writer, *Request, command.Reply)) *Spec {
		s.build, s.answer = build, answer
		return s
	}
	field := func(c func(position, []byte) command.Command) func(*Builder) (command.Command, error) {
		return func(b *Builder) (command.Command, error) { return c(b.Key, b.Args[2]), nil }
	}
	all := func(b *Builder) (command.Command, error) { return &command.HGetAll{Key: b.Key}, nil }
	incrBy := single(spec("hincrby", "2.0.0", "Adds to the number in a field of a hash, 0 if there is none.", "O(1)", 4, Write|DenyOOM|Fast), buildHIncrBy, nil)
	incrByFloat := single(spec("hincrbyfloat", "2.6.0", "Adds a number with a fraction to the one in a field of a hash, 0 if there is none.", "O(1)", 4, Write|DenyOOM|Fast), buildHIncrByFloat, nil)
	incrBy.fail, incrByFloat.fail = ofHash, func(err error) error { return ofFloat(ofHash(err)) }
	register(
		incrBy, incrByFloat,
		single(spec("hset", "2.0.0", "Sets fields of a hash, and returns how many of them are new.", "O(N) for N fields", -4, Write|DenyOOM|Fast), buildHSet, nil),
		single(spec("hmset", "2.0.0", "Sets fields of a hash: the old form of HSET.", "O(N) for N fields", -4, Write|DenyOOM|Fast), buildHSet,
			func(w *Writer, _ *Request, _ command.Reply) { w.OK() }),
		single(spec("hsetnx", "2.0.0", "Sets a field of a hash if there is none.", "O(1)", 4, Write|DenyOOM|Fast), buildHSetNX, nil),
		single(spec("hget", "2.0.0", "Returns a field of a hash.", "O(1)", 3, ReadOnly|Fast),
			field(func(p position, f []byte) command.Command { return &command.HGet{Key: p, Field: f} }), nil),
		single(spec("hmget", "2.0.0", "Returns fields of a hash.", "O(N) for N fields", -3, ReadOnly|Fast),
			func(b *Builder) (command.Command, error) { return &command.HMGet{Key: b.Key, Fields: b.Args[2:]}, nil }, nil),
		single(spec("hdel", "2.0.0", "Removes fields of a hash, and returns how many there were.", "O(N) for N fields", -3, Write|Fast),
			func(b *Builder) (command.Command, error) { return &command.HDel{Key: b.Key, Fields: b.Args[2:]}, nil }, nil),
		single(spec("hexists", "2.0.0", "Tells whether a hash has a field.", "O(1)", 3, ReadOnly|Fast),
			field(func(p position, f []byte) command.Command { return &command.HExists{Key: p, Field: f} }), nil),
		single(spec("hstrlen", "3.2.0", "Returns the length of a field of a hash.", "O(1)", 3, ReadOnly|Fast),
			field(func(p position, f []byte) command.Command { return &command.HStrlen{Key: p, Field: f} }), nil),
		single(spec("hlen", "2.0.0", "Returns how many fields a hash has.", "O(1)", 2, ReadOnly|Fast),
			func(b *Builder) (command.Command, error) { return &command.HLen{Key: b.Key}, nil }, nil),
		single(spec("hgetall", "2.0.0", "Returns all fields of a hash with their values.", "O(N) for N fields", 2, ReadOnly), all, answerPairs),
		single(spec("hkeys", "2.0.0", "Returns the names of all fields of a hash.", "O(N) for N fields", 2, ReadOnly), all, answerNames),
		single(spec("hvals", "2.0.0", "Returns the values of all fields of a hash.", "O(N) for N fields", 2, ReadOnly), all, nil),
	)
}

func buildHSet(b *Builder) (command.Command, error) {
	if len(b.Args)%2 != 0 {
		return nil, errArity(b.Spec.Name)
	}
	c := &command.HSet{Key: b.Key, Fields: make([]command.FieldValue, 0, len(b.Args)/2-1)}
	for i := 2; i < len(b.Args); i += 2 {
		c.Fields = append(c.Fields, command.FieldValue{Field: b.Args[i], Value: b.Args[i+1]})
	}
	return c, nil
}

func buildHSetNX(b *Builder) (command.Command, error) {
	return &command.HSet{Key: b.Key, Fields: []command.FieldValue{{Field: b.Args[2], Value: b.Args[3]}}, OnlyNew: true}, nil
}

func buildHIncrBy(b *Builder) (command.Command, error) {
	n, ok := integer(b.Args[3])
	if !ok {
		return nil, errNotInteger
	}
	return &command.HIncrBy{Key: b.Key, Field: b.Args[2], Delta: n}, nil
}

func buildHIncrByFloat(b *Builder) (command.Command, error) {
	if err := command.CheckFloat(b.Args[3]); errors.Is(err, command.ErrOverflow) {
		return nil, Error("ERR value is NaN or Infinity")
	} else if err != nil {
		return nil, err
	}
	return &command.HIncrByFloat{Key: b.Key, Field: b.Args[2], Delta: b.Args[3]}, nil
}

// ofHash says that it is a field that is no number.
func ofHash(err error) error {
	switch {
	case errors.Is(err, command.ErrNotInteger):
		return Error("ERR hash value is not an integer")
	case errors.Is(err, command.ErrNotFloat):
		return Error("ERR hash value is not a float")
	}
	return err
}

// answerPairs writes names and values.
func answerPairs(w *Writer, _ *Request, r command.Reply) {
	w.Map(len(r.Items))
	for _, item := range r.Items {
		w.Bulk(item.Field)
		w.Bulk(item.Value)
	}
}

func answerNames(w *Writer, _ *Request, r command.Reply) {
	w.Array(len(r.Items))
	for _, item := range r.Items {
		w.Bulk(item.Field)
	}
}
