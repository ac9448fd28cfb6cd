package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"github.com/cleavekv/cleave/internal/api"
)

const (
	// auditFile is the log in the directory of the data. Older ones have numbers behind
	// their names, the newest 1.
	auditFile = "audit.jsonl"
	// auditBytes is from when on a new one is begun: it has some 100,000 changes, of two
	// entries with a few hundred bytes each, and an editor still opens it.
	auditBytes = 64 << 20
	// auditOld is how many older ones are kept. They are evidence, so there are more than
	// anybody fills in years, and they are bounded, so that a script that changes something
	// in a loop does not take the disk from the data: 576 MiB in all.
	auditOld = 8
	// auditTail is how much of a file is read when it is opened.
	auditTail = 1 << 20
)

// auditFiles are the log on disk.
type auditFiles struct {
	root  *os.Root
	limit int64
	file  *os.File // nil if it is to be opened again
	size  int64
	cut   bool // the last line has no end
}

// openAuditFiles also returns the newest entries, the oldest first.
func openAuditFiles(dir string, limit int64) (*auditFiles, []api.Audit, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	a := &auditFiles{root: root, limit: limit}
	entries, err := a.load()
	if err != nil {
		return nil, nil, errors.Join(err, a.close())
	}
	return a, entries, nil
}

// load opens the file and reads its end, after that of the one before it, which has the
// last number if a new one was just begun.
func (a *auditFiles) load() ([]api.Audit, error) {
	var entries []api.Audit
	switch before, err := a.root.Open(oldAudit(1)); {
	case err == nil:
		entries, _, err = auditEntries(before)
		if err := errors.Join(err, before.Close()); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := a.open(); err != nil {
		return nil, err
	}
	more, cut, err := auditEntries(a.file)
	a.cut = cut
	return append(entries, more...), err
}

// auditEntries reads the end of a file, and tells whether its last line was cut.
func auditEntries(f *os.File) (entries []api.Audit, cut bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, info.Size()-auditTail)
	lines := bufio.NewReader(io.NewSectionReader(f, from, info.Size()-from))
	for first := from > 0; ; first = false {
		line, err := lines.ReadBytes('\n')
		var e api.Audit
		if !first && json.Unmarshal(line, &e) == nil && e.ID != "" {
			entries = append(entries, e)
		}
		if errors.Is(err, io.EOF) {
			return entries, len(line) > 0, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// open opens the file, or makes it. Its name is durable before anything is in it.
func (a *auditFiles) open() error {
	f, err := a.root.OpenFile(auditFile, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, a.syncNames()); err != nil {
		return errors.Join(err, f.Close())
	}
	a.file, a.size = f, info.Size()
	return nil
}

// syncNames makes the names in the directory durable.
func (a *auditFiles) syncNames() error {
	if runtime.GOOS == "windows" {
		return nil // the file system keeps their order by itself
	}
	d, err := a.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// append returns when the line is durable. One that a crash or a full disk has cut is
// ended first, so that each has a line of its own.
func (a *auditFiles) append(line []byte) error {
	if a.file != nil && a.size > 0 && a.size+int64(len(line)) > a.limit {
		a.turn()
	}
	if a.file == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if a.cut && a.size > 0 {
		line = append([]byte("\n"), line...)
	}
	n, err := a.file.Write(line)
	a.size += int64(n)
	if n > 0 {
		a.cut = line[n-1] != '\n'
	}
	if err != nil {
		return err
	}
	return a.file.Sync()
}

// turn gives the file the name of an older one. If it cannot be done, the file goes on to
// grow, and the next entry tries again: nothing could be changed without a log.
func (a *auditFiles) turn() {
	_ = a.file.Close() // what is in it is synced; and while it is open Windows would not rename it
	a.file = nil
	_ = a.shift()
}

// shift makes room for the number 1, as far as there is none: what was done by halves is
// not done twice, which would drop one more.
func (a *auditFiles) shift() error {
	free := 1
	for free < auditOld {
		if _, err := a.root.Lstat(oldAudit(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for ; free > 1; free-- {
		if err := a.root.Rename(oldAudit(free-1), oldAudit(free)); err != nil {
			return err
		}
	}
	return a.root.Rename(auditFile, oldAudit(1))
}

// oldAudit is the name of an older file.
func oldAudit(n int) string { return auditFile + "." + strconv.Itoa(n) }

func (a *auditFiles) close() error {
	err := a.root.Close()
	if a.file == nil {
		return err
	}
	if closed := a.file.Close(); !errors.Is(closed, fs.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}
