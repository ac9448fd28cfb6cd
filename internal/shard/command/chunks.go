package command

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// A string that is changed in place is kept in chunks once it is long: a change then reads
// and logs the chunks that it is about, and not all of the value. Byte i of the value is byte
// i%ChunkBytes of chunk i/ChunkBytes. A chunk that is absent, or ends before that byte, has
// zeros there, so a gap costs nothing.
const (
	// ChunkBytes is the size of a chunk. It is on disks: another size needs another Kind.
	// An APPEND logs half of one on average. At half of it a value of 64 MiB would be more
	// than 16,000 rows; at double of it an APPEND logs twice as much.
	ChunkBytes = 8 << 10
	// maxPlainStringBytes is up to which length a value that is changed stays one row: it is read
	// in one lookup. So does a value that is set, however long it is.
	maxPlainStringBytes = 64 << 10
	// maxChunkedPositionBytes bounds the position of a key whose value is kept in chunks: each of
	// them repeats it.
	maxChunkedPositionBytes = ChunkBytes / 8
)

// stringLen is the length of a String, 0 if it is not alive.
func (r *Row) stringLen(alive bool) int {
	switch {
	case !alive:
		return 0
	case r.Kind == Chunked:
		return int(r.Length)
	}
	return len(r.Payload)
}

// readStringRange returns the bytes [from, to) of a String, which are there. That of one row is a
// view, good until the next lookup or write; that of chunks is good until the next Begin.
func (e *Env) readStringRange(p partition.Position, row *Row, from, to int64) ([]byte, error) {
	switch {
	case from == to:
		return []byte{}, nil
	case row.Kind == String:
		return row.Payload[from:to], nil
	}
	start := len(e.arena)
	e.arena = slices.Grow(e.arena, int(to-from)+plainHeadBytes+ChunkBytes) // and for a lookup behind it
	if err := appendChunks(&e.arena, p, row, int(from), int(to), e.lookupRow); err != nil {
		e.arena = e.arena[:start]
		return nil, err
	}
	e.loadedBytes = 0
	return e.arena[start:len(e.arena):len(e.arena)], nil
}

// readStringValue returns the value of a String. It is good until the next Begin.
func (e *Env) readStringValue(p partition.Position, row *Row) ([]byte, error) {
	if row.Kind == String {
		return e.retainBytes(row.Payload), nil
	}
	return e.readStringRange(p, row, 0, int64(row.Length))
}

// ReadStringValue returns the value of the String whose own row a reader has found at p. The reader
// must show chunks of the same moment.
func ReadStringValue(r Reader, p partition.Position, row *Row) ([]byte, error) {
	switch row.Kind {
	case String:
		return row.Payload, nil
	case Chunked:
	default:
		return nil, ErrWrongType
	}
	value, room := make([]byte, 0, row.Length), []byte(nil)
	err := appendChunks(&value, p, row, 0, int(row.Length), func(key []byte) (raw []byte, ok bool, err error) {
		raw, ok, err = r.Get(key, room[:0])
		if ok {
			room = raw
		}
		return raw, ok, err
	})
	return value, err
}

// appendChunks appends the bytes [from, to) of a Chunked to dst.
func appendChunks(dst *[]byte, p partition.Position, row *Row, from, to int, lookup func(key []byte) ([]byte, bool, error)) error {
	h := hashState{generation: row.Generation}
	var key []byte
	for from < to {
		i := from / ChunkBytes
		start := i * ChunkBytes
		end := min(to, start+ChunkBytes)
		key = appendChunkKey(key[:0], p, i)
		raw, ok, err := lookup(key)
		if err != nil {
			return err
		}
		var chunk []byte
		if ok {
			if chunk, ok, err = h.decodeElement(raw); err != nil {
				return err
			}
		}
		if ok && len(chunk) > from-start {
			have := chunk[from-start : min(len(chunk), end-start)]
			*dst = append(*dst, have...)
			from += len(have)
		}
		*dst = append(*dst, zeroChunk[:end-from]...)
		from = end
	}
	return nil
}

var zeroChunk [ChunkBytes]byte

// appendChunkKey appends the store key of a chunk.
func appendChunkKey(dst []byte, p partition.Position, i int) []byte {
	return binary.BigEndian.AppendUint32(append(effect.Rows.AppendKey(dst, p), chunkTag), uint32(i))
}

