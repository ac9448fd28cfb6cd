package key

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrUUID means a text is not a UUID: write 8-4-4-4-12 hexadecimal digits.
var ErrUUID = errors.New("key: not a UUID")

// UUID is an RFC 9562 UUID in network byte order. It sorts by its bytes.
type UUID [16]byte

// uuidDashes are the places of the dashes in the text form.
var uuidDashes = [...]int{8, 13, 18, 23}

const uuidTextLen = 36

// ParseUUID reads the text form, in either case. It fails with [ErrUUID] for
// anything else, braces and the urn: prefix included.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != uuidTextLen {
		return UUID{}, fmt.Errorf("%w: %d characters, want %d", ErrUUID, len(s), uuidTextLen)
	}
	for _, i := range uuidDashes {
		if s[i] != '-' {
			return UUID{}, fmt.Errorf("%w: %q at byte %d, want a dash", ErrUUID, s[i], i)
		}
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%w: %w", ErrUUID, err)
	}
	return u, nil
}

// String returns the text form, in lower case.
func (u UUID) String() string { return string(u.appendText(make([]byte, 0, uuidTextLen))) }

// appendText appends the text form to dst.
func (u UUID) appendText(dst []byte) []byte {
	dst = append(hex.AppendEncode(dst, u[0:4]), '-')
	dst = append(hex.AppendEncode(dst, u[4:6]), '-')
	dst = append(hex.AppendEncode(dst, u[6:8]), '-')
	dst = append(hex.AppendEncode(dst, u[8:10]), '-')
	return hex.AppendEncode(dst, u[10:])
}
