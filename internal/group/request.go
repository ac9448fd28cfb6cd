package group

import (
	"encoding/binary"
	"sync"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// RequestID names a request, so that a retry of it is not executed again. Its
// first six bytes are the Unix time in milliseconds at which it was made, high
// byte first; the rest is random. The zero value is no id.
type RequestID [16]byte

// TimeMS is when the id was made.
func (id RequestID) TimeMS() int64 {
	return int64(binary.BigEndian.Uint64(id[:8]) >> 16)
}

// Request is a command and what the group has to know about it.
type Request struct {
	Command command.Command
	// Key is the position of its first key.
	Key partition.Position
	// ID is optional.
	ID RequestID
	// Gate is optional: it is asked when the turn of the request has come, and
	// if it is closed then the request fails with its error.
	Gate Gate
	// Turn is the id by which that is held which it writes, if it had to ask for it: see
	// [Options].
	Turn txn.ID
	// Hasty tells that it is not executed if that takes a disk, or if those before it in its
	// batch have had large answers: the errors are ErrCold and ErrBehind.
	Hasty bool
}

// Gate is a condition outside of the state. Whoever closes it and then has a
// request of his own answered knows that no request passes it any more, and that
// the effects of those that did are visible.
type Gate interface {
	// Check returns why it is closed, or nil. Any goroutine may call it.
	Check() error
}

// call is a request on its way through the mailbox. It belongs to the handler
// until it is answered, also if the caller has left meanwhile.
type call struct {
	Request
	reply command.Reply
	wrote bool // something, in this batch
	// chain is that of a Many, 0 for none, and group the number of the group in it.
	chain uint64
	group int
	// recalled tells that the reply is that of the first time.
	recalled bool
	// done takes the outcome of a call that is late; nil for others.
	done chan error
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release gives a call that nobody else holds back to the pool.
func (c *call) release() {
	*c = call{}
	calls.Put(c)
}

// dedupKey is the store key of the record of an executed request.
func (r *Request) dedupKey(dst []byte) []byte {
	return append(effect.Dedup.AppendKey(dst, r.Key), r.ID[:]...)
}

// dedupID returns the id at the end of the key of such a record.
func dedupID(storeKey []byte) (id RequestID, ok bool) {
	if len(storeKey) < len(id) {
		return id, false
	}
	copy(id[:], storeKey[len(storeKey)-len(id):])
	return id, true
}
