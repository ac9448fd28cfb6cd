package main

import (
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// runAtTerminal runs the binary at a terminal of its own, types an answer when it is asked,
// and returns what is seen.
func runAtTerminal(t *testing.T, answer string, args ...string) (code int, seen string) {
	t.Helper()
	return testTerminal{asked: "[y/N]", answer: answer}.run(t, args...)
}

// testTerminal sits at a terminal, which has 80 columns unless it is said otherwise.
type testTerminal struct {
	columns uint16
	// asked is what answer is typed at, once.
	asked, answer string
}

// outputEnd is written to a terminal when the command has ended.
const outputEnd = "\x00"

func (p testTerminal) run(t *testing.T, args ...string) (code int, seen string) {
	t.Helper()
	if p.columns == 0 {
		p.columns = 80
	}
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
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
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: p.columns}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that Ctrl-C is a signal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer slave.Close() // kept open: a terminal with no open file forgets how it was set
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		_, _ = io.WriteString(slave, outputEnd) // behind all that it has written
		close(ended)
	}()
	var out strings.Builder
	for b := make([]byte, 1024); ; {
		n, err := master.Read(b)
		before := strings.Contains(out.String(), p.asked)
		out.Write(b[:n])
		if !before && strings.Contains(out.String(), p.asked) {
			_, _ = io.WriteString(master, p.answer)
		}
		if err != nil || strings.HasSuffix(out.String(), outputEnd) {
			break
		}
	}
	<-ended
	if after, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal is left in another state: %+v, was %+v, %v", after, before, err)
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSuffix(out.String(), outputEnd)
}

func TestAPersonIsAskedAndOnlyYesChangesSomething(t *testing.T) {
	p := startServer(t, "--storage", "memory")
	before := listShards(t, p)
	args := []string{"shard", "split", "--slot", "77", "--addr", p.httpAddr}
	code, seen := runAtTerminal(t, "n\n", args...)
	if code != exitFailed || !strings.Contains(seen, "cut keyspace default at slot 77") || !strings.Contains(seen, "Do it? [y/N] ") || !strings.Contains(seen, "nothing was changed") {
		t.Errorf("no: exit %d, %q", code, seen)
	}
	if n := len(listShards(t, p)); n != len(before) {
		t.Errorf("%d shards after no", n)
	}
	code, seen = runAtTerminal(t, "y\n", args...)
	if code != exitOK || !strings.Contains(seen, "(split) done") {
		t.Errorf("yes: exit %d, %q", code, seen)
	}
	if n := len(listShards(t, p)); n != len(before)+1 {
		t.Errorf("%d shards after yes", n)
	}
	if code, seen = runAtTerminal(t, "", "status", "--addr", p.httpAddr); code != exitOK || !strings.HasPrefix(seen, "\x1b[32mhealthy\x1b[0m: ") {
		t.Errorf("status: exit %d, %q", code, seen)
	}
	t.Setenv("NO_COLOR", "1")
	if _, seen = runAtTerminal(t, "", "status", "--addr", p.httpAddr); !strings.HasPrefix(seen, "healthy: ") {
		t.Errorf("status without colours: %q", seen)
	}
}

func TestConfirm_CtrlC_EndsTheCommandAndChangesNothing(t *testing.T) {
	p := startServer(t, "--storage", "memory")
	before := len(listShards(t, p))
	code, seen := runAtTerminal(t, "\x03", "shard", "split", "--slot", "77", "--addr", p.httpAddr)
	if code != exitInterrupted || !strings.Contains(seen, "cleave: interrupted: nothing was changed") {
		t.Errorf("a question: exit %d, %q", code, seen)
	}
	if n := len(listShards(t, p)); n != before {
		t.Errorf("%d shards became %d", before, n)
	}
	code, seen = testTerminal{asked: "healthy", answer: "\x03"}.run(t, "status", "--watch", "--addr", p.httpAddr)
	if code != exitOK {
		t.Errorf("a screen that is drawn again: exit %d, %q", code, seen)
	}
}

func TestProgress_CtrlC_LeavesTheJobAtWorkAndTheScreenClean(t *testing.T) {
	p := startServer(t, "--data", t.TempDir(), "--stores", "2", "--groups", "2")
	c := newRedisClient(p.addr)
	defer c.Close()
	for i := range 40 {
		if err := c.Set(ctx, fmt.Sprint("{tag}", i), strings.Repeat("v", 100_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	at := runJSON[api.Explanation](t, p, "explain", "key", "{tag}").Shard
	begun := runJSON[api.Action](t, p, "shard", "move", "--shard", fmt.Sprint("s", at.ID), "--to", fmt.Sprint("g", 3-at.Group), "--rate", "64kb", "--yes", "--detach")
	code, seen := testTerminal{asked: "move", answer: "\x03"}.run(t, "job", "watch", begun.Job.ID, "--addr", p.httpAddr)
	if code != exitInterrupted || !strings.Contains(seen, "job "+begun.Job.ID+" goes on without being watched") || !strings.Contains(seen, "\r\x1b[Kcleave: job") {
		t.Errorf("exit %d, %q", code, seen)
	}
	if j := runJSON[api.Job](t, p, "job", "show", begun.Job.ID); j.HasEnded() {
		t.Errorf("the job is %+v", j)
	}
	runAction(t, p, "job", "throttle", begun.Job.ID, "--rate", "0")
}

func TestTables_AtATerminalFitAndInAPipeAreWhole(t *testing.T) {
	p := startServer(t, "--storage", "memory")
	runAction(t, p, "keyspace", "create", "orders", "--range")
	key := strings.Repeat("long", 30) + `\x1b[31m`
	runAction(t, p, "shard", "split", "--keyspace", "orders", "--key", key, "--yes")
	for _, columns := range []uint16{72, 100, 400} {
		_, seen := testTerminal{columns: columns}.run(t, "shard", "list", "--addr", p.httpAddr)
		for line := range strings.Lines(seen) {
			if n := output.TextWidth(strings.TrimRight(line, "\r\n")); n > int(columns) {
				t.Errorf("%d columns of %d: %q", n, columns, line)
			}
		}
		if whole := strings.Contains(seen, "before "+key); whole != (columns == 400) || !strings.Contains(seen, "longlong") {
			t.Errorf("on %d columns:\n%s", columns, seen)
		}
	}
	for _, args := range [][]string{{"status"}, {"group", "list"}, {"keyspace", "list"}, {"job", "list"}, {"config", "list"}, {"map"}, {"audit"}, {"explain", "key", "k"}, {"shard", "move", "--shard", "2", "--to", "2", "--dry-run"}} {
		_, seen := testTerminal{}.run(t, append(args, "--addr", p.httpAddr)...)
		for line := range strings.Lines(seen) {
			if n := output.TextWidth(strings.TrimRight(line, "\r\n")); n > 80 && !strings.Contains(line, "\x1b[32m") {
				t.Errorf("%v: %d columns: %q", args, n, line)
			}
		}
	}
	_, piped, _ := runCommand("shard", "list", "--addr", p.httpAddr)
	if !strings.Contains(piped, "before "+key) || !strings.Contains(piped, key+" … last") {
		t.Errorf("in a pipe:\n%s", piped)
	}
}
