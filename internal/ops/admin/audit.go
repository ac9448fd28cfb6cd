package admin

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server"
)

const (
	// maxAuditEntries is how many entries are in memory, for requests.
	maxAuditEntries = 1000
	// maxDeniedEntries is how many that were denied are. They are in memory alone: a client without
	// permissions must not fill the disk.
	maxDeniedEntries = 100
)

// auditLog records the changes and their authors. An entry is durable before the change begins, and
// there is another when it is done.
type auditLog struct {
	now   func() time.Time
	files *auditFiles // nil without a directory

	mu            sync.Mutex
	seq           uint64      // of the last entry
	entries       []api.Audit // the oldest first
	deniedEntries []api.Audit
	deniedCount   uint64 // all of them
}

// openAuditLog opens the log in the directory of the data, or one in memory if that is "".
// From limit bytes on a new file is begun.
func openAuditLog(data string, limit int64, now func() time.Time) (*auditLog, error) {
	l := &auditLog{now: now}
	if data == "" {
		return l, nil
	}
	files, entries, err := openAuditFiles(data, limit)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		l.seq = max(l.seq, e.Seq)
	}
	l.files, l.entries = files, entries[max(0, len(entries)-maxAuditEntries):]
	return l, nil
}

// newEntry is an entry with what is known about the client of a request.
func (l *auditLog) newEntry(r *http.Request, name string) api.Audit {
	claims := r.Header.Get(api.HeaderActor)
	claims = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, claims[:min(len(claims), 64)])
	return api.Audit{ID: rand.Text(), Time: l.now().UTC(), Who: "token", From: r.RemoteAddr, Claims: claims, Action: name}
}

// beginChange writes that a request is about to change something. The function that it returns writes the outcome.
func (l *auditLog) beginChange(r *http.Request, name, what string) (done func(job *api.Job, err error), _ error) {
	e := l.newEntry(r, name)
	e.What = what
	return l.beginEntry(e)
}

// beginAction does the same for a Redis client.
func (l *auditLog) beginAction(act server.Action) (done func(error), _ error) {
	end, err := l.beginEntry(api.Audit{ID: rand.Text(), Time: l.now().UTC(), Who: "user " + act.User, From: act.From, Action: act.Name, What: act.What})
	if err != nil {
		return nil, err
	}
	return func(err error) {
		if err != nil {
			err = &api.Error{Message: err.Error()}
		}
		end(nil, err)
	}, nil
}

func (l *auditLog) beginEntry(e api.Audit) (done func(job *api.Job, err error), _ error) {
	e.Outcome = api.AuditBegun
	if err := l.appendEntry(e); err != nil {
		return nil, err
	}
	return func(job *api.Job, err error) {
		e.Time, e.Outcome = l.now().UTC(), api.AuditDone
		if job != nil {
			e.Job = job.ID
		}
		if err != nil {
			e.Outcome, e.Detail = api.AuditFailed, toAPIError(err).Message
		}
		// An error here cannot reach the client: the change is made. Its beginning is in the log.
		_ = l.appendEntry(e)
	}, nil
}

// recordDenied records a request that is not permitted.
func (l *auditLog) recordDenied(r *http.Request, name string) {
	e := l.newEntry(r, name)
	e.Who, e.Outcome = "nobody", api.AuditDenied
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	l.deniedCount++
	l.deniedEntries = append(l.deniedEntries, e)
	l.deniedEntries = slices.Delete(l.deniedEntries, 0, max(0, len(l.deniedEntries)-maxDeniedEntries))
}

func (l *auditLog) appendEntry(e api.Audit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if l.files != nil {
		if err := l.files.appendLine(append(line, '\n')); err != nil {
			return err
		}
	}
	l.entries = append(l.entries, e)
	l.entries = slices.Delete(l.entries, 0, max(0, len(l.entries)-maxAuditEntries))
	return nil
}

// listNewest returns the newest entries, the newest first.
func (l *auditLog) listNewest() []api.Audit {
	l.mu.Lock()
	all := slices.Concat(l.entries, l.deniedEntries)
	l.mu.Unlock()
	slices.SortFunc(all, func(x, y api.Audit) int { return cmp.Compare(y.Seq, x.Seq) })
	return all
}

// countDenied is how many were denied.
func (l *auditLog) countDenied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deniedCount
}

func (l *auditLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		return nil
	}
	return l.files.close()
}

