package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/txn"
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
	// ReservationID is the id by which that is held which it writes, if it had to ask for it: see
	// [Options].
	ReservationID txn.ID
	// NonBlocking means that it is not executed if that takes a disk, or if those before it in its
	// batch have had large answers, or if it scans much: the errors are ErrWouldBlock, ErrSkipped and
	// ErrReadTooLarge.
	NonBlocking bool
	// NoWait means that what is in the way of the request, for which it would be executed again, is
	// the error of its reply: see [IsRetryable].
	NoWait bool
	// Piggyback means that the request costs no write of its own: it waits until others make
	// the group write, a millisecond at most, or until a caller waits for a lock, and is executed
	// before them in their batch. It includes NoWait. A group executes it by itself, not as a part of
	// a pipeline or a joint request.
	Piggyback bool
	// ReadOnly means that it changes nothing. If it is NonBlocking it may not look up much either: others can
	// execute it past the queue.
	ReadOnly bool
}

// Gate is a condition outside of the state. A caller that closes it and then gets a reply to a
// request of its own knows that no request passes the gate any more, and that the effects of
// those that did are visible.
type Gate interface {
	// CheckOpen returns why it is closed, or nil. Any goroutine may call it.
	CheckOpen() error
}

// call is a request in flight through the mailbox. It belongs to the handler
// until it is answered, also if the caller has left meanwhile.
type call struct {
	Request
	reply command.Reply
	// hasWritten reports whether the call depends on what is written in this batch, by itself or by
	// the first call of its request.
	hasWritten bool
	// replayed reports whether the reply is that of the first time.
	replayed bool
	// participant is the index of its group in the [batchRun].
	participant int
	// chain is that of a pipeline, 0 for none.
	chain uint64
	// joint is the request of several groups that the call stands for, nil for a request of one.
	joint *jointCall
	// done takes the outcome of a call that is late; nil for others.
	done chan error
}

// isUrgent reports whether the call may use the reserved disk space.
func (c *call) isUrgent() bool {
	if c.joint != nil {
		return c.joint.isUrgent()
	}
	return isUrgent(c.Command)
}

var callPool = sync.Pool{New: func() any { return new(call) }}

// returnToPool gives a call that no other goroutine holds back to the pool.
func (c *call) returnToPool() {
	*c = call{}
	callPool.Put(c)
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

// subReplies returns where a command has the replies of its parts, nil if it has
// none.
func subReplies(c command.Command) *[]command.Reply {
	switch c := c.(type) {
	case *command.Batch:
		return &c.Replies
	case *command.Commit:
		return &c.Writes.Replies
	}
	return nil
}

// copyReply moves what the reply points to out of the batch's memory, which the
// next batch overwrites.
func copyReply(c *call) {
	c.reply = c.reply.Clone()
	if p := subReplies(c.Command); p != nil {
		for i := range *p {
			(*p)[i] = (*p)[i].Clone()
		}
	}
}

// recordReply writes the record of an executed request into the batch, where others of the
// same request find it, transactions included.
func (x *executor) recordReply(c *call) {
	x.scratch = c.dedupKey(x.scratch[:0])
	key := len(x.scratch)
	x.scratch = appendRecord(x.scratch, &c.reply)
	if p := subReplies(c.Command); p != nil {
		for i := range *p {
			x.scratch = appendBytes(x.scratch, appendRecord(nil, &(*p)[i]))
		}
	}
	x.env.Put(x.scratch[:key], x.scratch[key:])
}

// replayReply answers a call from the record of its request.
func replayReply(c *call, record []byte) (err error) {
	d := recordReader{rest: record}
	if c.reply, err = d.readReply(); err != nil {
		return err
	}
	p := subReplies(c.Command)
	if p == nil {
		if len(d.rest) != 0 {
			return fmt.Errorf("%w: the id was used for another command", errBadRecord)
		}
		return nil
	}
	*p = (*p)[:0]
	for len(d.rest) > 0 {
		part := recordReader{rest: d.readBytes()}
		r, err := part.readReply()
		if err != nil || d.bad {
			return errBadRecord
		}
		*p = append(*p, r)
	}
	return nil
}

// ErrDuplicateRequest means that a request was executed before.
var ErrDuplicateRequest = errors.New("group: the request was executed before")

// RecordRequest is a command that makes a transaction one that is not executed again: it keeps
// the record of a request that Execute would keep, or fails with ErrDuplicateRequest if there is
// one. It comes first in the part of the transaction that writes the key.
type RecordRequest struct {
	// Request has the Key and ID. If it has a Command, that is evaluated, and its reply
	// is what is recorded.
	Request  Request
	Remember time.Duration // as that of the group, 0 for the default
}

// Eval looks for the record, and leaves it.
func (c *RecordRequest) Eval(e *command.Env) command.Reply {
	remember := c.Remember
	setDefault(&remember, defaultRemember)
	err := checkRequestID(c.Request.ID, e.ClockMS(), remember)
	key := c.Request.dedupKey(nil)
	if err == nil {
		var found bool
		if _, found, err = e.Get(key, nil); err == nil && found {
			err = ErrDuplicateRequest
		}
	}
	if err == nil {
		err = e.CheckWrite(c.Request.Key) // also if nothing else is changed: the record is a write
	}
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: err}
	}
	reply := command.Reply{Kind: command.OK}
	if c.Request.Command != nil {
		if reply = e.Do(c.Request.Command); reply.Err != nil {
			return reply
		}
	}
	e.Put(key, appendRecord(nil, &reply))
	return reply
}

