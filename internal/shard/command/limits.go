package command

import "github.com/cleavekv/cleave/partition"

// The limits. A replicated group carries a batch in one message, and a row must
// fit in memory several times over.
const (
	// MaxKeyBytes bounds a key, and a field of a hash.
	MaxKeyBytes = 16 << 10
	// MaxValueBytes bounds a value, and that of a field.
	MaxValueBytes = 64 << 20
	// MaxTxnBytes bounds what a Batch, a Write, a Commit, or an HSet or HDel of several
	// fields writes. The elements of a collection count here alone: a hash may have as
	// many fields as fit.
	MaxTxnBytes = 64 << 20
	// MaxTxnKeys bounds the keys that a Batch, Write, Commit or any other command reads,
	// and those that it writes. Between stores each of them is a lock: at 100,000 they are
	// taken in a fraction of the time that a transaction has; at ten times as many they
	// were not.
	MaxTxnKeys = 100_000
)

// maxPositionBytes bounds the position of a key: each byte may be escaped, and at
// most 5 bytes of keyspace, 2 of slot and 2 of terminator surround it.
const maxPositionBytes = 2*MaxKeyBytes + 9

// CheckKey refuses a key that is over the limit. Callers ask before they encode
// its position, which does not determine the length of the key.
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
	if len(p) > maxPositionBytes {
		return &LimitError{"key", len(p), MaxKeyBytes}
	}
	return nil
}

// CheckTxn refuses what a Batch, a Write or a Commit would be refused for in the end: callers
// that gather commands ask as they go. Both figures may be too low, as effects hold more than
// what they are made of. What is read is held to the same limits, by itself.
func CheckTxn(keys, bytes int) error {
	if bytes > MaxTxnBytes {
		return &LimitError{"transaction", bytes, MaxTxnBytes}
	}
	return checkKeyCount(keys)
}

// CheckValue refuses a value that is over the limit.
func CheckValue(value []byte) error { return checkValueBytes(len(value)) }

func checkValueBytes(n int) error {
	if n > MaxValueBytes {
		return &LimitError{"value", n, MaxValueBytes}
	}
	return nil
}

// CheckField refuses the name of a field that is over the limit.
func CheckField(field []byte) error {
	if len(field) > MaxKeyBytes {
		return &LimitError{"field", len(field), MaxKeyBytes}
	}
	return nil
}

func checkKeyCount(n int) error {
	if n > MaxTxnKeys {
		return &LimitError{keysInTxn, n, MaxTxnKeys}
	}
	return nil
}

// keysInTxn is the one limit of a LimitError that does not count bytes.
const keysInTxn = "keys in a transaction"
