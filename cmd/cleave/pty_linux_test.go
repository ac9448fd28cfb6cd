package main

import (
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// atTerminal runs the binary at a terminal of its own, types an answer when it is asked,
// and returns what is seen.
func atTerminal(t *testing.T, answer string, args ...string) (code int, seen string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	cmd := osexec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var out strings.Builder
	for b := make([]byte, 1024); ; {
		n, err := master.Read(b)
		before := strings.Contains(out.String(), "[y/N]")
		out.Write(b[:n])
		if !before && strings.Contains(out.String(), "[y/N]") {
			_, _ = io.WriteString(master, answer)
		}
		if err != nil { // the other side is closed
			break
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestAPersonIsAskedAndOnlyYesChangesSomething(t *testing.T) {
	p := serving(t, "--storage", "memory")
	before := shards(t, p)
	args := []string{"shard", "split", "--slot", "77", "--addr", p.http}
	code, seen := atTerminal(t, "n\n", args...)
	if code != exitFailed || !strings.Contains(seen, "cut keyspace default at slot 77") || !strings.Contains(seen, "Do it? [y/N] ") || !strings.Contains(seen, "nothing was changed") {
		t.Errorf("no: exit %d, %q", code, seen)
	}
	if n := len(shards(t, p)); n != len(before) {
		t.Errorf("%d shards after no", n)
	}
	code, seen = atTerminal(t, "y\n", args...)
	if code != exitOK || !strings.Contains(seen, "(split) done") {
		t.Errorf("yes: exit %d, %q", code, seen)
	}
	if n := len(shards(t, p)); n != len(before)+1 {
		t.Errorf("%d shards after yes", n)
	}
	if code, seen = atTerminal(t, "", "status", "--addr", p.http); code != exitOK || !strings.HasPrefix(seen, "\x1b[32mhealthy\x1b[0m: ") {
		t.Errorf("status: exit %d, %q", code, seen)
	}
	t.Setenv("NO_COLOR", "1")
	if _, seen = atTerminal(t, "", "status", "--addr", p.http); !strings.HasPrefix(seen, "healthy: ") {
		t.Errorf("status without colours: %q", seen)
	}
}
