package redis

import (
	"bytes"
	"errors"
	"math"

	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() {
	one := KeySpec{1, 1, 1}
	register(
		&Spec{Name: "get", Arity: 2, Flags: ReadOnly | Fast, ACL: StringType, Keys: one, build: buildGet,
			Doc: Doc{"string", "1.0.0", "Returns the string value of a key.", "O(1)", ""}},
		&Spec{Name: "set", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSet,
			Doc: Doc{"string", "1.0.0", "Sets the string value of a key, whatever it held before.", "O(1)", ""}},
		&Spec{Name: "setnx", Arity: 3, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one, build: buildSetNX, writeReply: writeStored,
			Doc: Doc{"string", "1.0.0", "Sets the string value of a key if there is none.", "O(1)", ""}},
		&Spec{Name: "setex", Arity: 4, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSetIn(1000),
			Doc: Doc{"string", "2.0.0", "Sets the string value of a key, and in how many seconds it expires.", "O(1)", ""}},
		&Spec{Name: "psetex", Arity: 4, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSetIn(1),
			Doc: Doc{"string", "2.6.0", "Sets the string value of a key, and in how many milliseconds it expires.", "O(1)", ""}},
		&Spec{Name: "getset", Arity: 3, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one, build: buildGetSet,
			Doc: Doc{"string", "1.0.0", "Sets the string value of a key and returns the one before.", "O(1)", ""}},
		&Spec{Name: "getdel", Arity: 2, Flags: Write | Fast, ACL: StringType, Keys: one, run: runGetDel,
			Doc: Doc{"string", "6.2.0", "Returns the string value of a key and deletes it.", "O(1)", ""}},
		&Spec{Name: "getex", Arity: -2, Flags: Write | Fast, ACL: StringType, Keys: one, run: runGetEx,
			Doc: Doc{"string", "6.2.0", "Returns the string value of a key and changes when it expires.", "O(1)", ""}},
		&Spec{Name: "append", Arity: 3, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one,
			build: func(b *Builder) (command.Command, error) { return &command.Append{Key: b.Key, Suffix: b.Args[2]}, nil },
			Doc:   Doc{"string", "2.0.0", "Appends to the string value of a key.", "O(N) with N the length of what is appended, or of a value up to 64 KiB", ""}},
		&Spec{Name: "strlen", Arity: 2, Flags: ReadOnly | Fast, ACL: StringType, Keys: one,
			build: func(b *Builder) (command.Command, error) { return &command.Strlen{Key: b.Key}, nil },
			Doc:   Doc{"string", "2.2.0", "Returns the length of a string value.", "O(1)", ""}},
		&Spec{Name: "getrange", Arity: 4, Flags: ReadOnly, ACL: StringType, Keys: one, build: buildGetRange,
			Doc: Doc{"string", "2.4.0", "Returns a part of a string value.", "O(N) with N the length of the part", ""}},
		&Spec{Name: "substr", Arity: 4, Flags: ReadOnly, ACL: StringType, Keys: one, build: buildGetRange,
			Doc: Doc{"string", "1.0.0", "Returns a part of a string value: the old name of GETRANGE.", "O(N) with N the length of the part", ""}},
		&Spec{Name: "setrange", Arity: 4, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSetRange,
			Doc: Doc{"string", "2.2.0", "Overwrites a part of a string value, and fills a gap before it with zeros.", "O(N) with N the length of the part, or of a value up to 64 KiB", ""}},
		&Spec{Name: "mset", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: KeySpec{1, -1, 2}, run: runMSet,
			Doc: Doc{"string", "1.0.1", "Sets the string values of several keys at once.", "O(N) for N keys", ""}},
		&Spec{Name: "msetnx", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: KeySpec{1, -1, 2}, run: runMSetNX,
			Doc: Doc{"string", "1.0.1", "Sets the string values of several keys at once if there is none of them.", "O(N) for N keys", ""}},
		&Spec{Name: "mget", Arity: -2, Flags: ReadOnly | Fast, ACL: StringType, Keys: KeySpec{1, -1, 1}, run: runMGet,
			Doc: Doc{"string", "1.0.0", "Returns the string values of several keys at once.", "O(N) for N keys", ""}},
	)
}

func buildGet(b *Builder) (command.Command, error) {
	c := b.Pool.getSlab.newItem()
	c.Key = b.Key
	return c, nil
}

// newSet is a Set of a value.
func (b *Builder) newSet(value []byte) *command.Set {
	c := b.Pool.setSlab.newItem()
	c.Key, c.Value = b.Key, value
	return c
}

func buildSet(b *Builder) (command.Command, error) {
	c := b.newSet(b.Args[2])
	if len(b.Args) == 3 {
		return c, nil
	}
	return c, parseSetOptions(c, b.Args[3:])
}

// parseSetOptions reads what follows the value of a SET. The same word may come again, and the
// last one counts.
func parseSetOptions(c *command.Set, args [][]byte) error {
	var time, unit []byte // are looked at when all words are known
	condition := func(is command.Condition) (ok bool) {
		ok = c.Condition == 0 || c.Condition == is
		c.Condition = is
		return ok
	}
	for i := 0; i < len(args); i++ {
		word, ok := args[i], true
		switch {
		case isKeyword(word, "NX"):
			ok = condition(command.IfAbsent)
		case isKeyword(word, "XX"):
			ok = condition(command.IfPresent)
		case isKeyword(word, "GET"):
			c.ReturnOld = true
		case isKeyword(word, "KEEPTTL"):
			c.Expiry, ok = command.KeepExpiry(), unit == nil
		default:
			_, known := parseTimeUnit(word)
			if ok = known && c.Expiry == (command.Expiry{}) && (unit == nil || bytes.EqualFold(unit, word)) && i+1 < len(args); ok {
				i++
				unit, time = word, args[i]
			}
		}
		if !ok {
			return ErrSyntax
		}
	}
	if unit == nil {
		return nil
	}
	u, _ := parseTimeUnit(unit)
	var err error
	c.Expiry, err = u.parsePositive(time, "set")
	return err
}

func buildSetNX(b *Builder) (command.Command, error) {
	c := b.newSet(b.Args[2])
	c.Condition = command.IfAbsent
	return c, nil
}

// writeStored writes whether a condition held.
func writeStored(w *Writer, _ *Request, r command.Reply) {
	if r.Kind == command.Nil {
		w.Int(0)
	} else {
		w.Int(1)
	}
}

// buildSetIn is for times in units of so many milliseconds.
func buildSetIn(ms int64) func(*Builder) (command.Command, error) {
	return func(b *Builder) (command.Command, error) {
		expiry, err := timeUnit{ms: ms}.parsePositive(b.Args[2], b.Spec.Name)
		if err != nil {
			return nil, err
		}
		c := b.newSet(b.Args[3])
		c.Expiry = expiry
		return c, nil
	}
}

func buildGetSet(b *Builder) (command.Command, error) {
	c := b.newSet(b.Args[2])
	c.ReturnOld = true
	return c, nil
}

func runGetDel(u KeyspaceView, r *Request, w *Writer) {
	key := u.PositionOf(r.Args[1])
	reply := u.Read(key, &command.Get{Key: key})
	if reply.Kind == command.Bytes {
		reply.Bytes = bytes.Clone(reply.Bytes)
		if w.maybeFail(u.Write(key, &command.Delete{Keys: []position{key}})) {
			return
		}
	}
	writePlainReply(w, r, reply)
}

func runGetEx(u KeyspaceView, r *Request, w *Writer) {
	key := u.PositionOf(r.Args[1])
	persist, unit, time, err := readGetEx(r.Args[2:])
	if err != nil {
		w.Fail(err)
		return
	}
	reply := u.Read(key, &command.Get{Key: key})
	if reply.Kind == command.Bytes && (persist || unit != nil) {
		reply.Bytes = bytes.Clone(reply.Bytes)
		if err := changeExpiry(u, key, unit, time); err != nil {
			w.Fail(err)
			return
		}
	}
	writePlainReply(w, r, reply)
}

// changeExpiry gives a key another time, or none if there is no unit.
func changeExpiry(u KeyspaceView, key position, unit, time []byte) error {
	if unit == nil {
		return u.Write(key, &command.Persist{Key: key}).Err
	}
	as, _ := parseTimeUnit(unit)
	expiry, err := as.parsePositive(time, "getex")
	if err != nil {
		return err
	}
	err = u.Write(key, &command.Expire{Key: key, Expiry: expiry}).Err
	if errors.Is(err, command.ErrExpiry) {
		return newExpireError("getex")
	}
	return err
}

// readGetEx reads what follows the key of a GETEX. The same word may come again, and the last one counts. The
// time is looked at when the key is known to be there.
func readGetEx(args [][]byte) (persist bool, unit, time []byte, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		_, known := parseTimeUnit(word)
		switch {
		case isKeyword(word, "PERSIST") && unit == nil:
			persist = true
		case known && !persist && (unit == nil || bytes.EqualFold(unit, word)) && i+1 < len(args):
			i++
			unit, time = word, args[i]
		default:
			return false, nil, nil, ErrSyntax
		}
	}
	return persist, unit, time, nil
}

