package command

import "github.com/cleavekv/cleave/partition"

// The limits. A replicated group carries a batch in one message, and a row must
// fit in memory several times over.
const (
	// MaxKeyBytes bounds a key, and a field of a hash.
	MaxKeyBytes = 16 << 10
	// MaxValueBytes bounds a value, and that of a field.
	MaxValueBytes = 64 << 20
	// MaxTxnBytes bounds what a Batch, a Commit, or an HSet or HDel of several
	// fields writes.
	MaxTxnBytes = 64 << 20
	// MaxTxnKeys bounds the rows that a Batch or Commit reads and writes, and
	// the keys or fields of any other command.
	MaxTxnKeys = 10_000
)

// maxPosition bounds the position of a key: each byte may be escaped, and at
// most 5 bytes of keyspace, 2 of slot and 2 of terminator surround it.
const maxPosition = 2*MaxKeyBytes + 9

// CheckKey refuses a key that is over the limit. Callers ask before they encode
// its position, which does not tell the length of the key.
func CheckKey(key []byte) error {
	if len(key) > MaxKeyBytes {
		return &LimitError{"key", len(key), MaxKeyBytes}
	}
	return nil
}

// checkPosition refuses what cannot be the position of a key's own row.
func checkPosition(p partition.Position) error {
	if n := len(p); n < 3 || p[n-2] != 0x00 || p[n-1] != 0x01 {
		return errPosition
	}
	if len(p) > maxPosition {
		return &LimitError{"key", len(p), MaxKeyBytes}
	}
	return nil
}

func checkValue(n int) error {
	if n > MaxValueBytes {
		return &LimitError{"value", n, MaxValueBytes}
	}
	return nil
}

func checkField(field []byte) error {
	if len(field) > MaxKeyBytes {
		return &LimitError{"field", len(field), MaxKeyBytes}
	}
	return nil
}

func checkCount(n int) error {
	if n > MaxTxnKeys {
		return &LimitError{keysInTxn, n, MaxTxnKeys}
	}
	return nil
}

// keysInTxn is the one limit of a LimitError that does not count bytes.
const keysInTxn = "keys in a transaction"
