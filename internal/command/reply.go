package command

import (
	"bytes"
	"slices"
)

// ReplyKind says which fields of a Reply to look at.
type ReplyKind uint8

// The kinds of replies.
const (
	// Nil is the reply about a key or field that is absent, and of a condition
	// that did not hold.
	Nil ReplyKind = iota
	// OK has nothing to say.
	OK
	// Int is the number Reply.Int.
	Int
	// Bytes is the value Reply.Bytes.
	Bytes
	// Items is the list Reply.Items.
	Items
	// Failed is the error Reply.Err: the command has changed nothing.
	Failed
)

// Item is one element of a reply.
type Item struct {
	Field, Value []byte
	// Found tells an absent value from an empty one.
	Found bool
	// Kind and Version are set by Range.
	Kind    Kind
	Version uint64
}

// Reply is the answer to a command.
//
// Bytes and Items are views of the Env's memory, and good until its next Begin:
// that is, until the batch is committed and answered. A later command of the
// batch does not change them. Who keeps them longer takes a Clone. (The Field of
// an item of HMGet is the caller's own.)
type Reply struct {
	Kind ReplyKind
	// More is of HScan, Range and Sweep: there is more to do.
	More bool
	Int  int64
	// Bytes is the value; the cursor of an HScan.
	Bytes []byte
	Items []Item
	// Version is that of the key after the command: 0 if it is absent, or if
	// the command is about several keys.
	Version uint64
	Err     error
}

// Clone returns a copy that is good for ever.
func (r Reply) Clone() Reply {
	r.Bytes = bytes.Clone(r.Bytes)
	r.Items = slices.Clone(r.Items)
	for i, item := range r.Items {
		r.Items[i].Field, r.Items[i].Value = bytes.Clone(item.Field), bytes.Clone(item.Value)
	}
	return r
}

func failed(err error) Reply { return Reply{Kind: Failed, Err: err} }

func number(n int64, version uint64) Reply { return Reply{Kind: Int, Int: n, Version: version} }

// truth is Redis' 1 and 0.
func truth(b bool, version uint64) Reply {
	if b {
		return number(1, version)
	}
	return number(0, version)
}
