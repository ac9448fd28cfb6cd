package redis

import (
	"math"

	"github.com/cleavekv/cleave/internal/command"
)

// The commands about all that a key holds.

func init() {
	const group = "generic"
	spec := func(name, since, summary string, arity int, flags Flag, keys Keys, run func(Unit, *Request, *Writer)) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: Keyspace, Keys: keys, run: run,
			Doc: Doc{group, since, summary, "O(N) for a hash of N fields", ""}}
	}
	one, two := Keys{1, 1, 1}, Keys{1, 2, 1}
	dump := spec("dump", "2.6.0", "Returns all that a key holds, to be restored.", 2, ReadOnly, one, runDump)
	restore := spec("restore", "2.6.0", "Makes a key hold what DUMP has returned.", -4, Write|DenyOOM, one, runRestore)
	dump.Doc.Differs = "The format is Cleave's own: Redis cannot restore it."
	restore.Doc.Differs = "It takes what DUMP of Cleave has returned, not that of Redis."
	restore.ACL |= Dangerous
	cp := spec("copy", "6.2.0", "Copies all that a key holds to another.", -3, Write|DenyOOM, two, runCopy)
	cp.Doc.Differs = "Option DB is refused but for the keyspace itself: a copy stays in its keyspace."
	object := func(name, summary string, run func(Unit, *Request, *Writer)) *Spec {
		return &Spec{Name: "object|" + name, Arity: 3, Flags: ReadOnly, ACL: Keyspace, Keys: Keys{2, 2, 1}, run: run,
			Doc: Doc{group, "2.2.3", summary, "O(1)", ""}}
	}
	usage := &Spec{Name: "memory|usage", Arity: -3, Flags: ReadOnly, ACL: Keyspace, Keys: Keys{2, 2, 1}, run: runMemoryUsage,
		Doc: Doc{"server", "4.0.0", "Returns how many bytes a key and what it holds take.", "O(N) for a hash of N fields", "It is the size of the rows, whether they are in memory or not; SAMPLES is accepted, and all fields are counted."}}
	register(
		spec("rename", "1.0.0", "Gives what a key holds to another key.", 3, Write, two, runRename),
		spec("renamenx", "1.0.0", "Gives what a key holds to another key if there is none.", 3, Write, two, runRename),
		cp, dump, restore,
		family("object", group, "2.2.3", "What is about the form of values.",
			object("encoding", "Returns the name that Redis has for the form of such a value.", runEncoding),
			object("refcount", "Returns 1: no value is shared.", answerIfThere(1)),
			object("idletime", "Returns 0: nothing remembers when a key was used.", answerIfThere(0)),
			object("freq", "Is refused: nothing remembers how often a key was used.", runFreq),
			edge("object|help", group, "6.2.0", "Returns how OBJECT is used.", 2, Loading|Stale, Keyspace),
		),
		family("memory", "server", "4.0.0", "What is about memory.", usage,
			edge("memory|doctor", "server", "4.0.0", "Returns what is wrong with memory.", 2, 0, 0),
			edge("memory|stats", "server", "4.0.0", "Returns figures about memory.", 2, 0, 0),
			edge("memory|help", "server", "4.0.0", "Returns how MEMORY is used.", 2, Loading|Stale, 0),
		),
	)
}

func runRename(u Unit, r *Request, w *Writer) {
	from, to := u.At(r.Args[1]), u.At(r.Args[2])
	v, err := load(u, from)
	onlyNew := r.Spec.Name == "renamenx"
	switch {
	case err != nil:
		w.Fail(err)
		return
	case v.kind == command.None:
		w.Fail(errNoKey)
		return
	case string(from) == string(to) && onlyNew:
		w.Int(0)
		return
	case string(from) == string(to):
		w.OK()
		return
	}
	if onlyNew {
		there := u.Read(to, &command.Exists{Keys: []position{to}})
		if w.failed(there) {
			return
		}
		if there.Int > 0 {
			w.Int(0)
			return
		}
	}
	if err := v.store(u, to); err != nil {
		w.Fail(err)
		return
	}
	if w.failed(u.Write(from, &command.Delete{Keys: []position{from}})) {
		return
	}
	if onlyNew {
		w.Int(1)
	} else {
		w.OK()
	}
}

func runCopy(u Unit, r *Request, w *Writer) {
	replace := false
	for i := 3; i < len(r.Args); i++ {
		switch {
		case is(r.Args[i], "REPLACE"):
			replace = true
		case is(r.Args[i], "DB") && i+1 < len(r.Args):
			i++
			if u.Selects(r.Args[i]) {
				continue
			}
			if _, ok := integer(r.Args[i]); !ok {
				w.Fail(errNotInteger)
				return
			}
			w.Fail(Error("ERR DB index is out of range"))
			return
		default:
			w.Fail(ErrSyntax)
			return
		}
	}
	from, to := u.At(r.Args[1]), u.At(r.Args[2])
	if string(from) == string(to) {
		w.Fail(Error("ERR source and destination objects are the same"))
		return
	}
	v, err := load(u, from)
	if err == nil && v.kind != command.None && !replace {
		there := u.Read(to, &command.Exists{Keys: []position{to}})
		if err = there.Err; there.Int > 0 {
			v.kind = command.None
		}
	}
	if err == nil && v.kind != command.None {
		err = v.store(u, to)
	}
	switch {
	case err != nil:
		w.Fail(err)
	case v.kind == command.None:
		w.Int(0)
	default:
		w.Int(1)
	}
}

