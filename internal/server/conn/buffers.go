package conn

// appendInput adds what has arrived to what is not taken. A large request gets as much memory as it
// says that it needs, but no more than twice what has arrived of it: growing by less each time
// would copy it over and over, and leave several times its size as garbage.
func (c *Conn) appendInput(data []byte) {
	if have := len(c.In) + len(data); have > cap(c.In) && have >= minAccountedBytes {
		more := make([]byte, len(c.In), have+min(max(c.Parser.MissingBytes(have), minAccountedBytes), have))
		copy(more, c.In)
		c.In = more
	}
	c.In = append(c.In, data...)
}

// AccountMemory counts the buffers of a client, and what it has left to do. If all clients together take more than they may,
// one that takes more than its share is closed. It is for the client's owner.
func (c *Conn) AccountMemory() {
	if c.Busy && c.HandedOff {
		return // it is another's
	}
	n := int64(cap(c.In) + cap(c.Out.Bytes) + c.outSent)
	n += int64(c.session.MemoryBytes())
	if c.Status.MemoryBytes.Load() != n {
		c.Status.MemoryBytes.Store(n)
	}
	if n < minAccountedBytes {
		n = 0
	}
	grown := n - c.accountedBytes
	if grown == 0 {
		return
	}
	c.accountedBytes = n
	used, most := c.set.UsedBytes.Add(grown), c.set.MaxBytes.Load()
	if grown > 0 && most > 0 && used > most && n > most/int64(max(1, c.set.Len())) {
		c.CloseForLimit("the buffers of all clients are above maxmemory-clients, and it takes more than its share")
	}
}

// keepUnsent makes what was not sent, the end of the answers, all that is left of them, and returns how many
// bytes it has moved. Many bytes stay where they are: a client that reads slowly takes them in small parts, and to
// move the others each time would cost the square of their size.
func (c *Conn) keepUnsent(out []byte) (moved int) {
	if cap(c.Out.Bytes) > c.outCap {
		c.outSent = 0 // it has grown into other memory
	}
	switch n := len(c.Out.Bytes) - len(out); {
	case len(out) > MaxRetainedBytes:
		c.Out.Bytes, c.outSent = out, c.outSent+n
	case c.outSent > 0 || len(out) == 0 && cap(c.Out.Bytes) > MaxRetainedBytes:
		c.Out.Bytes, c.outSent, moved = append([]byte(nil), out...), 0, len(out) // the rest of the memory goes
	default:
		c.Out.Bytes, moved = append(c.Out.Bytes[:0], out...), len(out)
	}
	c.outCap = cap(c.Out.Bytes)
	return moved
}

// keepRest makes what take has left, the end of c.in, all that c.in holds, and returns how many bytes
// it has moved. A part of a request stays where it is: it comes in many small reads, and to move it
// at each of them would cost the square of its size.
func (c *Conn) keepRest(rest []byte) (moved int) {
	if len(rest) == len(c.In) {
		return 0
	}
	if c.In = append(c.In[:0], rest...); len(rest) == 0 && cap(c.In) > MaxRetainedBytes {
		c.In = nil
	}
	return len(rest)
}

// ReleaseMemory counts the buffers of a connection that has ended no more. It is for the owner.
func (c *Conn) ReleaseMemory() {
	c.set.UsedBytes.Add(-c.accountedBytes)
	c.accountedBytes = 0
}
