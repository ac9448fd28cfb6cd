package redis

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() {
	spec := func(name, since, summary, cost string, arity int, flags Flag) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: flags, ACL: BitmapType, Keys: KeySpec{1, 1, 1}, Doc: Doc{"bitmap", since, summary, cost, ""}}
	}
	with := func(s *Spec, build func(*Builder) (command.Command, error)) *Spec {
		s.build = build
		return s
	}
	const linear = "O(N) with N the length of the value"
	bitop := &Spec{Name: "bitop", Arity: -4, Flags: Write | DenyOOM, ACL: BitmapType, Keys: KeySpec{2, -1, 1}, run: runBitOp,
		Doc: Doc{"bitmap", "2.6.0", "Combines the bits of values and stores the result.", linear, ""}}
	count := spec("bitcount", "2.6.0", "Returns how many bits of a value are set.", linear, -2, ReadOnly)
	count.run = runBitCount
	pos := spec("bitpos", "2.8.7", "Returns where in a value the first bit is that is set, or not.", linear, -3, ReadOnly)
	pos.run = runBitPos
	field := with(spec("bitfield", "3.2.0", "Reads and changes integers of any width within a value.", "O(N) for N operations", -2, Write|DenyOOM), buildBitField)
	readField := with(spec("bitfield_ro", "6.0.0", "Reads integers of any width within a value.", "O(N) for N operations", -2, ReadOnly|Fast), buildBitFieldRO)
	field.writeResult, readField.writeResult = writeBitField, writeBitField
	register(
		with(spec("setbit", "2.2.0", "Sets a bit of a value, and returns the one before.", "O(1), or O(N) with N the length of a value up to 64 KiB", 4, Write|DenyOOM), buildSetBit),
		with(spec("getbit", "2.2.0", "Returns a bit of a value.", "O(1)", 3, ReadOnly|Fast), buildGetBit),
		count, pos,
		field, readField, bitop,
	)
}

const (
	errBitOffset Error = "ERR bit offset is not an integer or out of range"
	errBit       Error = "ERR bit is not an integer or out of range"
)

// parseBitOffset reads the place of a bit.
func parseBitOffset(word []byte) (int64, error) {
	n, ok := parseInteger(word)
	if !ok || n < 0 || n > command.MaxBitOffset {
		return 0, errBitOffset
	}
	return n, nil
}

// parseBit reads 0 or 1.
func parseBit(word []byte) (on bool, ok bool) {
	n, ok := parseInteger(word)
	return n == 1, ok && n >= 0 && n <= 1
}

func buildSetBit(b *Builder) (command.Command, error) {
	offset, err := parseBitOffset(b.Args[2])
	if err != nil {
		return nil, err
	}
	on, ok := parseBit(b.Args[3])
	if !ok {
		return nil, errBit
	}
	return &command.SetBit{Key: b.Key, Offset: offset, On: on}, nil
}

func buildGetBit(b *Builder) (command.Command, error) {
	offset, err := parseBitOffset(b.Args[2])
	return &command.GetBit{Key: b.Key, Offset: offset}, err
}

// parseValueRange reads the part of a value that a request names: nothing, or where it begins
// and ends, and in what it counts. open is for BITPOS, which may leave the end out, and
// looks at it last.
func parseValueRange(words [][]byte, open bool) (s command.ValueRange, err error) {
	s.End = -1
	if len(words) == 0 {
		return s, nil
	}
	if len(words) > 3 || len(words) == 1 && !open {
		return s, ErrSyntax
	}
	start, startOK := parseInteger(words[0])
	end, endOK := int64(-1), true
	if len(words) > 1 {
		end, endOK = parseInteger(words[1])
	}
	unitOK := len(words) < 3 || isKeyword(words[2], "BIT") || isKeyword(words[2], "BYTE")
	switch {
	case !startOK || !endOK && !open:
		return s, ErrNotInteger
	case !open && start < 0 && end < 0 && start > end:
		return command.ValueRange{Start: start, End: end}, nil // nothing, whatever it is counted in
	case !unitOK:
		return s, ErrSyntax
	case !endOK:
		return s, ErrNotInteger
	}
	return command.ValueRange{Start: start, End: end, InBits: len(words) == 3 && isKeyword(words[2], "BIT")}, nil
}

// runBitCount looks at the key before it looks at the other arguments, as Redis does.
func runBitCount(u KeyspaceView, r *Request, w *Writer) {
	key := u.PositionOf(r.Args[1])
	found := u.Read(key, &command.Strlen{Key: key})
	if found.Err != nil || found.Version == 0 {
		writePlainReply(w, r, found)
		return
	}
	part, err := parseValueRange(r.Args[2:], false)
	if err != nil {
		w.Fail(err)
		return
	}
	writePlainReply(w, r, u.Read(key, &command.BitCount{Key: key, Range: part}))
}

func runBitPos(u KeyspaceView, r *Request, w *Writer) {
	on, ok := parseBit(r.Args[2])
	if !ok {
		if _, number := parseInteger(r.Args[2]); !number {
			w.Fail(ErrNotInteger)
		} else {
			w.Fail(Error("ERR The bit argument must be 1 or 0."))
		}
		return
	}
	c := &command.BitPos{Key: u.PositionOf(r.Args[1]), On: on, HasEnd: len(r.Args) > 4}
	if found := u.Read(c.Key, &command.Strlen{Key: c.Key}); found.Err == nil && found.Version != 0 {
		part, err := parseValueRange(r.Args[3:], true)
		if err != nil {
			w.Fail(err)
			return
		}
		c.Range = part
	}
	writePlainReply(w, r, u.Read(c.Key, c))
}

