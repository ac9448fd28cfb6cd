package lanes

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrRow means that a row of a queue holds something else.
var ErrRow = errors.New("lanes: damaged row")

// Tail is the end of a bucket.
type Tail struct {
	// Next is the number of the next message.
	Next uint64
	// TimeMS is the time of the last, which never falls, and Bytes how many bytes
	// were ever put there.
	TimeMS int64
	Bytes  uint64
	// Closed means that it takes no more.
	Closed bool
}

// Lease is who has a message, and until when; or until when nobody gets it.
type Lease struct {
	// Deliveries is how often it was handed out.
	Deliveries uint64
	UntilMS    int64
	// Token names the one who has it. 0 is nobody.
	Token uint64
}

// Held tells whether the message is not to be handed out at a time.
func (l Lease) Held(nowMS int64) bool { return l.UntilMS > nowMS }

// Head is what stands before the body of a message: when it was put there, and how
// many bytes were before it.
type Head struct {
	TimeMS int64
	Bytes  uint64
}

// Append appends the value of the row.
func (t Tail) Append(b []byte) []byte {
	closed := uint64(0)
	if t.Closed {
		closed = 1
	}
	return numbers(b, t.Next, uint64(t.TimeMS), t.Bytes, closed)
}

// Append appends the value of the row.
func (l Lease) Append(b []byte) []byte {
	return numbers(b, l.Deliveries, uint64(l.UntilMS), l.Token)
}

// Append appends the head.
func (h Head) Append(b []byte) []byte { return numbers(b, uint64(h.TimeMS), h.Bytes) }

func numbers(b []byte, list ...uint64) []byte {
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// take takes numbers off the front.
func take(b []byte, list ...*uint64) ([]byte, bool) {
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
	rest, ok := take(b, &t.Next, &ms, &t.Bytes, &closed)
	if !ok || len(rest) > 0 || closed > 1 {
		return Tail{}, fmt.Errorf("%w: the tail %.40q", ErrRow, b)
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
	rest, ok := take(b, &l.Deliveries, &ms, &l.Token)
	if !ok || len(rest) > 0 {
		return Lease{}, fmt.Errorf("%w: the lease %.40q", ErrRow, b)
	}
	l.UntilMS = int64(ms)
	return l, nil
}

// ParseHead reads a head, and returns what is behind it.
func ParseHead(b []byte) (h Head, body []byte, err error) {
	var ms uint64
	body, ok := take(b, &ms, &h.Bytes)
	if !ok {
		return Head{}, nil, fmt.Errorf("%w: the message %.40q", ErrRow, b)
	}
	h.TimeMS = int64(ms)
	return h, body, nil
}
