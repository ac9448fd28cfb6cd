package redis

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/cleavekv/cleave/internal/shard/command"
)

// contents is all that a key holds.
type contents struct {
	kind     command.Kind
	str      []byte
	fields   []command.FieldValue
	expiryMS int64 // 0 for never
}

// loadContents returns what a key holds, of kind None if it is absent.
func loadContents(u KeyspaceView, p position) (v contents, err error) {
	reply := u.Read(p, &command.Type{Key: p})
	if reply.Err != nil {
		return v, reply.Err
	}
	v.kind = command.Kind(reply.Int)
	switch v.kind {
	case command.None:
		return v, nil
	case command.String:
		reply = u.Read(p, &command.Get{Key: p})
		v.str = slices.Clone(reply.Bytes)
	case command.Hash:
		reply = u.Read(p, &command.HGetAll{Key: p})
		for _, item := range reply.Items {
			v.fields = append(v.fields, command.FieldValue{Field: slices.Clone(item.Field), Value: slices.Clone(item.Value)})
		}
	}
	if reply.Err != nil {
		return v, reply.Err
	}
	reply = u.Read(p, &command.TTL{Key: p, Absolute: true})
	v.expiryMS = max(0, reply.Int)
	return v, reply.Err
}

// fieldsPerCommand is how many fields are written by one command.
const fieldsPerCommand = 1000

// storeAt makes a key hold a value, and nothing else, and announces that as an event.
func (v *contents) storeAt(u KeyspaceView, p position, event command.Event) error {
	if err := v.storeWithoutEvents(u, p); err != nil {
		return err
	}
	return recordEvents(u, p, command.EventNew, event)
}

// recordEvents records the events of a key that was written silently.
func recordEvents(u KeyspaceView, p position, events ...command.Event) error {
	return u.Write(p, &command.RecordKeyEvents{Key: p, Events: events}).Err
}

func (v *contents) storeWithoutEvents(u KeyspaceView, p position) error {
	write := func(c command.Command) error { return u.Write(p, &command.WithoutEvents{Command: c}).Err }
	expiry := command.Expiry{}
	if v.expiryMS > 0 {
		expiry = command.ExpireAt(v.expiryMS)
	}
	if v.kind == command.String {
		return write(&command.Set{Key: p, Value: v.str, Expiry: expiry})
	}
	if err := write(&command.Delete{Keys: []position{p}}); err != nil {
		return err
	}
	for some := range slices.Chunk(v.fields, fieldsPerCommand) {
		if err := write(&command.HSet{Key: p, Fields: some}); err != nil {
			return err
		}
	}
	if v.expiryMS == 0 {
		return nil
	}
	return write(&command.Expire{Key: p, Expiry: expiry})
}

// dumpFormatByte is the first byte of a dump. Another format gets another one.
const dumpFormatByte = 0xC1

// encodeDump is the value in the form of DUMP: the format, the kind, each part with its length
// before it, and a checksum of all that. The expiry is not in it.
func (v *contents) encodeDump() []byte {
	out := []byte{dumpFormatByte, byte(v.kind)}
	part := func(b []byte) {
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	if v.kind == command.String {
		part(v.str)
	}
	for _, f := range v.fields {
		part(f.Field)
		part(f.Value)
	}
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

const errDump Error = "ERR DUMP payload version or checksum are wrong"

// decodeDump is the value of a dump.
func decodeDump(b []byte) (v contents, err error) {
	if len(b) < 10 || b[0] != dumpFormatByte || xxhash.Sum64(b[:len(b)-8]) != binary.LittleEndian.Uint64(b[len(b)-8:]) {
		return v, errDump
	}
	v.kind, b = command.Kind(b[1]), b[2:len(b)-8]
	var parts [][]byte
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return v, errDump
		}
		parts, b = append(parts, b[size:size+int(n)]), b[size+int(n):]
	}
	switch {
	case v.kind == command.String && len(parts) == 1:
		v.str = parts[0]
	case v.kind == command.Hash && len(parts) > 0 && len(parts)%2 == 0:
		for i := 0; i < len(parts); i += 2 {
			v.fields = append(v.fields, command.FieldValue{Field: parts[i], Value: parts[i+1]})
		}
	default:
		return v, errDump
	}
	return v, nil
}