func runBitOp(u KeyspaceView, r *Request, w *Writer) {
	var combine func(a, b byte) byte
	switch op := r.Args[1]; {
	case isKeyword(op, "AND"):
		combine = func(a, b byte) byte { return a & b }
	case isKeyword(op, "OR"):
		combine = func(a, b byte) byte { return a | b }
	case isKeyword(op, "XOR"):
		combine = func(a, b byte) byte { return a ^ b }
	case isKeyword(op, "NOT"):
		if len(r.Args) != 4 {
			w.Fail(Error("ERR BITOP NOT must be called with a single source key."))
			return
		}
	default:
		w.Fail(ErrSyntax)
		return
	}
	var result []byte
	for i, key := range r.Args[3:] {
		at := u.PositionOf(key)
		reply := u.Read(at, &command.Get{Key: at})
		if w.maybeFail(reply) {
			return
		}
		if i == 0 {
			result = append(result, reply.Bytes...)
			continue
		}
		result = combineBytes(result, reply.Bytes, combine)
	}
	if combine == nil {
		for i := range result {
			result[i] = ^result[i]
		}
	}
	to := u.PositionOf(r.Args[2])
	var change command.Command = &command.Set{Key: to, Value: result}
	if len(result) == 0 {
		change = &command.Delete{Keys: []position{to}}
	}
	if !w.maybeFail(u.Write(to, change)) {
		w.Int(int64(len(result)))
	}
}

// combineBytes combines two values byte by byte; the shorter one ends in zeros.
func combineBytes(a, b []byte, combine func(a, b byte) byte) []byte {
	if n := len(b) - len(a); n > 0 {
		a = append(a, make([]byte, n)...)
	}
	for i := range a {
		other := byte(0)
		if i < len(b) {
			other = b[i]
		}
		a[i] = combine(a[i], other)
	}
	return a
}

func buildBitFieldRO(b *Builder) (command.Command, error) {
	c, err := buildBitField(b)
	if err == nil && c.(*command.BitField).IsWrite() {
		err = Error("ERR BITFIELD_RO only supports the GET subcommand")
	}
	return c, err
}

func buildBitField(b *Builder) (command.Command, error) {
	c := &command.BitField{Key: b.Key}
	overflow := command.BitWrap
	for args := b.Args[2:]; len(args) > 0; {
		part := command.BitFieldOp{Overflow: overflow}
		words := 3
		switch op := args[0]; {
		case isKeyword(op, "OVERFLOW") && len(args) >= 2:
			var err error
			if overflow, err = parseOverflow(args[1]); err != nil {
				return nil, err
			}
			args = args[2:]
			continue
		case isKeyword(op, "GET") && len(args) >= 3:
			part.Kind = command.BitGet
		case isKeyword(op, "SET") && len(args) >= 4:
			part.Kind, words = command.BitSet, 4
		case isKeyword(op, "INCRBY") && len(args) >= 4:
			part.Kind, words = command.BitAdd, 4
		default:
			return nil, ErrSyntax
		}
		if err := parseBitFieldOp(&part, args[1:words]); err != nil {
			return nil, err
		}
		c.Ops, args = append(c.Ops, part), args[words:]
	}
	return c, nil
}

func parseOverflow(word []byte) (command.BitOverflow, error) {
	switch {
	case isKeyword(word, "WRAP"):
		return command.BitWrap, nil
	case isKeyword(word, "SAT"):
		return command.BitSaturate, nil
	case isKeyword(word, "FAIL"):
		return command.BitFail, nil
	}
	return 0, Error("ERR Invalid OVERFLOW type specified")
}

// parseBitFieldOp reads the type, the place and the number of an operation.
func parseBitFieldOp(p *command.BitFieldOp, words [][]byte) error {
	const errType Error = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
	kind := words[0]
	if len(kind) < 2 || kind[0] != 'i' && kind[0] != 'u' {
		return errType
	}
	p.Signed = kind[0] == 'i'
	width, err := strconv.Atoi(string(kind[1:]))
	if err != nil || width < 1 || width > 64 || width == 64 && !p.Signed {
		return errType
	}
	p.Width = width
	place, times := words[1], int64(1)
	if len(place) > 0 && place[0] == '#' {
		place, times = place[1:], int64(width)
	}
	n, ok := parseInteger(place)
	if !ok || n < 0 || n > command.MaxBitOffset/times || n*times > command.MaxBitOffset-int64(width)+1 {
		return errBitOffset
	}
	p.Offset = n * times
	if len(words) == 3 {
		if p.Value, ok = parseInteger(words[2]); !ok {
			return ErrNotInteger
		}
	}
	return nil
}

func writeBitField(w *Writer, _ *Request, c command.Command) {
	results := c.(*command.BitField).Results
	w.Array(len(results))
	for _, r := range results {
		if r.Absent {
			w.Null()
		} else {
			w.Int(r.Value)
		}
	}
}
