package cleave

import (
	"crypto/rand"
	"time"
)

// RequestID names a request, so that a retry of it has no second effect: it
// gets the answer of the first. An id is remembered for Options.Remember from
// the time that is in it. The zero value is no id.
type RequestID [16]byte

// NewRequestID returns a new id, made now.
func NewRequestID() RequestID {
	var id RequestID
	_, _ = rand.Read(id[6:]) // never fails
	ms := uint64(time.Now().UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
