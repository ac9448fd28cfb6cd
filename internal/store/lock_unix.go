//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile takes an flock on the named file. Such a lock belongs to the open
// file and not to the process, so that a second Open in the same process is
// refused too, under whatever spelling of the path. The kernel drops it with
// the process, however that ends.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64))
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &heldError{holder: strings.TrimSpace(string(holder))}
		}
		return nil, err
	}
	// Who holds it is only there to be read in the refusal above.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "process %d\n", os.Getpid()), 0)
	}
	return f, nil
}
