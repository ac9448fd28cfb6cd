package cleave

import (
	"slices"

	"github.com/cleavekv/cleave/internal/node"
)

// uses are keyspaces that a transaction has used.
type uses []use

// use is a keyspace that was read or written.
type use struct {
	space *node.Space
	// wrote tells that it was written, and with which indexes the transaction
	// maintains: those that there were at its first write.
	wrote bool
	with  *node.Indexes
}

// Check implements [group.Gate]: all of them must still be there at the commit. Also one
// that was only read, or the transaction could take place neither before its end nor
// after.
func (u uses) Check() error {
	for i := range u {
		err := u[i].space.Check()
		switch {
		case err != nil && u[i].space.OfIndex() != "":
			return node.ErrIndexes // who reads it again is told what is gone
		case err == nil && u[i].wrote:
			err = u[i].space.CheckWrite(u[i].with)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// use notes that a keyspace is read or written. The entries of an index are written with
// their rows, and stand and fall with those.
func (tx *Txn) use(k *Keyspace, writes bool) {
	if writes && k.inner {
		return
	}
	i := slices.IndexFunc(tx.used, func(u use) bool { return u.space == k.space })
	if i < 0 {
		i = len(tx.used)
		tx.used = append(tx.used, use{space: k.space})
	}
	if u := &tx.used[i]; writes && !u.wrote {
		u.wrote, u.with = true, k.space.Indexes()
	}
}

// maintained returns the indexes that the transaction maintains of a keyspace that it
// writes, nil for none.
func (tx *Txn) maintained(k *Keyspace) *node.Indexes {
	for i := range tx.used {
		if tx.used[i].space == k.space {
			return tx.used[i].with
		}
	}
	return nil
}
