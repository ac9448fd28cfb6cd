package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Key is the bytes of a key. As text, in JSON and in queries, printable ASCII stands for
// itself, a backslash is written twice, and every other byte is \xNN: text that no
// terminal or page takes for more than text, and that means one key. Read, it may also
// have other UTF-8 as it is.
type Key []byte

// ParseKey reads the text of a key.
func ParseKey(text string) (Key, error) {
	k := make(Key, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			k = append(k, text[i])
			continue
		}
		rest := text[i+1:]
		switch {
		case strings.HasPrefix(rest, `\`):
			k, i = append(k, '\\'), i+1
		case strings.HasPrefix(rest, "x") && len(rest) >= 3:
			b, err := strconv.ParseUint(rest[1:3], 16, 8)
			if err != nil {
				return nil, keyError(text, i)
			}
			k, i = append(k, byte(b)), i+3
		default:
			return nil, keyError(text, i)
		}
	}
	return k, nil
}

func keyError(text string, at int) error {
	return fmt.Errorf(`key %q: at byte %d: a backslash is written \\, and a byte \x and two hexadecimal digits`, text, at)
}

// String is the text of the key.
func (k Key) String() string {
	var b strings.Builder
	for _, c := range k {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c >= ' ' && c <= '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKey.
func (k *Key) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKey(string(text))
	return err
}

// KeyOrNil returns a key for a field that may have none: nil for nil.
func KeyOrNil(b []byte) *Key {
	if b == nil {
		return nil
	}
	k := Key(b)
	return &k
}
