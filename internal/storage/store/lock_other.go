//go:build !unix

package store

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile takes the lock that Pebble would take: the file is opened without
// sharing it.
func lockFile(name string) (io.Closer, error) {
	c, err := vfs.Default.Lock(name)
	if err != nil {
		return nil, &lockHeldError{cause: err}
	}
	return c, nil
}
