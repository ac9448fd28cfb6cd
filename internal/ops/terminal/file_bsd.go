//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

func fileIsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TIOCGETA)
	return err == nil
}
