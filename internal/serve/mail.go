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

// maxMail is how many bytes of messages may wait for a client. Who does not read is
// closed, as it would be by Redis.
const maxMail = 32 << 20

// post leaves a message for a client. It is sent behind all answers to requests that were
// executed before.
func (c *client) post(message func(dst []byte) []byte) {
	c.mail.mu.Lock()
	c.mail.bytes = message(c.mail.bytes)
	full, first := len(c.mail.bytes) > maxMail, !c.mail.told
	c.mail.told = true
	c.mail.mu.Unlock()
	switch {
	case full:
		c.conn.kill()
	case first:
		c.conn.posted()
	}
}

// collect moves messages to the answers. It is for the client's owner, when no answer is
// being written.
func (c *client) collect() {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	if c.mail.told = false; len(c.mail.bytes) == 0 {
		return
	}
	c.out.Bytes = append(c.out.Bytes, c.mail.bytes...)
	if c.mail.bytes = c.mail.bytes[:0]; cap(c.mail.bytes) > keepOut {
		c.mail.bytes = nil
	}
	c.conn.dirty()
}
