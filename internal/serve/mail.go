package serve

import "sync"

// mailbox is where other goroutines leave messages for a client, until whoever owns it
// takes them.
type mailbox struct {
	mu    sync.Mutex
	bytes []byte
	// told tells that the transport knows that there is something.
	told bool
}

// empty forgets what waits. The lock is held.
func (m *mailbox) empty(s *Server) {
	s.buffers.used.Add(-int64(len(m.bytes)))
	if m.bytes = m.bytes[:0]; cap(m.bytes) > keepOut {
		m.bytes = nil
	}
}

// tooMuch tells whether so many bytes are too many to wait for one who listens.
func (s *Server) tooMuch(n int64) bool {
	hard, most := s.buffers.limits.Load().pubsub.hard, s.buffers.most.Load()
	return hard > 0 && n > hard || most > 0 && s.buffers.used.Load() > most && n > most/int64(max(1, s.clients.len()))
}

// post leaves a message for a client. It is sent behind all answers to requests that were
// executed before.
func (c *client) post(message func(dst []byte) []byte) {
	c.mail.mu.Lock()
	before := len(c.mail.bytes)
	c.mail.bytes = message(c.mail.bytes)
	c.s.buffers.used.Add(int64(len(c.mail.bytes) - before))
	first, full := !c.mail.told, c.s.tooMuch(int64(len(c.mail.bytes))+c.seen.waiting.Load())
	if c.mail.told = true; full {
		c.mail.empty(c.s)
	}
	c.mail.mu.Unlock()
	switch {
	case full:
		c.refuse("more messages than client-output-buffer-limit wait for it")
	case first:
		c.conn.posted()
	}
}

// collect moves messages to the answers. It is for the client's owner, when no answer is
// being written, or none has been begun: see messagesFirst.
func (c *client) collect() {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	if c.mail.told = false; len(c.mail.bytes) == 0 {
		return
	}
	c.out.Bytes = append(c.out.Bytes, c.mail.bytes...)
	c.mail.empty(c.s)
	c.conn.dirty()
}