func (a *Admin) listAudit(_ context.Context, q *query) (api.Page[api.Audit], error) {
	p, err := cutPage(q, a.audit.listNewest(), func(_ int, e api.Audit) uint64 { return e.Seq }, true)
	p.Note = "older entries are gone"
	if a.o.Data != "" {
		p.Note = "older entries are in " + auditFileName + ", and in those with numbers behind that name, in the directory of the data"
	}
	return p, err
}

const (
	// auditFileName is the log in the directory of the data. Older ones have numbers behind
	// their names, the newest 1.
	auditFileName = "audit.jsonl"
	// maxAuditFileBytes is from when on a new one is begun: it has some 100,000 changes, of two
	// entries with a few hundred bytes each, and an editor still opens it.
	maxAuditFileBytes = 64 << 20
	// maxOldAuditFiles is how many older ones are kept. They are evidence, so there are more than
	// an operator causes in years, and they are bounded, so that a script that changes something
	// in a loop does not take the disk from the data: 576 MiB in all.
	maxOldAuditFiles = 8
	// auditTailBytes is how much of a file is read when it is opened.
	auditTailBytes = 1 << 20
)

// auditFiles are the log on disk.
type auditFiles struct {
	root       *os.Root
	maxBytes   int64
	file       *os.File // nil if it is to be opened again
	size       int64
	hasCutLine bool // the last line has no end
}

// openAuditFiles also returns the newest entries, the oldest first.
func openAuditFiles(dir string, limit int64) (*auditFiles, []api.Audit, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	a := &auditFiles{root: root, maxBytes: limit}
	entries, err := a.openAndLoad()
	if err != nil {
		return nil, nil, errors.Join(err, a.close())
	}
	return a, entries, nil
}

// openAndLoad opens the file and reads its end, after that of the one before it, which has the
// last number if a new one was just begun.
func (a *auditFiles) openAndLoad() ([]api.Audit, error) {
	var entries []api.Audit
	switch before, err := a.root.Open(oldAuditName(1)); {
	case err == nil:
		entries, _, err = readAuditTail(before)
		if err := errors.Join(err, before.Close()); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := a.openFile(); err != nil {
		return nil, err
	}
	more, cut, err := readAuditTail(a.file)
	a.hasCutLine = cut
	return append(entries, more...), err
}

// readAuditTail reads the end of a file, and reports whether its last line was cut.
func readAuditTail(f *os.File) (entries []api.Audit, cut bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, info.Size()-auditTailBytes)
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

// openFile opens the file, or makes it. Its name is durable before anything is in it.
func (a *auditFiles) openFile() error {
	f, err := a.root.OpenFile(auditFileName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, a.syncDir()); err != nil {
		return errors.Join(err, f.Close())
	}
	a.file, a.size = f, info.Size()
	return nil
}

// syncDir makes the names in the directory durable.
func (a *auditFiles) syncDir() error {
	if runtime.GOOS == "windows" {
		return nil // the file system keeps their order by itself
	}
	d, err := a.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// appendLine returns when the line is durable. One that a crash or a full disk has cut is
// ended first, so that each has a line of its own.
func (a *auditFiles) appendLine(line []byte) error {
	if a.file != nil && a.size > 0 && a.size+int64(len(line)) > a.maxBytes {
		a.rotateFile()
	}
	if a.file == nil {
		if err := a.openFile(); err != nil {
			return err
		}
	}
	if a.hasCutLine && a.size > 0 {
		line = append([]byte("\n"), line...)
	}
	n, err := a.file.Write(line)
	a.size += int64(n)
	if n > 0 {
		a.hasCutLine = line[n-1] != '\n'
	}
	if err != nil {
		return err
	}
	return a.file.Sync()
}

// rotateFile gives the file the name of an older one. If it cannot be done, the file goes on to
// grow, and the next entry tries again: nothing could be changed without a log.
func (a *auditFiles) rotateFile() {
	_ = a.file.Close() // what is in it is synced; and while it is open Windows would not rename it
	a.file = nil
	_ = a.shiftOldFiles()
}

// shiftOldFiles makes room for the number 1, as far as there is none: what was done by halves is
// not done twice, which would drop one more.
func (a *auditFiles) shiftOldFiles() error {
	free := 1
	for free < maxOldAuditFiles {
		if _, err := a.root.Lstat(oldAuditName(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for ; free > 1; free-- {
		if err := a.root.Rename(oldAuditName(free-1), oldAuditName(free)); err != nil {
			return err
		}
	}
	return a.root.Rename(auditFileName, oldAuditName(1))
}

// oldAuditName is the name of an older file.
func oldAuditName(n int) string { return auditFileName + "." + strconv.Itoa(n) }

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
