package redis

import "github.com/cleavekv/cleave/internal/shard/command"

func init() {
	spec := func(name, since, summary, cost string, arity int, flags Flag, keys KeySpec) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: Keyspace, Keys: keys, Doc: Doc{"generic", since, summary, cost, ""}}
	}
	single := func(s *Spec, build func(*Builder) (command.Command, error), answer func(*Writer, *Request, command.Reply)) *Spec {
		s.build, s.writeReply = build, answer
		return s
	}
	running := func(s *Spec, run func(KeyspaceView, *Request, *Writer)) *Spec {
		s.run = run
		return s
	}
	one, all := KeySpec{1, 1, 1}, KeySpec{1, -1, 1}
	register(
		running(spec("del", "1.0.0", "Deletes keys, and returns how many there were.", "O(N) for N keys", -2, Write, all), runDel),
		running(spec("unlink", "4.0.0", "Deletes keys: here the same as DEL, as what a collection leaves is always removed later.", "O(N) for N keys", -2, Write|Fast, all), runDel),
		running(spec("exists", "1.0.0", "Returns how many of the keys there are.", "O(N) for N keys", -2, ReadOnly|Fast, all), runExists),
		running(spec("touch", "3.2.1", "Returns how many of the keys there are: nothing remembers when a key was used.", "O(N) for N keys", -2, ReadOnly|Fast, all), runExists),
		single(spec("type", "1.0.0", "Returns the type of value that a key holds.", "O(1)", 2, ReadOnly|Fast, one),
			func(b *Builder) (command.Command, error) { return &command.Type{Key: b.Key}, nil }, writeType),
		single(spec("expire", "1.0.0", "Sets in how many seconds a key expires.", "O(1)", -3, Write|Fast, one), buildExpire(1000, false), nil),
		single(spec("pexpire", "2.6.0", "Sets in how many milliseconds a key expires.", "O(1)", -3, Write|Fast, one), buildExpire(1, false), nil),
		single(spec("expireat", "1.2.0", "Sets the second at which a key expires.", "O(1)", -3, Write|Fast, one), buildExpire(1000, true), nil),
		single(spec("pexpireat", "2.6.0", "Sets the millisecond at which a key expires.", "O(1)", -3, Write|Fast, one), buildExpire(1, true), nil),
		single(spec("persist", "2.2.0", "Makes a key live for ever.", "O(1)", 2, Write|Fast, one),
			func(b *Builder) (command.Command, error) { return &command.Persist{Key: b.Key}, nil }, nil),
		single(spec("ttl", "1.0.0", "Returns in how many seconds a key expires.", "O(1)", 2, ReadOnly|Fast, one), buildTTL(false), writeSeconds),
		single(spec("pttl", "2.6.0", "Returns in how many milliseconds a key expires.", "O(1)", 2, ReadOnly|Fast, one), buildTTL(false), nil),
		single(spec("expiretime", "7.0.0", "Returns the second at which a key expires.", "O(1)", 2, ReadOnly|Fast, one), buildTTL(true), writeSeconds),
		single(spec("pexpiretime", "7.0.0", "Returns the millisecond at which a key expires.", "O(1)", 2, ReadOnly|Fast, one), buildTTL(true), nil),
	)
}

// sumReplies answers with the sum of what is answered about each key.
func sumReplies(u KeyspaceView, r *Request, w *Writer, f func(position) command.Reply) {
	n := int64(0)
	for _, key := range r.Args[1:] {
		reply := f(u.PositionOf(key))
		if w.maybeFail(reply) {
			return
		}
		n += reply.Int
	}
	w.Int(n)
}

// runDel deletes key by key: one name may come twice, and counts once.
func runDel(u KeyspaceView, r *Request, w *Writer) {
	sumReplies(u, r, w, func(p position) command.Reply { return u.Write(p, &command.Delete{Keys: []position{p}}) })
}

func runExists(u KeyspaceView, r *Request, w *Writer) {
	sumReplies(u, r, w, func(p position) command.Reply { return u.Read(p, &command.Exists{Keys: []position{p}}) })
}

// typeNames are Redis' names of the types of values.
var typeNames = map[command.Kind]string{command.None: "none", command.String: "string", command.Hash: "hash"}

func writeType(w *Writer, _ *Request, r command.Reply) { w.Simple(typeNames[command.Kind(r.Int)]) }

func buildExpire(ms int64, absolute bool) func(*Builder) (command.Command, error) {
	return func(b *Builder) (command.Command, error) {
		flags, err := parseExpireFlags(b.Args[3:])
		if err != nil {
			return nil, err
		}
		n, ok := parseInteger(b.Args[2])
		if !ok {
			return nil, ErrNotInteger
		}
		expiry, err := timeUnit{ms, absolute}.toExpiry(n, b.Spec.Name)
		return &command.Expire{Key: b.Key, Expiry: expiry, Flags: flags}, err
	}
}

func parseExpireFlags(words [][]byte) (flags command.ExpireFlags, err error) {
	for _, word := range words {
		switch {
		case isKeyword(word, "NX"):
			flags |= command.ExpireNX
		case isKeyword(word, "XX"):
			flags |= command.ExpireXX
		case isKeyword(word, "GT"):
			flags |= command.ExpireGT
		case isKeyword(word, "LT"):
			flags |= command.ExpireLT
		default:
			return 0, Error("ERR Unsupported option " + cutAtZero(word))
		}
	}
	switch {
	case flags&command.ExpireNX != 0 && flags != command.ExpireNX:
		return 0, Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	case flags&command.ExpireGT != 0 && flags&command.ExpireLT != 0:
		return 0, Error("ERR GT and LT options at the same time are not compatible")
	}
	return flags, nil
}

func buildTTL(absolute bool) func(*Builder) (command.Command, error) {
	return func(b *Builder) (command.Command, error) {
		return &command.TTL{Key: b.Key, Absolute: absolute}, nil
	}
}

// writeSeconds rounds milliseconds as Redis does.
func writeSeconds(w *Writer, _ *Request, r command.Reply) {
	if r.Int < 0 {
		w.Int(r.Int)
		return
	}
	w.Int(r.Int/1000 + (r.Int%1000+500)/1000)
}