func buildGetRange(b *Builder) (command.Command, error) {
	start, ok1 := parseInteger(b.Args[2])
	end, ok2 := parseInteger(b.Args[3])
	if !ok1 || !ok2 {
		return nil, ErrNotInteger
	}
	return &command.GetRange{Key: b.Key, Start: start, End: end}, nil
}

func buildSetRange(b *Builder) (command.Command, error) {
	offset, ok := parseInteger(b.Args[2])
	switch {
	case !ok:
		return nil, ErrNotInteger
	case offset < 0:
		return nil, errOffset
	}
	offset = min(offset, math.MaxInt64-int64(len(b.Args[3]))) // which is refused too, when the key is known
	return &command.SetRange{Key: b.Key, Offset: offset, Value: b.Args[3]}, nil
}

func runMSet(u KeyspaceView, r *Request, w *Writer) {
	if len(r.Args)%2 == 0 {
		w.Fail(newArityError(r.Spec.Name))
		return
	}
	if setPairs(u, r, w) {
		w.OK()
	}
}

// setPairs sets the pairs of a request. If one cannot be, it says why.
func setPairs(u KeyspaceView, r *Request, w *Writer) bool {
	for i := 1; i < len(r.Args); i += 2 {
		key := u.PositionOf(r.Args[i])
		if w.maybeFail(u.Write(key, &command.Set{Key: key, Value: r.Args[i+1]})) {
			return false
		}
	}
	return true
}

