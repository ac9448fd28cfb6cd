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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

const (
	// auditFile is the log in the directory of the data. It only grows: what is written
	// there is evidence, and who may remove it decides when.
	auditFile = "audit.jsonl"
	// auditKept is how many entries are in memory, for those who ask.
	auditKept = 1000
	// deniedKept is how many that were denied are. They are in memory alone: who may do
	// nothing must not fill the disk.
	deniedKept = 100
	// auditTail is how much of the file is read when it is opened.
	auditTail = 1 << 20
)

// auditLog is who has changed what. An entry is durable before the change begins, and
// there is another when it is done.
type auditLog struct {
	now  func() time.Time
	file *os.File // nil without a directory

	mu     sync.Mutex
	seq    uint64      // of the last entry
	newest []api.Audit // the oldest first
	denied []api.Audit
	denies uint64 // all of them
}

func openAudit(data string, now func() time.Time) (*auditLog, error) {
	l := &auditLog{now: now}
	if data == "" {
		return l, nil
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(auditFile, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := l.load(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.file = f
	return l, nil
}

// load reads the end of the file. A last line that a crash has cut is ended, so that the
// next entry has a line of its own.
func (l *auditLog) load(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	from := max(0, size-auditTail)
	lines := bufio.NewReader(io.NewSectionReader(f, from, size-from))
	for first := from > 0; ; first = false {
		line, err := lines.ReadBytes('\n')
		var e api.Audit
		if !first && json.Unmarshal(line, &e) == nil && e.ID != "" {
			l.newest, l.seq = append(l.newest, e), max(l.seq, e.Seq)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			_, err = f.Write([]byte("\n"))
			return err
		}
		break
	}
	l.newest = l.newest[max(0, len(l.newest)-auditKept):]
	return nil
}

// entry is what is known about who asks.
func (l *auditLog) entry(r *http.Request, name string) api.Audit {
	claims := r.Header.Get(api.HeaderActor)
	claims = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, claims[:min(len(claims), 64)])
	return api.Audit{ID: rand.Text(), Time: l.now().UTC(), Who: "token", From: r.RemoteAddr, Claims: claims, Action: name}
}

// begin writes that something is about to be changed. The function that it returns writes
// what came of it.
func (l *auditLog) begin(r *http.Request, name, what string) (done func(job *api.Job, err error), _ error) {
	e := l.entry(r, name)
	e.What, e.Outcome = what, api.AuditBegun
	if err := l.write(e); err != nil {
		return nil, err
	}
	return func(job *api.Job, err error) {
		e.Time, e.Outcome = l.now().UTC(), api.AuditDone
		if job != nil {
			e.Job = job.ID
		}
		if err != nil {
			e.Outcome, e.Detail = api.AuditFailed, problem(err).Message
		}
		// Nobody can be told any more: the change is made. That it was begun is in the log.
		_ = l.write(e)
	}, nil
}

// deny notes that somebody may not.
func (l *auditLog) deny(r *http.Request, name string) {
	e := l.entry(r, name)
	e.Who, e.Outcome = "nobody", api.AuditDenied
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	l.denies++
	l.denied = append(l.denied, e)
	l.denied = slices.Delete(l.denied, 0, max(0, len(l.denied)-deniedKept))
}

func (l *auditLog) write(e api.Audit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if l.file != nil {
		if _, err := l.file.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := l.file.Sync(); err != nil {
			return err
		}
	}
	l.newest = append(l.newest, e)
	l.newest = slices.Delete(l.newest, 0, max(0, len(l.newest)-auditKept))
	return nil
}

// list returns the newest entries, the newest first.
func (l *auditLog) list() []api.Audit {
	l.mu.Lock()
	all := slices.Concat(l.newest, l.denied)
	l.mu.Unlock()
	slices.SortFunc(all, func(x, y api.Audit) int { return cmp.Compare(y.Seq, x.Seq) })
	return all
}

// deniedTotal is how many were denied.
func (l *auditLog) deniedTotal() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denies
}

func (l *auditLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	if err := l.file.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

func (a *Admin) audited(_ context.Context, q *query) (api.Page[api.Audit], error) {
	p, err := page(q, a.audit.list(), func(_ int, e api.Audit) uint64 { return e.Seq }, true)
	p.Note = "older entries are gone"
	if a.o.Data != "" {
		p.Note = "older entries are in " + auditFile + " in the directory of the data"
	}
	return p, err
}
