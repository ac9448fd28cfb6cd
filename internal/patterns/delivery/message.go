package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBadRow means that a row of a queue holds something else.
var ErrBadRow = errors.New("delivery: damaged row")

// Tail is the end of a bucket.
type Tail struct {
	// NextSeq is the number of the next message.
	NextSeq uint64
	// TimeMS is the time of the last, which never falls, and Bytes how many bytes
	// were ever put there.
	TimeMS     int64
	TotalBytes uint64
	// Closed means that it takes no more.
	Closed bool
}

// Lease is the holder of a message and the end of its lease; or the time until which no consumer gets it.
type Lease struct {
	// Deliveries is how often it was handed out.
	Deliveries uint64
	UntilMS    int64
	// Token names the holder. 0 means that there is none.
	Token uint64
}

// IsHidden reports whether the message is not to be handed out at a time.
func (l Lease) IsHidden(nowMS int64) bool { return l.UntilMS > nowMS }

// Header is what stands before the body of a message: when it was put there, and how
// many bytes were before it.
type Header struct {
	TimeMS      int64
	BytesBefore uint64
}

// Append appends the value of the row.
func (t Tail) Append(b []byte) []byte {
	closed := uint64(0)
	if t.Closed {
		closed = 1
	}
	return appendUvarints(b, t.NextSeq, uint64(t.TimeMS), t.TotalBytes, closed)
}

// Append appends the value of the row.
func (l Lease) Append(b []byte) []byte {
	return appendUvarints(b, l.Deliveries, uint64(l.UntilMS), l.Token)
}

// Append appends the head.
func (h Header) Append(b []byte) []byte { return appendUvarints(b, uint64(h.TimeMS), h.BytesBefore) }

func appendUvarints(b []byte, list ...uint64) []byte {
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// parseUvarints takes numbers off the front.
func parseUvarints(b []byte, list ...*uint64) ([]byte, bool) {
	for _, n := range list {
		var size int
		if *n, size = binary.Uvarint(b); size <= 0 || size > 1 && b[size-1] == 0 {
			return nil, false // cut off, too large, or longer than it need be
		}
		b = b[size:]
	}
	return b, true
}

// ParseTail reads what Append made.
func ParseTail(b []byte) (t Tail, err error) {
	var ms, closed uint64
	rest, ok := parseUvarints(b, &t.NextSeq, &ms, &t.TotalBytes, &closed)
	if !ok || len(rest) > 0 || closed > 1 {
		return Tail{}, fmt.Errorf("%w: the tail %.40q", ErrBadRow, b)
	}
	t.TimeMS, t.Closed = int64(ms), closed == 1
	return t, nil
}

// ParseLease reads what Append made; nil stands for none.
func ParseLease(b []byte) (l Lease, err error) {
	if b == nil {
		return Lease{}, nil
	}
	var ms uint64
	rest, ok := parseUvarints(b, &l.Deliveries, &ms, &l.Token)
	if !ok || len(rest) > 0 {
		return Lease{}, fmt.Errorf("%w: the lease %.40q", ErrBadRow, b)
	}
	l.UntilMS = int64(ms)
	return l, nil
}

// ParseHeader reads a head, and returns what is behind it.
func ParseHeader(b []byte) (h Header, body []byte, err error) {
	var ms uint64
	body, ok := parseUvarints(b, &ms, &h.BytesBefore)
	if !ok {
		return Header{}, nil, fmt.Errorf("%w: the message %.40q", ErrBadRow, b)
	}
	h.TimeMS = int64(ms)
	return h, body, nil
}

// MessageRef is a message that waits in a bucket.
type MessageRef struct {
	Seq uint64
	// Key is empty if it may come in any order.
	Key string
}

// Selector picks the messages of a bucket that may be handed out. It is shown all that
// wait there, from the oldest on, and a message that is not among them must never
// come back: the oldest of each key is then the one that is next.
type Selector struct {
	NowMS int64
	Limit int
	// Selected are those that may be handed out, unless they have changed since.
	Selected []MessageRef
	// WakeMS is when the next one of those that are held comes free; 0 for never.
	WakeMS    int64
	olderKeys map[string]bool // keys of older messages
}

// Offer shows the next message with its lease, and reports whether to go on.
func (c *Selector) Offer(r MessageRef, l Lease) bool {
	if r.Key != "" {
		if c.olderKeys[r.Key] {
			return true
		}
		if c.olderKeys == nil {
			c.olderKeys = map[string]bool{}
		}
		c.olderKeys[r.Key] = true
	}
	if l.IsHidden(c.NowMS) {
		if c.WakeMS == 0 || l.UntilMS < c.WakeMS {
			c.WakeMS = l.UntilMS
		}
		return true
	}
	c.Selected = append(c.Selected, r)
	return len(c.Selected) < c.Limit
}

// Deliver is what becomes of a message when it is handed out: its lease, or dead if it
// was handed out too often.
func (l Lease) Deliver(nowMS, forMS int64, token, most uint64) (next Lease, dead bool) {
	if l.Deliveries >= most {
		return Lease{}, true
	}
	return Lease{Deliveries: l.Deliveries + 1, UntilMS: nowMS + forMS, Token: token}, false
}

// IsOwnedBy reports whether the holder of a token still has the message. A lease that has run out
// still counts, as long as no other consumer was given the message.
func (l Lease) IsOwnedBy(token uint64) bool {
	return l.Token == token && token != 0
}
