package node

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavekv/cleave/internal/storage/store"
)

// runAsPlainUser runs f on a thread to which file modes apply, whatever user runs the tests. The
// thread ends with it.
func runAsPlainUser(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		none := [2]unix.CapUserData{}
		err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// Directories that were made before ids were noted may have their stores on disks of their own,
// beneath one that is not the store's to write. The ids are noted as soon as it is.
func TestADirectoryThatCannotBeWrittenIsOpenedWithoutIDs(t *testing.T) {
	o := smallOptions(2)
	o.Dir = t.TempDir()
	if err := mustOpen(t, o).Close(ctx); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(o.Dir, storesFile)
	older := storeList{count: 2}
	if err := os.WriteFile(file, []byte(older.formatText()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode  os.FileMode
		noted bool
	}{{0o500, false}, {0o700, true}} {
		if err := os.Chmod(o.Dir, c.mode); err != nil {
			t.Fatal(err)
		}
		err := runAsPlainUser(func() error {
			n, err := Open(o)
			if err != nil {
				return err
			}
			return n.Close(ctx)
		})
		if err != nil {
			t.Fatalf("mode %o: %v", c.mode, err)
		}
		if list, err := readStoreList(o.Dir); err != nil || (list.ids != nil) != c.noted {
			t.Errorf("mode %o: %d ids, %v", c.mode, len(list.ids), err)
		}
	}
}

func TestIDsAreNotedWhenThereIsRoomForThem(t *testing.T) {
	ids := []store.ID{{1}, {2}}
	for _, c := range []struct{ met, want error }{
		{syscall.EPERM, nil}, {syscall.EROFS, nil}, {syscall.ENOSPC, nil}, {syscall.EDQUOT, nil}, {syscall.EIO, syscall.EIO},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if err := createStoreList(dir, len(ids)); err != nil {
			t.Fatal(err)
		}
		meet := func(string, string) error { return &os.LinkError{Op: "rename", Err: c.met} }
		if err := recordStoreIDs(dir, ids, meet); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.met, err, c.want)
		}
		list, err := readStoreList(dir)
		if files, _ := os.ReadDir(dir); err != nil || list.count != 2 || list.ids != nil || len(files) != 1 {
			t.Errorf("%v leaves %v, %v in %v", c.met, list, err, files)
		}
	}
}

// A directory may be mounted in one of a file system that does not sync directories, as that
// of processes does not.
func TestAParentThatCannotBeSyncedIsLeftToWhoeverMadeIt(t *testing.T) {
	t.Chdir(t.TempDir())
	o := smallOptions(1)
	o.Dir = "/proc/self/cwd"
	if err := SyncDir(filepath.Dir(o.Dir)); err == nil {
		t.Skip("it does here")
	}
	if err := mustOpen(t, o).Close(ctx); err != nil {
		t.Error(err)
	}
	for err, want := range map[error]bool{
		syscall.EINVAL: true, syscall.ENOTSUP: true, syscall.ENOSYS: true, syscall.EROFS: true, syscall.EIO: false, syscall.ENOSPC: false,
	} {
		if got := isUnsyncable(&os.PathError{Op: "sync", Err: err}); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
