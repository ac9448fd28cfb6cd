package txn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/partition"
)

var (
	errShort = errors.New("it is cut off")
	errLong  = errors.New("it goes on behind its end")
)

// reader takes a record apart. After the first thing that is wrong all it reads
// is zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err, r.rest = errors.New(text), nil
	}
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.rest) {
		if r.err == nil {
			r.err, r.rest = errShort, nil
		}
		return make([]byte, min(n, 8))
	}
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

// format checks the first byte.
func (r *reader) format(want byte) {
	if got := r.byte(); r.err == nil && got != want {
		r.fail(fmt.Sprintf("format %d, this version reads %d", got, want))
	}
}

// count reads a number in as few bytes as it needs.
func (r *reader) count() int {
	x, n := binary.Uvarint(r.rest)
	if r.err != nil || n <= 0 || n > 1 && x>>(7*(n-1)) == 0 || x > uint64(len(r.rest)) {
		if r.err == nil {
			r.err, r.rest = errShort, nil
		}
		return 0
	}
	r.rest = r.rest[n:]
	return int(x)
}

// bytes reads a copy, nil if it is empty.
func (r *reader) bytes() partition.Position {
	n := r.count()
	if n == 0 {
		return nil
	}
	part := r.take(n)
	if r.err != nil {
		return nil
	}
	return bytes.Clone(part)
}

// end checks that nothing is left.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		return errLong
	}
	return r.err
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