func runMSetNX(u KeyspaceView, r *Request, w *Writer) {
	if len(r.Args)%2 == 0 {
		w.Fail(newArityError(r.Spec.Name))
		return
	}
	for i := 1; i < len(r.Args); i += 2 {
		key := u.PositionOf(r.Args[i])
		reply := u.Read(key, &command.Exists{Keys: []position{key}})
		if w.maybeFail(reply) {
			return
		}
		if reply.Int > 0 {
			w.Int(0)
			return
		}
	}
	if setPairs(u, r, w) {
		w.Int(1)
	}
}

func runMGet(u KeyspaceView, r *Request, w *Writer) {
	w.Array(len(r.Args) - 1)
	for _, key := range r.Args[1:] {
		if w.HasOverflowed {
			return // the reply is too large and will not be sent
		}
		// A key of another type is taken for absent here, and nowhere else.
		at := u.PositionOf(key)
		if reply := u.Read(at, &command.Get{Key: at}); reply.Kind == command.Bytes {
			w.Bulk(reply.Bytes)
		} else {
			w.Null()
		}
	}
}

func init() {
	one := KeySpec{1, 1, 1}
	spec := func(name, since, summary string, arity int, build func(*Builder) (command.Command, error)) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one, build: build,
			Doc: Doc{"string", since, summary, "O(1)", ""}}
	}
	byFloat := spec("incrbyfloat", "2.6.0", "Adds a number with a fraction to the one that a key holds, 0 if there is none.", 3, buildIncrByFloat)
	byFloat.mapError = toFloatError
	register(byFloat,
		spec("incr", "1.0.0", "Adds one to the number that a key holds, 0 if there is none.", 2,
			func(b *Builder) (command.Command, error) { return b.newAdd(1), nil }),
		spec("decr", "1.0.0", "Takes one from the number that a key holds, 0 if there is none.", 2,
			func(b *Builder) (command.Command, error) { return b.newAdd(-1), nil }),
		spec("incrby", "1.0.0", "Adds to the number that a key holds, 0 if there is none.", 3, buildIncrBy),
		spec("decrby", "1.0.0", "Takes from the number that a key holds, 0 if there is none.", 3, buildDecrBy),
	)
}

func (b *Builder) newAdd(delta int64) command.Command {
	c := b.Pool.addSlab.newItem()
	c.Key, c.Delta = b.Key, delta
	return c
}

func buildIncrBy(b *Builder) (command.Command, error) {
	n, ok := parseInteger(b.Args[2])
	if !ok {
		return nil, ErrNotInteger
	}
	return b.newAdd(n), nil
}

func buildDecrBy(b *Builder) (command.Command, error) {
	n, ok := parseInteger(b.Args[2])
	if !ok {
		return nil, ErrNotInteger
	}
	if n == math.MinInt64 { // it has no opposite
		return nil, Error("ERR decrement would overflow")
	}
	return b.newAdd(-n), nil
}

// toFloatError is the error for a sum that is no number.
func toFloatError(err error) error {
	if errors.Is(err, command.ErrOverflow) {
		return errNaN
	}
	return err
}

func buildIncrByFloat(b *Builder) (command.Command, error) {
	return &command.AddFloat{Key: b.Key, Delta: b.Args[2]}, nil
}