// LookupRecord is a command that reports whether there is the record of a request: Int is 1,
// and Bytes are the record, see [DecodeRecord].
type LookupRecord struct{ Request Request }

// DecodeRecord returns the reply that a record is of.
func DecodeRecord(record []byte) (command.Reply, error) {
	d := recordReader{rest: record}
	reply, err := d.readReply()
	if err == nil && len(d.rest) != 0 {
		err = fmt.Errorf("%w: the id was used for another command", errBadRecord)
	}
	return reply, err
}

// Eval looks for the record. One that a transaction is about to write may be there
// already, so a lock is waited for; and what another group has is not here.
func (c *LookupRecord) Eval(e *command.Env) command.Reply {
	err, found := e.CheckRead(c.Request.Key), false
	var record []byte
	if err == nil {
		record, found, err = e.Get(c.Request.dedupKey(nil), nil)
	}
	switch {
	case err != nil:
		return command.Reply{Kind: command.Failed, Err: err}
	case found:
		return command.Reply{Kind: command.Int, Int: 1, Bytes: record}
	}
	return command.Reply{Kind: command.Int}
}

// The record of an executed request is its reply:
//
//	format | kind | more | int | version | number of items + 1, 0 for none | bytes | items …
//
// Numbers are varints; bytes are a length + 1, 0 for nil, and the bytes. A
// failed command changed nothing and is not recorded: it may be tried again.
const recordFormat = 1

var errBadRecord = errors.New("group: the record of a request is damaged, or of another version")

func appendRecord(dst []byte, r *command.Reply) []byte {
	more := byte(0)
	if r.More {
		more = 1
	}
	dst = append(dst, recordFormat, byte(r.Kind), more)
	dst = binary.AppendVarint(dst, r.Int)
	dst = binary.AppendUvarint(dst, r.Version)
	if r.Items == nil {
		dst = binary.AppendUvarint(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(r.Items))+1)
	}
	dst = appendBytes(dst, r.Bytes)
	for i := range r.Items {
		found := byte(0)
		if r.Items[i].Found {
			found = 1
		}
		dst = append(appendBytes(appendBytes(dst, r.Items[i].Field), r.Items[i].Value), found, byte(r.Items[i].Kind))
		dst = binary.AppendUvarint(dst, r.Items[i].Version)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// readReply takes a reply off the front. Its slices are views.
func (d *recordReader) readReply() (r command.Reply, err error) {
	if d.readByte() != recordFormat {
		d.bad = true
	}
	r.Kind, r.More = command.ReplyKind(d.readByte()), d.readByte() == 1
	r.Int = d.readVarint()
	r.Version = d.readUvarint()
	items := d.readUvarint()
	r.Bytes = d.readBytes()
	if items > uint64(len(d.rest))+1 {
		d.bad = true // each item takes a byte at least: do not believe it
	}
	if items > 0 && !d.bad {
		r.Items = make([]command.Item, items-1)
		for i := range r.Items {
			r.Items[i] = command.Item{
				Field: d.readBytes(), Value: d.readBytes(), Found: d.readByte() == 1,
				Kind: command.Kind(d.readByte()), Version: d.readUvarint(),
			}
		}
	}
	if d.bad {
		return command.Reply{}, errBadRecord
	}
	return r, nil
}

// recordReader takes parts off the front of rest until something is wrong.
type recordReader struct {
	rest []byte
	bad  bool
}

func (d *recordReader) readVarint() int64 {
	x, n := binary.Varint(d.rest)
	d.skipBytes(n)
	return x
}

func (d *recordReader) readUvarint() uint64 {
	x, n := binary.Uvarint(d.rest)
	d.skipBytes(n)
	return x
}

func (d *recordReader) skipBytes(n int) {
	if n <= 0 {
		d.bad, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *recordReader) readByte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *recordReader) readBytes() []byte {
	n := d.readUvarint()
	if n == 0 {
		return nil
	}
	if n-1 > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[: n-1 : n-1]
	d.rest = d.rest[n-1:]
	return b
}
