package key

import "fmt"

// Versionstamp80 is the position of a transaction in FoundationDB's global
// order: eight bytes of commit version, two of position in the batch.
type Versionstamp80 [10]byte

// String returns the stamp as 20 hexadecimal digits.
func (v Versionstamp80) String() string { return fmt.Sprintf("%x", v[:]) }

// Versionstamp is the 96-bit stamp of FoundationDB's bindings: the
// transaction's position and the caller's order within the transaction.
//
// FoundationDB fills in a Transaction of ten 0xff bytes at commit. This
// package gives those no meaning: they are encoded as they stand, and sort
// after every stamp that was filled in.
type Versionstamp struct {
	Transaction Versionstamp80
	User        uint16
}

// String returns both parts as hexadecimal digits, joined by a colon.
func (v Versionstamp) String() string { return fmt.Sprintf("%x:%04x", v.Transaction[:], v.User) }