func runDump(u Unit, r *Request, w *Writer) {
	v, err := load(u, u.At(r.Args[1]))
	switch {
	case err != nil:
		w.Fail(err)
	case v.kind == command.None:
		w.Null()
	default:
		w.Bulk(v.dump())
	}
}

func runRestore(u Unit, r *Request, w *Writer) {
	replace, absolute, err := restoreOptions(r.Args[4:])
	if err != nil {
		w.Fail(err)
		return
	}
	ttl, ok := integer(r.Args[2])
	switch {
	case !ok:
		w.Fail(errNotInteger)
		return
	case ttl < 0:
		w.Fail(Error("ERR Invalid TTL value, must be >= 0"))
		return
	}
	p := u.At(r.Args[1])
	there := u.Read(p, &command.Exists{Keys: []position{p}})
	if w.failed(there) {
		return
	}
	if there.Int > 0 && !replace {
		w.Fail(Error("BUSYKEY Target key name already exists."))
		return
	}
	v, err := undump(r.Args[3])
	if err != nil {
		w.Fail(err)
		return
	}
	if ttl > 0 && !absolute {
		if ttl > math.MaxInt64-u.NowMS() {
			w.Fail(errExpire("restore"))
			return
		}
		ttl += u.NowMS()
	}
	if v.expiryMS = ttl; ttl > 0 && ttl <= u.NowMS() { // it is over already
		if !w.failed(u.Write(p, &command.Delete{Keys: []position{p}})) {
			w.OK()
		}
		return
	}
	if err := v.store(u, p); err != nil {
		w.Fail(err)
		return
	}
	w.OK()
}

func restoreOptions(words [][]byte) (replace, absolute bool, err error) {
	for i := 0; i < len(words); i++ {
		switch {
		case is(words[i], "REPLACE"):
			replace = true
		case is(words[i], "ABSTTL"):
			absolute = true
		case (is(words[i], "IDLETIME") || is(words[i], "FREQ")) && i+1 < len(words):
			i++
			if n, ok := integer(words[i]); !ok || n < 0 {
				return false, false, errNotInteger
			}
		default:
			return false, false, ErrSyntax
		}
	}
	return replace, absolute, nil
}

// answerIfThere answers with a number if there is such a key.
func answerIfThere(n int64) func(Unit, *Request, *Writer) {
	return func(u Unit, r *Request, w *Writer) {
		p := u.At(r.Args[2])
		reply := u.Read(p, &command.Exists{Keys: []position{p}})
		switch {
		case w.failed(reply):
		case reply.Int == 0:
			w.Null()
		default:
			w.Int(n)
		}
	}
}

func runFreq(u Unit, r *Request, w *Writer) {
	p := u.At(r.Args[2])
	reply := u.Read(p, &command.Exists{Keys: []position{p}})
	if w.failed(reply) {
		return
	}
	if reply.Int == 0 {
		w.Null()
		return
	}
	w.Fail(Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."))
}

// The sizes up to which Redis has forms of its own for small values.
const (
	embedded   = 44
	listpacked = 128
	listBytes  = 64
)

// runEncoding answers with the name that Redis would give: clients look at it.
func runEncoding(u Unit, r *Request, w *Writer) {
	v, err := load(u, u.At(r.Args[2]))
	switch {
	case err != nil:
		w.Fail(err)
	case v.kind == command.None:
		w.Null()
	case v.kind == command.Hash:
		w.Text(hashEncoding(v.fields))
	default:
		w.Text(textEncoding(v.text))
	}
}

func hashEncoding(fields []command.FieldValue) string {
	if len(fields) > listpacked {
		return "hashtable"
	}
	for _, f := range fields {
		if len(f.Field) > listBytes || len(f.Value) > listBytes {
			return "hashtable"
		}
	}
	return "listpack"
}

func textEncoding(text []byte) string {
	if _, ok := integer(text); ok {
		return "int"
	}
	if len(text) <= embedded {
		return "embstr"
	}
	return "raw"
}

// rowBytes is about what a row takes besides its key and value.
const rowBytes = 16

func runMemoryUsage(u Unit, r *Request, w *Writer) {
	if len(r.Args) != 3 {
		n, ok := int64(0), len(r.Args) == 5 && is(r.Args[3], "SAMPLES")
		if ok {
			n, ok = integer(r.Args[4])
		}
		if !ok || n < 0 {
			w.Fail(ErrSyntax)
			return
		}
	}
	v, err := load(u, u.At(r.Args[2]))
	switch {
	case err != nil:
		w.Fail(err)
		return
	case v.kind == command.None:
		w.Null()
		return
	}
	key := len(r.Args[2])
	n := key + len(v.text) + rowBytes
	for _, f := range v.fields {
		n += key + len(f.Field) + len(f.Value) + rowBytes
	}
	w.Int(int64(n))
}
