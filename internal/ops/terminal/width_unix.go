//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

func fileWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