// writeStringRange overwrites part of a String, which is padded with zeros if it is shorter, and keeps
// its expiry. The reply is the length after it.
func (e *Env) writeStringRange(p partition.Position, row *Row, alive bool, offset int, part []byte) Reply {
	had := row.stringLen(alive)
	n := max(had, offset+len(part))
	if err := checkValueBytes(n); err != nil {
		return failedReply(err)
	}
	if !(alive && row.Kind == Chunked) && (n <= maxPlainStringBytes || len(p) > maxChunkedPositionBytes) {
		e.valueBuf = e.valueBuf[:0]
		if alive {
			e.valueBuf = append(e.valueBuf, row.Payload...)
		}
		e.valueBuf = append(e.valueBuf, make([]byte, n-had)...)
		copy(e.valueBuf[offset:], part)
		return intReply(int64(n), e.setStringValue(p, row, alive, e.valueBuf))
	}
	next := Row{Kind: Chunked, Length: uint64(n)}
	if alive {
		next.Generation, next.ExpiryMS = row.Generation, row.ExpiryMS
	}
	if !alive || row.Kind != Chunked {
		next.Generation = e.nextVersion // the version that replace will give out
		if alive {
			// Whole chunks are written without a lookup, and no write of a batch moves what
			// was read: the view stays good.
			if err := e.writeChunks(p, next.Generation, 0, row.Payload, 0); err != nil {
				return failedReply(err)
			}
		}
	}
	if err := e.writeChunks(p, next.Generation, offset, part, had); err != nil {
		return failedReply(err)
	}
	return intReply(int64(n), e.replaceRow(p, row, next))
}

// writeChunks overwrites part of a string of a generation that has had bytes.
func (e *Env) writeChunks(p partition.Position, generation uint64, offset int, part []byte, had int) error {
	h := hashState{generation: generation}
	var room [maxHeadBytes]byte
	head := (&Row{Kind: Element, Version: generation}).appendHead(room[:0])
	for len(part) > 0 {
		i := offset / ChunkBytes
		start := i * ChunkBytes
		at := offset - start // within the chunk
		body := part[:min(len(part), ChunkBytes-at)]
		offset, part = offset+len(body), part[len(body):]
		e.keyBuf = appendChunkKey(e.keyBuf[:0], p, i)
		if at > 0 || offset < min(had, start+ChunkBytes) { // some of the chunk stays
			raw, ok, err := e.lookupRow(e.keyBuf)
			if err != nil {
				return err
			}
			var chunk []byte
			if ok {
				if chunk, ok, err = h.decodeElement(raw); err != nil {
					return err
				}
			}
			e.valueBuf = e.valueBuf[:0]
			if ok {
				e.valueBuf = append(e.valueBuf, chunk...)
			}
			if more := at + len(body) - len(e.valueBuf); more > 0 {
				e.valueBuf = append(e.valueBuf, zeroChunk[:more]...)
			}
			copy(e.valueBuf[at:], body)
			body = e.valueBuf
		}
		e.putRow(e.keyBuf, head, body)
	}
	return nil
}

// StringAssembler puts strings in chunks together from the rows of a scan, which passes their own rows
// before their chunks, or behind them if it goes in reverse. The zero value is ready.
type StringAssembler struct {
	position    []byte // the position of the own row
	generation  uint64
	value       []byte
	earlyChunks []earlyChunk // of owner, if its own row is still to come
}

type earlyChunk struct {
	offset     int // the offset of its first byte
	generation uint64
	bytes      []byte
}

// AddOwnRow begins with the own row of a Chunked. The chunks that the scan passes behind it are
// written into the value that it returns.
func (g *StringAssembler) AddOwnRow(p partition.Position, row *Row) (value []byte) {
	early := g.earlyChunks
	if !bytes.Equal(g.position, p) {
		early = nil
	}
	g.position, g.generation, g.earlyChunks = append(g.position[:0], p...), row.Generation, nil
	g.value = make([]byte, row.Length)
	for i := range early {
		g.copyChunk(&early[i])
	}
	return g.value
}

// AddElement takes an element. One that is no chunk of the string at hand is kept as long as the
// own row may follow.
func (g *StringAssembler) AddElement(p partition.Position, row *Row, reverse bool) {
	n := len(p) - chunkSuffixBytes
	if n < 2 || p[n] != chunkTag || p[n-1] != 0x01 || p[n-2] != 0x00 {
		return // the field of a hash
	}
	c := earlyChunk{int(binary.BigEndian.Uint32(p[n+1:])) * ChunkBytes, row.Version, row.Payload}
	if !reverse {
		if bytes.Equal(g.position, p[:n]) {
			g.copyChunk(&c)
		}
		return
	}
	if !bytes.Equal(g.position, p[:n]) {
		g.position, g.value, g.earlyChunks = append(g.position[:0], p[:n]...), nil, nil
	}
	c.bytes = bytes.Clone(c.bytes)
	g.earlyChunks = append(g.earlyChunks, c)
}

func (g *StringAssembler) copyChunk(c *earlyChunk) {
	if c.generation == g.generation && c.offset < len(g.value) {
		copy(g.value[c.offset:], c.bytes)
	}
}

// chunkSuffixBytes is how much longer the position of a chunk is than that of its string.
const chunkSuffixBytes = 1 + 4