// The commands about all that a key holds.

func init() {
	const group = "generic"
	spec := func(name, since, summary string, arity int, flags Flag, keys KeySpec, run func(KeyspaceView, *Request, *Writer)) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: Keyspace, Keys: keys, run: run,
			Doc: Doc{group, since, summary, "O(N) for a hash of N fields", ""}}
	}
	one, two := KeySpec{1, 1, 1}, KeySpec{1, 2, 1}
	dump := spec("dump", "2.6.0", "Returns all that a key holds, to be restored.", 2, ReadOnly, one, runDump)
	restore := spec("restore", "2.6.0", "Makes a key hold what DUMP has returned.", -4, Write|DenyOOM, one, runRestore)
	dump.Doc.Difference = "The format is Cleave's own: Redis cannot restore it."
	restore.Doc.Difference = "It takes what DUMP of Cleave has returned, not that of Redis."
	restore.ACL |= Dangerous
	cp := spec("copy", "6.2.0", "Copies all that a key holds to another.", -3, Write|DenyOOM, two, runCopy)
	cp.Doc.Difference = "Option DB is refused but for the keyspace itself: a copy stays in its keyspace."
	object := func(name, summary string, run func(KeyspaceView, *Request, *Writer)) *Spec {
		return &Spec{Name: "object|" + name, Arity: 3, Flags: ReadOnly, ACL: Keyspace, Keys: KeySpec{2, 2, 1}, run: run,
			Doc: Doc{group, "2.2.3", summary, "O(1)", ""}}
	}
	usage := &Spec{Name: "memory|usage", Arity: -3, Flags: ReadOnly, ACL: Keyspace, Keys: KeySpec{2, 2, 1}, run: runMemoryUsage,
		Doc: Doc{"server", "4.0.0", "Returns how many bytes a key and what it holds take.", "O(N) for a hash of N fields", "It is the size of the rows, whether they are in memory or not; SAMPLES is accepted, and all fields are counted."}}
	register(
		spec("rename", "1.0.0", "Gives what a key holds to another key.", 3, Write, two, runRename),
		spec("renamenx", "1.0.0", "Gives what a key holds to another key if there is none.", 3, Write, two, runRename),
		cp, dump, restore,
		newFamily("object", group, "2.2.3", "What is about the form of values.",
			object("encoding", "Returns the name that Redis has for the form of such a value.", runObjectEncoding),
			object("refcount", "Returns 1: no value is shared.", replyIfExists(1)),
			object("idletime", "Returns 0: nothing remembers when a key was used.", replyIfExists(0)),
			object("freq", "Is refused: nothing remembers how often a key was used.", runObjectFreq),
			newServerCommand("object|help", group, "6.2.0", "Returns how OBJECT is used.", 2, Loading|Stale, Keyspace),
		),
		newFamily("memory", "server", "4.0.0", "What is about memory.", usage,
			newServerCommand("memory|doctor", "server", "4.0.0", "Returns what is wrong with memory.", 2, 0, 0),
			newServerCommand("memory|stats", "server", "4.0.0", "Returns figures about memory.", 2, 0, 0),
			newServerCommand("memory|help", "server", "4.0.0", "Returns how MEMORY is used.", 2, Loading|Stale, 0),
		),
	)
}

func runRename(u KeyspaceView, r *Request, w *Writer) {
	from, to := u.PositionOf(r.Args[1]), u.PositionOf(r.Args[2])
	v, err := loadContents(u, from)
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
		if w.maybeFail(there) {
			return
		}
		if there.Int > 0 {
			w.Int(0)
			return
		}
	}
	if err := v.moveTo(u, from, to); err != nil {
		w.Fail(err)
		return
	}
	if onlyNew {
		w.Int(1)
	} else {
		w.OK()
	}
}

