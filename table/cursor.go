package table

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
)

// ErrCursor means that a Cursor is not from a page of this query: begin anew.
var ErrCursor = errors.New("table: bad cursor")

// Cursor is a place behind a row. It may be kept anywhere, and put into a URL as it
// is. Empty is the beginning.
type Cursor string

// cursorVersion is the first byte of what a cursor encodes; the key comes after it.
const cursorVersion = 1

func cursorOf(k []byte) Cursor {
	return Cursor(base64.RawURLEncoding.EncodeToString(append([]byte{cursorVersion}, k...)))
}

// resume lets the plan continue behind a cursor.
func (p *plan) resume(c Cursor) error {
	if c == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return fmt.Errorf("%w: %q is none of this version", ErrCursor, c)
	}
	k := b[1:]
	if _, err := p.t.layout.Decode(k); err != nil {
		return fmt.Errorf("%w: it is of another table: %w", ErrCursor, err)
	}
	place := p.t.unsalt(k)
	outside := bytes.Compare(place, p.lo) < 0 || bytes.Compare(place, p.hi) >= 0
	if outside || p.only >= 0 && p.only != p.t.saltOf(k) {
		return fmt.Errorf("%w: its row is not one of this query: keep Where, From and To from page to page", ErrCursor)
	}
	p.after = k
	return nil
}
