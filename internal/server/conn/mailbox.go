package conn

import "sync"

// mailbox is where other goroutines leave messages for a client, until the owner of the
// connection takes them.
type mailbox struct {
	mu    sync.Mutex
	bytes []byte
	// notified reports whether the transport knows that there is something.
	notified bool
}

// discardAll forgets what waits. The lock is held.
func (m *mailbox) discardAll(s *Set) {
	s.UsedBytes.Add(-int64(len(m.bytes)))
	if m.bytes = m.bytes[:0]; cap(m.bytes) > MaxRetainedBytes {
		m.bytes = nil
	}
}

// Post implements pubsub.Subscriber: it leaves a message for the client. It is sent behind all answers to requests that were
// executed before.
func (c *Conn) Post(message func(dst []byte) []byte) {
	c.mailbox.mu.Lock()
	before := len(c.mailbox.bytes)
	c.mailbox.bytes = message(c.mailbox.bytes)
	c.set.UsedBytes.Add(int64(len(c.mailbox.bytes) - before))
	first, full := !c.mailbox.notified, c.set.exceedsOutputLimit(int64(len(c.mailbox.bytes))+c.Status.UnsentBytes.Load())
	if c.mailbox.notified = true; full {
		c.mailbox.discardAll(c.set)
	}
	c.mailbox.mu.Unlock()
	switch {
	case full:
		c.CloseForLimit("more messages than client-output-buffer-limit wait for it")
	case first:
		c.transport.NotifyMail()
	}
}

// CollectMail moves messages to the answers. It is for the client's owner, when no answer is
// being written, or none has been begun: see collectMailFirst.
func (c *Conn) CollectMail() {
	c.mailbox.mu.Lock()
	defer c.mailbox.mu.Unlock()
	if c.mailbox.notified = false; len(c.mailbox.bytes) == 0 {
		return
	}
	c.Out.Bytes = append(c.Out.Bytes, c.mailbox.bytes...)
	c.mailbox.discardAll(c.set)
	c.transport.NotifyOutput()
}

// CloseMailbox throws away what waits for the connection. It is for the owner.
func (c *Conn) CloseMailbox() {
	c.mailbox.mu.Lock() // from now on nothing is left there
	c.mailbox.discardAll(c.set)
	c.mailbox.mu.Unlock()
}