// moveTo makes another key hold a value, and removes its own. The events are in the order of Redis.
func (v *contents) moveTo(u KeyspaceView, from, to position) error {
	if err := v.storeWithoutEvents(u, to); err != nil {
		return err
	}
	if err := recordEvents(u, to, command.EventNew); err != nil {
		return err
	}
	if err := u.Write(from, &command.WithoutEvents{Command: &command.Delete{Keys: []position{from}}}).Err; err != nil {
		return err
	}
	if err := recordEvents(u, from, command.EventRenameFrom); err != nil {
		return err
	}
	return recordEvents(u, to, command.EventRenameTo)
}

func runCopy(u KeyspaceView, r *Request, w *Writer) {
	replace := false
	for i := 3; i < len(r.Args); i++ {
		switch {
		case isKeyword(r.Args[i], "REPLACE"):
			replace = true
		case isKeyword(r.Args[i], "DB") && i+1 < len(r.Args):
			i++
			if u.IsSelected(r.Args[i]) {
				continue
			}
			w.Fail(CheckDatabase(r.Args[i]))
			return
		default:
			w.Fail(ErrSyntax)
			return
		}
	}
	from, to := u.PositionOf(r.Args[1]), u.PositionOf(r.Args[2])
	if string(from) == string(to) {
		w.Fail(Error("ERR source and destination objects are the same"))
		return
	}
	v, err := loadContents(u, from)
	if err == nil && v.kind != command.None && !replace {
		there := u.Read(to, &command.Exists{Keys: []position{to}})
		if err = there.Err; there.Int > 0 {
			v.kind = command.None
		}
	}
	if err == nil && v.kind != command.None {
		err = v.storeAt(u, to, command.EventCopyTo)
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

func runDump(u KeyspaceView, r *Request, w *Writer) {
	v, err := loadContents(u, u.PositionOf(r.Args[1]))
	switch {
	case err != nil:
		w.Fail(err)
	case v.kind == command.None:
		w.Null()
	default:
		w.Bulk(v.encodeDump())
	}
}

func runRestore(u KeyspaceView, r *Request, w *Writer) {
	replace, absolute, err := parseRestoreOptions(r.Args[4:])
	if err != nil {
		w.Fail(err)
		return
	}
	p := u.PositionOf(r.Args[1])
	there := u.Read(p, &command.Exists{Keys: []position{p}})
	if w.maybeFail(there) {
		return
	}
	if there.Int > 0 && !replace {
		w.Fail(Error("BUSYKEY Target key name already exists."))
		return
	}
	ttl, ok := parseInteger(r.Args[2])
	switch {
	case !ok:
		w.Fail(ErrNotInteger)
		return
	case ttl < 0:
		w.Fail(Error("ERR Invalid TTL value, must be >= 0"))
		return
	}
	v, err := decodeDump(r.Args[3])
	if err != nil {
		w.Fail(err)
		return
	}
	if ttl > 0 && !absolute {
		if ttl > math.MaxInt64-u.NowMS() {
			w.Fail(newExpireError("restore"))
			return
		}
		ttl += u.NowMS()
	}
	if v.expiryMS = ttl; ttl > 0 && ttl <= u.NowMS() { // it is over already
		if !w.maybeFail(u.Write(p, &command.Delete{Keys: []position{p}})) {
			w.OK()
		}
		return
	}
	if err := v.storeAt(u, p, command.EventRestore); err != nil {
		w.Fail(err)
		return
	}
	w.OK()
}

func parseRestoreOptions(words [][]byte) (replace, absolute bool, err error) {
	idle, frequency := false, false
	for i := 0; i < len(words); i++ {
		switch more := i+1 < len(words); {
		case isKeyword(words[i], "REPLACE"):
			replace = true
		case isKeyword(words[i], "ABSTTL"):
			absolute = true
		case isKeyword(words[i], "IDLETIME") && more && !frequency, isKeyword(words[i], "FREQ") && more && !idle:
			idle, frequency = isKeyword(words[i], "IDLETIME"), isKeyword(words[i], "FREQ")
			i++
			switch n, ok := parseInteger(words[i]); {
			case !ok:
				return false, false, ErrNotInteger
			case idle && n < 0:
				return false, false, Error("ERR Invalid IDLETIME value, must be >= 0")
			case frequency && (n < 0 || n > 255):
				return false, false, Error("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
		default:
			return false, false, ErrSyntax
		}
	}
	return replace, absolute, nil
}

// replyIfExists answers with a number if there is such a key.
func replyIfExists(n int64) func(KeyspaceView, *Request, *Writer) {
	return func(u KeyspaceView, r *Request, w *Writer) {
		p := u.PositionOf(r.Args[2])
		reply := u.Read(p, &command.Exists{Keys: []position{p}})
		switch {
		case w.maybeFail(reply):
		case reply.Int == 0:
			w.Null()
		default:
			w.Int(n)
		}
	}
}

func runObjectFreq(u KeyspaceView, r *Request, w *Writer) {
	p := u.PositionOf(r.Args[2])
	reply := u.Read(p, &command.Exists{Keys: []position{p}})
	if w.maybeFail(reply) {
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
	maxEmbeddedBytes  = 44
	maxListpackFields = 128
	maxListpackBytes  = 64
)

// runObjectEncoding answers with the name that Redis would give: clients look at it.
func runObjectEncoding(u KeyspaceView, r *Request, w *Writer) {
	p := u.PositionOf(r.Args[2])
	kind := u.Read(p, &command.Type{Key: p})
	switch {
	case w.maybeFail(kind):
	case command.Kind(kind.Int) == command.None:
		w.Null()
	case command.Kind(kind.Int) == command.Hash:
		writeHashEncoding(u, p, w)
	default:
		writeStringEncoding(u, p, w)
	}
}

// writeHashEncoding reads the fields only if they are few.
func writeHashEncoding(u KeyspaceView, p position, w *Writer) {
	size := u.Read(p, &command.HLen{Key: p})
	switch {
	case w.maybeFail(size):
	case size.Int > maxListpackFields:
		w.Text("hashtable")
	default:
		if all := u.Read(p, &command.HGetAll{Key: p}); !w.maybeFail(all) {
			w.Text(hashEncoding(all.Items))
		}
	}
}

// writeStringEncoding reads the value only if it is short.
func writeStringEncoding(u KeyspaceView, p position, w *Writer) {
	size := u.Read(p, &command.Strlen{Key: p})
	switch {
	case w.maybeFail(size):
	case size.Int > maxEmbeddedBytes:
		w.Text("raw")
	default:
		if text := u.Read(p, &command.Get{Key: p}); !w.maybeFail(text) {
			w.Text(stringEncoding(text.Bytes))
		}
	}
}

func hashEncoding(fields []command.Item) string {
	for _, f := range fields {
		if len(f.Field) > maxListpackBytes || len(f.Value) > maxListpackBytes {
			return "hashtable"
		}
	}
	return "listpack"
}

func stringEncoding(text []byte) string {
	if _, ok := parseInteger(text); ok {
		return "int"
	}
	if len(text) <= maxEmbeddedBytes {
		return "embstr"
	}
	return "raw"
}

// rowOverheadBytes is about what a row takes besides its key and value.
const rowOverheadBytes = 16

func runMemoryUsage(u KeyspaceView, r *Request, w *Writer) {
	for i := 3; i < len(r.Args); i += 2 {
		if !isKeyword(r.Args[i], "SAMPLES") || i+1 == len(r.Args) {
			w.Fail(ErrSyntax)
			return
		}
		n, ok := parseInteger(r.Args[i+1])
		if !ok {
			w.Fail(ErrNotInteger)
			return
		}
		if n < 0 {
			w.Fail(ErrSyntax)
			return
		}
	}
	v, err := loadContents(u, u.PositionOf(r.Args[2]))
	switch {
	case err != nil:
		w.Fail(err)
		return
	case v.kind == command.None:
		w.Null()
		return
	}
	key := len(r.Args[2])
	n := key + len(v.str) + rowOverheadBytes
	for _, f := range v.fields {
		n += key + len(f.Field) + len(f.Value) + rowOverheadBytes
	}
	w.Int(int64(n))
}
