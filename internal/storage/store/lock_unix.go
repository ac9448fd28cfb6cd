//go:build unix

package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// processMark is of this process alone: in two containers that share a directory,
// numbers of processes may be the same.
var processMark = rand.Text()

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
		text, _ := io.ReadAll(io.LimitReader(f, 128))
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			holder, mark, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
			if mark == processMark {
				holder = "this process"
			}
			return nil, &lockHeldError{holder: holder}
		}
		return nil, err
	}
	// The name of the holder only serves the refusal above.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "process %d\n%s\n", os.Getpid(), processMark), 0)
	}
	return f, nil
}
