package redis

import (
	"bytes"
	"math"

	"github.com/cleavekv/cleave/internal/command"
)

func init() {
	one := Keys{1, 1, 1}
	register(
		&Spec{Name: "get", Arity: 2, Flags: ReadOnly | Fast, ACL: StringType, Keys: one, build: buildGet,
			Doc: Doc{"string", "1.0.0", "Returns the string value of a key.", "O(1)", ""}},
		&Spec{Name: "set", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSet,
			Doc: Doc{"string", "1.0.0", "Sets the string value of a key, whatever it held before.", "O(1)", ""}},
		&Spec{Name: "setnx", Arity: 3, Flags: Write | DenyOOM | Fast, ACL: StringType, Keys: one, build: buildSetNX, answer: stored,
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
			build: func(b *Builder) (command.Command, error) { return &command.Append{Key: b.Key, Tail: b.Args[2]}, nil },
			Doc:   Doc{"string", "2.0.0", "Appends to the string value of a key.", "O(N) with N the length of the value", ""}},
		&Spec{Name: "strlen", Arity: 2, Flags: ReadOnly | Fast, ACL: StringType, Keys: one,
			build: func(b *Builder) (command.Command, error) { return &command.Strlen{Key: b.Key}, nil },
			Doc:   Doc{"string", "2.2.0", "Returns the length of a string value.", "O(1)", ""}},
		&Spec{Name: "getrange", Arity: 4, Flags: ReadOnly, ACL: StringType, Keys: one, build: buildGetRange,
			Doc: Doc{"string", "2.4.0", "Returns a part of a string value.", "O(N) with N the length of the part", ""}},
		&Spec{Name: "substr", Arity: 4, Flags: ReadOnly, ACL: StringType, Keys: one, build: buildGetRange,
			Doc: Doc{"string", "1.0.0", "Returns a part of a string value: the old name of GETRANGE.", "O(N) with N the length of the part", ""}},
		&Spec{Name: "setrange", Arity: 4, Flags: Write | DenyOOM, ACL: StringType, Keys: one, build: buildSetRange,
			Doc: Doc{"string", "2.2.0", "Overwrites a part of a string value, and fills a gap before it with zeros.", "O(N) with N the length of the value", ""}},
		&Spec{Name: "mset", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: Keys{1, -1, 2}, run: runMSet,
			Doc: Doc{"string", "1.0.1", "Sets the string values of several keys at once.", "O(N) for N keys", ""}},
		&Spec{Name: "msetnx", Arity: -3, Flags: Write | DenyOOM, ACL: StringType, Keys: Keys{1, -1, 2}, run: runMSetNX,
			Doc: Doc{"string", "1.0.1", "Sets the string values of several keys at once if there is none of them.", "O(N) for N keys", ""}},
		&Spec{Name: "mget", Arity: -2, Flags: ReadOnly | Fast, ACL: StringType, Keys: Keys{1, -1, 1}, run: runMGet,
			Doc: Doc{"string", "1.0.0", "Returns the string values of several keys at once.", "O(N) for N keys", ""}},
	)
}

func buildGet(b *Builder) (command.Command, error) {
	c := b.Room.gets.take()
	c.Key = b.Key
	return c, nil
}

// set is a Set of a value.
func (b *Builder) set(value []byte) *command.Set {
	c := b.Room.sets.take()
	c.Key, c.Value = b.Key, value
	return c
}

func buildSet(b *Builder) (command.Command, error) {
	c := b.set(b.Args[2])
	if len(b.Args) == 3 {
		return c, nil
	}
	return c, setOptions(c, b.Args[3:])
}

