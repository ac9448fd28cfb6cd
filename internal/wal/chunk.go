package wal

import (
	"sync/atomic"
	"unsafe"
)

// Chunk is the image of one segment in memory. Payloads that the log hands out are
// views into it, valid as long as somebody holds a reference.
type Chunk struct {
	log  *Log
	seg  *segment
	mem  []byte // page-aligned, as long as the segment
	refs atomic.Int32
	end  Position // end of the last frame; settled when Seal is called
}

// Retain takes another reference.
func (c *Chunk) Retain() { c.refs.Add(1) }

// Release gives a reference back. With the last one the memory is reused, which may
// let a waiting Append go on.
func (c *Chunk) Release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.log.putChunk(c)
	case n < 0:
		panic("wal: chunk released more often than retained")
	}
}

// End returns the end of the chunk's last frame. It may be called once Seal was:
// before, the frame moves on.
func (c *Chunk) End() Position { return c.end }

// SegmentBytes is how large its segment is, however little is in it.
func (c *Chunk) SegmentBytes() int { return len(c.mem) }

// takeChunk returns memory for a segment, or nil while all chunks are in use. l.mu
// is held.
func (l *Log) takeChunk(s *segment) *Chunk {
	if l.chunks >= l.o.Chunks {
		return nil
	}
	l.chunks++
	c := &Chunk{log: l, seg: s}
	c.refs.Store(1)
	if n := len(l.pool); n > 0 && s.bytes <= l.o.SegmentBytes {
		c.mem, l.pool = l.pool[n-1][:s.bytes], l.pool[:n-1]
		return c
	}
	c.mem = alignedMemory(max(s.bytes, l.o.SegmentBytes))[:s.bytes]
	return c
}

// putChunk takes the memory back. That of an oversized segment goes to the garbage
// collector.
func (l *Log) putChunk(c *Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks--
	if cap(c.mem) == l.o.SegmentBytes {
		l.pool = append(l.pool, c.mem)
	}
	l.room.Broadcast()
}

// alignedMemory returns n bytes at a page boundary, as direct I/O wants them.
func alignedMemory(n int) []byte {
	b := make([]byte, n+blockBytes)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (blockBytes - 1)
	return b[skip : skip+n : skip+n]
}
