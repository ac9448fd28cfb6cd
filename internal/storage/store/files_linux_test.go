package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// filesEnv makes the test binary a process that may have few files open: the limit is that of
// a whole process, so other tests would meet it too.
const filesEnv = "CLEAVE_STORE_FILES"

// For a moment the process has as many files open as it may, as one with many connections
// does. When some are closed the store goes on.
func TestAStoreThatCouldOpenNoMoreFilesGoesOnWhenItCan(t *testing.T) {
	if os.Getenv(filesEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), filesEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	o := tinyOptions(nil)
	o.Dir = t.TempDir()
	s := mustOpen(t, o)
	m := model{}
	step := func(i int) error {
		w := rowWrite{fmt.Appendf(nil, "k%04d", i%1000), make([]byte, 1000+i%50)}
		err := commitWrites(s, w)
		if err == nil {
			m.apply(w)
		}
		return err
	}
	for i := range 300 {
		if err := step(i); err != nil {
			t.Fatal(err)
		}
	}
	giveBack := openAllFiles(t)
	var err error
	for i := 0; err == nil && i < 100000; i++ {
		err = step(i)
	}
	giveBack()
	if !errors.Is(err, ErrNoFiles) || !errors.Is(err, ErrDiskFull) || errors.Is(err, ErrFailed) {
		t.Fatalf("without files: %v, want ErrNoFiles alone", err)
	}
	for i := range 300 {
		eventually.Holds(t, "the store can open files again", func() bool { // one error of Pebble may come late
			err = step(i)
			return !errors.Is(err, ErrDiskFull)
		})
		if err != nil {
			t.Fatalf("with files again: %v", err)
		}
	}
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// openAllFiles opens as many files as the process may, which are few, until giveBack.
func openAllFiles(t *testing.T) (giveBack func()) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}
