package group

import (
	"encoding/binary"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
)

// The record of an executed request is its reply:
//
//	format | kind | more | int | version | number of items + 1, 0 for none | bytes | items …
//
// Numbers are varints; bytes are a length + 1, 0 for nil, and the bytes. A
// failed command changed nothing and is not recorded: it may be tried again.
const recordFormat = 1

var errRecord = errors.New("group: the record of a request is damaged, or of another version")

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

// reply takes a reply off the front. Its slices are views.
func (d *recordReader) reply() (r command.Reply, err error) {
	if d.byte() != recordFormat {
		d.bad = true
	}
	r.Kind, r.More = command.ReplyKind(d.byte()), d.byte() == 1
	r.Int = d.varint()
	r.Version = d.uvarint()
	items := d.uvarint()
	r.Bytes = d.bytes()
	if items > uint64(len(d.rest))+1 {
		d.bad = true // each item takes a byte at least: do not believe it
	}
	if items > 0 && !d.bad {
		r.Items = make([]command.Item, items-1)
		for i := range r.Items {
			r.Items[i] = command.Item{
				Field: d.bytes(), Value: d.bytes(), Found: d.byte() == 1,
				Kind: command.Kind(d.byte()), Version: d.uvarint(),
			}
		}
	}
	if d.bad {
		return command.Reply{}, errRecord
	}
	return r, nil
}

// recordReader takes parts off the front of rest until something is wrong.
type recordReader struct {
	rest []byte
	bad  bool
}

func (d *recordReader) varint() int64 {
	x, n := binary.Varint(d.rest)
	d.skip(n)
	return x
}

func (d *recordReader) uvarint() uint64 {
	x, n := binary.Uvarint(d.rest)
	d.skip(n)
	return x
}

func (d *recordReader) skip(n int) {
	if n <= 0 {
		d.bad, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *recordReader) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *recordReader) bytes() []byte {
	n := d.uvarint()
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