// setOptions reads what follows the value of a SET. The same word may come again, and the
// last one counts.
func setOptions(c *command.Set, args [][]byte) error {
	var time, unit []byte // are looked at when all words are known
	condition := func(is command.Condition) (ok bool) {
		ok = c.If == 0 || c.If == is
		c.If = is
		return ok
	}
	for i := 0; i < len(args); i++ {
		word, ok := args[i], true
		switch {
		case is(word, "NX"):
			ok = condition(command.IfAbsent)
		case is(word, "XX"):
			ok = condition(command.IfPresent)
		case is(word, "GET"):
			c.ReturnOld = true
		case is(word, "KEEPTTL"):
			c.Expiry, ok = command.Keep(), unit == nil
		default:
			_, known := unitOf(word)
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
	u, _ := unitOf(unit)
	var err error
	c.Expiry, err = u.positive(time, "set")
	return err
}

func buildSetNX(b *Builder) (command.Command, error) {
	c := b.set(b.Args[2])
	c.If = command.IfAbsent
	return c, nil
}

// stored writes whether a condition held.
func stored(w *Writer, _ *Request, r command.Reply) {
	if r.Kind == command.Nil {
		w.Int(0)
	} else {
		w.Int(1)
	}
}

// buildSetIn is for times in units of so many milliseconds.
func buildSetIn(ms int64) func(*Builder) (command.Command, error) {
	return func(b *Builder) (command.Command, error) {
		expiry, err := timeUnit{ms: ms}.positive(b.Args[2], b.Spec.Name)
		if err != nil {
			return nil, err
		}
		c := b.set(b.Args[3])
		c.Expiry = expiry
		return c, nil
	}
}

func buildGetSet(b *Builder) (command.Command, error) {
	c := b.set(b.Args[2])
	c.ReturnOld = true
	return c, nil
}

func runGetDel(u Unit, r *Request, w *Writer) {
	key := u.At(r.Args[1])
	reply := u.Read(key, &command.Get{Key: key})
	if reply.Kind == command.Bytes {
		reply.Bytes = bytes.Clone(reply.Bytes)
		if w.failed(u.Write(key, &command.Delete{Keys: []position{key}})) {
			return
		}
	}
	plain(w, r, reply)
}

func runGetEx(u Unit, r *Request, w *Writer) {
	key := u.At(r.Args[1])
	change, err := getExOption(key, r.Args[2:])
	if err != nil {
		w.Fail(err)
		return
	}
	reply := u.Read(key, &command.Get{Key: key})
	if reply.Kind == command.Bytes && change != nil {
		reply.Bytes = bytes.Clone(reply.Bytes)
		if w.failed(u.Write(key, change)) {
			return
		}
	}
	plain(w, r, reply)
}

// getExOption is the change that a GETEX makes, nil for none.
func getExOption(key position, args [][]byte) (command.Command, error) {
	switch {
	case len(args) == 0:
		return nil, nil
	case len(args) == 1 && is(args[0], "PERSIST"):
		return &command.Persist{Key: key}, nil
	}
	unit, ok := unitOf(args[0])
	if !ok || len(args) != 2 {
		return nil, ErrSyntax
	}
	expiry, err := unit.positive(args[1], "getex")
	return &command.Expire{Key: key, Expiry: expiry}, err
}

func buildGetRange(b *Builder) (command.Command, error) {
	start, ok1 := integer(b.Args[2])
	end, ok2 := integer(b.Args[3])
	if !ok1 || !ok2 {
		return nil, errNotInteger
	}
	return &command.GetRange{Key: b.Key, Start: start, End: end}, nil
}

func buildSetRange(b *Builder) (command.Command, error) {
	offset, ok := integer(b.Args[2])
	switch {
	case !ok:
		return nil, errNotInteger
	case offset < 0:
		return nil, errOffset
	}
	offset = min(offset, math.MaxInt64-int64(len(b.Args[3]))) // which is refused too, when the key is known
	return &command.SetRange{Key: b.Key, Offset: offset, Part: b.Args[3]}, nil
}

func runMSet(u Unit, r *Request, w *Writer) {
	if len(r.Args)%2 == 0 {
		w.Fail(errArity(r.Spec.Name))
		return
	}
	if setAll(u, r, w) {
		w.OK()
	}
}

// setAll sets the pairs of a request. If one cannot be, it says why.
func setAll(u Unit, r *Request, w *Writer) bool {
	for i := 1; i < len(r.Args); i += 2 {
		key := u.At(r.Args[i])
		if w.failed(u.Write(key, &command.Set{Key: key, Value: r.Args[i+1]})) {
			return false
		}
	}
	return true
}

func runMSetNX(u Unit, r *Request, w *Writer) {
	if len(r.Args)%2 == 0 {
		w.Fail(errArity(r.Spec.Name))
		return
	}
	for i := 1; i < len(r.Args); i += 2 {
		key := u.At(r.Args[i])
		reply := u.Read(key, &command.Exists{Keys: []position{key}})
		if w.failed(reply) {
			return
		}
		if reply.Int > 0 {
			w.Int(0)
			return
		}
	}
	if setAll(u, r, w) {
		w.Int(1)
	}
}

func runMGet(u Unit, r *Request, w *Writer) {
	w.Array(len(r.Args) - 1)
	for _, key := range r.Args[1:] {
		if w.Over {
			return // nobody hears it
		}
		// A key of another type is taken for absent here, and nowhere else.
		at := u.At(key)
		if reply := u.Read(at, &command.Get{Key: at}); reply.Kind == command.Bytes {
			w.Bulk(reply.Bytes)
		} else {
			w.Null()
		}
	}
}
