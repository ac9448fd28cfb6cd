package cleave

import (
	"crypto/rand"
	"time"

	"github.com/cleavekv/cleave/internal/group"
)

// RequestID names a request, so that a retry of it has no second effect: it
// gets the answer of the first. An id is remembered for Options.Remember from
// the time that is in it, together with the key: another request on the same key
// under the same id is taken for a retry and gets the answer of the first. The zero
// value is no id.
type RequestID [16]byte

// NewRequestID returns a new id, made now by the clock of Options.Now, or by that of the
// store while it is ahead: it does not go back. Make one
// for each request, and use it again for retries of that request alone: also
// after a restart, if it was kept.
func (db *DB) NewRequestID() RequestID {
	var id RequestID
	_, _ = rand.Read(id[6:]) // never fails
	ms := uint64(db.node.NowMS())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

// Time is when an id was made, to the millisecond.
func (id RequestID) Time() time.Time { return time.UnixMilli(group.RequestID(id).TimeMS()) }
