package redis

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() {
	spec := func(name, since, summary, cost string, arity int, flags Flag) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: HashType, Keys: KeySpec{1, 1, 1}, Doc: Doc{"hash", since, summary, cost, ""}}
	}
	single := func(s *Spec, build func(*Builder) (command.Command, error), answer func(*Writer, *Request, command.Reply)) *Spec {
		s.build, s.writeReply = build, answer
		return s
	}
	field := func(c func(position, []byte) command.Command) func(*Builder) (command.Command, error) {
		return func(b *Builder) (command.Command, error) { return c(b.Key, b.Args[2]), nil }
	}
	all := func(b *Builder) (command.Command, error) { return &command.HGetAll{Key: b.Key}, nil }
	incrBy := single(spec("hincrby", "2.0.0", "Adds to the number in a field of a hash, 0 if there is none.", "O(1)", 4, Write|DenyOOM|Fast), buildHIncrBy, nil)
	incrByFloat := single(spec("hincrbyfloat", "2.6.0", "Adds a number with a fraction to the one in a field of a hash, 0 if there is none.", "O(1)", 4, Write|DenyOOM|Fast), buildHIncrByFloat, nil)
	incrBy.mapError, incrByFloat.mapError = toHashError, func(err error) error { return toFloatError(toHashError(err)) }
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
		single(spec("hexists", "2.0.0", "Reports whether a hash has a field.", "O(1)", 3, ReadOnly|Fast),
			field(func(p position, f []byte) command.Command { return &command.HExists{Key: p, Field: f} }), nil),
		single(spec("hstrlen", "3.2.0", "Returns the length of a field of a hash.", "O(1)", 3, ReadOnly|Fast),
			field(func(p position, f []byte) command.Command { return &command.HStrlen{Key: p, Field: f} }), nil),
		single(spec("hlen", "2.0.0", "Returns how many fields a hash has.", "O(1)", 2, ReadOnly|Fast),
			func(b *Builder) (command.Command, error) { return &command.HLen{Key: b.Key}, nil }, nil),
		single(spec("hgetall", "2.0.0", "Returns all fields of a hash with their values.", "O(N) for N fields", 2, ReadOnly), all, writePairs),
		single(spec("hkeys", "2.0.0", "Returns the names of all fields of a hash.", "O(N) for N fields", 2, ReadOnly), all, writeNames),
		single(spec("hvals", "2.0.0", "Returns the values of all fields of a hash.", "O(N) for N fields", 2, ReadOnly), all, nil),
	)
}

