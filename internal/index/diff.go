package index

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/plant"
)

// Change is what has to be written when a row changes.
type Change struct {
	// Put are entries that are new, or whose value or expiry is.
	Put []Entry
	// Delete are keys of entries that are gone.
	Delete [][]byte
}

// Diff returns how to get from the entries of an old row to those of a new one, both
// sorted by their keys. renew tells that the expiry is another: then all are put.
func Diff(old, now []Entry, renew bool) (c Change) {
	for len(old) > 0 || len(now) > 0 {
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = bytes.Compare(old[0].Key, now[0].Key)
		}
		switch {
		case order < 0:
			if !plant.Bug("index-old-entry-left") {
				c.Delete = append(c.Delete, old[0].Key)
			}
			old = old[1:]
			continue
		case order > 0 || renew || !bytes.Equal(old[0].Value, now[0].Value):
			c.Put = append(c.Put, now[0])
		}
		if order == 0 {
			old = old[1:]
		}
		now = now[1:]
	}
	return c
}