func buildHSet(b *Builder) (command.Command, error) {
	if len(b.Args)%2 != 0 {
		return nil, newArityError(b.Spec.Name)
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
	n, ok := parseInteger(b.Args[3])
	if !ok {
		return nil, ErrNotInteger
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

// toHashError is the error for a field that is no number.
func toHashError(err error) error {
	switch {
	case errors.Is(err, command.ErrNotInteger):
		return Error("ERR hash value is not an integer")
	case errors.Is(err, command.ErrNotFloat):
		return Error("ERR hash value is not a float")
	}
	return err
}

// writePairs writes names and values.
func writePairs(w *Writer, _ *Request, r command.Reply) {
	w.Map(len(r.Items))
	for _, item := range r.Items {
		w.Bulk(item.Field)
		w.Bulk(item.Value)
	}
}

func writeNames(w *Writer, _ *Request, r command.Reply) {
	w.Array(len(r.Items))
	for _, item := range r.Items {
		w.Bulk(item.Field)
	}
}

func init() {
	register(&Spec{Name: "hrandfield", Arity: -2, Flags: ReadOnly, ACL: HashType, Keys: KeySpec{1, 1, 1}, run: runHRandField,
		Doc: Doc{"hash", "6.2.0", "Returns fields of a hash by chance.", "O(N) for N fields that are returned",
			"Of a hash of more than a thousand fields each is equally likely only as far as names spread evenly below their prefixes, as numbers and digests do; of a smaller one they are. A negative count is at least -1,048,576."}})
}

// runHRandField answers with one field, so many different ones, or so many that may be
// the same if the number is negative.
func runHRandField(u KeyspaceView, r *Request, w *Writer) {
	p := u.PositionOf(r.Args[1])
	many, values := len(r.Args) > 2, len(r.Args) == 4
	n := int64(1)
	if many {
		var ok bool
		if n, ok = parseInteger(r.Args[2]); !ok {
			w.Fail(ErrNotInteger)
			return
		}
		if n == math.MinInt64 {
			w.Fail(Error("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"))
			return
		}
		if len(r.Args) > 4 || values && !isKeyword(r.Args[3], "WITHVALUES") {
			w.Fail(ErrSyntax)
			return
		}
		if values && (n < -math.MaxInt64/2 || n > math.MaxInt64/2) {
			w.Fail(Error("ERR value is out of range"))
			return
		}
	}
	reply, drawn := sampleFields(u, p, n, values)
	if drawn {
		switch {
		case w.maybeFail(reply):
		case !many:
			w.Bulk(reply.Items[0].Field)
		default:
			writeFields(w, reply.Items, values)
		}
		return
	}
	reply = u.Read(p, &command.HGetAll{Key: p})
	switch {
	case w.maybeFail(reply):
	case !many && len(reply.Items) == 0:
		w.Null()
	case !many:
		w.Bulk(reply.Items[rand.IntN(len(reply.Items))].Field)
	default:
		chosen, err := chooseFields(reply.Items, n)
		if err != nil {
			w.Fail(err)
			return
		}
		writeFields(w, chosen, values)
	}
}

// rowsPerSample is about how many rows a field costs that is drawn without a look at all of them.
const rowsPerSample = 512

// sampleFields draws fields of a large hash without a look at all of them: n different ones, or -n. It is
// not drawn if the hash is not large, or if so many are wanted that it is less work to read it.
func sampleFields(u KeyspaceView, p position, n int64, values bool) (reply command.Reply, drawn bool) {
	size := u.Read(p, &command.HLen{Key: p})
	want := max(n, -n)
	if size.Err != nil {
		return size, true
	}
	if size.Int < command.MinSampledFields || want == 0 || want > size.Int/rowsPerSample {
		return size, n == 0
	}
	var items []command.Item
	seen := map[string]bool{}
	for len(items) < int(want) {
		reply = u.Read(p, &command.HSample{Key: p, Draws: int(want) - len(items), WithValues: values, Rand: rand.Uint64})
		if reply.Err != nil || reply.More {
			return reply, reply.Err != nil
		}
		for _, item := range reply.Items {
			if n > 0 && seen[string(item.Field)] {
				continue
			}
			seen[string(item.Field)] = true
			items = append(items, item)
		}
	}
	reply.Items = items
	return reply, true
}

// maxRepeatedFields is how many fields are returned when the same ones may come again.
const maxRepeatedFields = 1 << 20

// chooseFields chooses so many different ones, or so many that may be the same.
func chooseFields(items []command.Item, n int64) (chosen []command.Item, err error) {
	switch {
	case len(items) == 0 || n == 0:
		return nil, nil
	case n < -maxRepeatedFields:
		return nil, Error("ERR value is out of range")
	case n < 0:
		for range -n {
			chosen = append(chosen, items[rand.IntN(len(items))])
		}
		return chosen, nil
	}
	for _, i := range rand.Perm(len(items))[:min(n, int64(len(items)))] {
		chosen = append(chosen, items[i])
	}
	return chosen, nil
}

// writeFields writes names, and values: as pairs to clients of RESP3.
func writeFields(w *Writer, items []command.Item, values bool) {
	switch {
	case values && w.Version == 3:
		w.Array(len(items))
	case values:
		w.Array(2 * len(items))
	default:
		w.Array(len(items))
	}
	for _, item := range items {
		if values && w.Version == 3 {
			w.Array(2)
		}
		w.Bulk(item.Field)
		if values {
			w.Bulk(item.Value)
		}
	}
}
