package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

const (
	// auditKept is how many entries are in memory, for those who ask.
	auditKept = 1000
	// deniedKept is how many that were denied are. They are in memory alone: who may do
	// nothing must not fill the disk.
	deniedKept = 100
)

// auditLog is who has changed what. An entry is durable before the change begins, and
// there is another when it is done.
type auditLog struct {
	now   func() time.Time
	files *auditFiles // nil without a directory

	mu     sync.Mutex
	seq    uint64      // of the last entry
	newest []api.Audit // the oldest first
	denied []api.Audit
	denies uint64 // all of them
}

// openAudit opens the log in the directory of the data, or one in memory if that is "".
// From limit bytes on a new file is begun.
func openAudit(data string, limit int64, now func() time.Time) (*auditLog, error) {
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
	l.files, l.newest = files, entries[max(0, len(entries)-auditKept):]
	return l, nil
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
	if l.files != nil {
		if err := l.files.append(append(line, '\n')); err != nil {
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
	if l.files == nil {
		return nil
	}
	return l.files.close()
}

func (a *Admin) audited(_ context.Context, q *query) (api.Page[api.Audit], error) {
	p, err := page(q, a.audit.list(), func(_ int, e api.Audit) uint64 { return e.Seq }, true)
	p.Note = "older entries are gone"
	if a.o.Data != "" {
		p.Note = "older entries are in " + auditFile + ", and in those with numbers behind that name, in the directory of the data"
	}
	return p, err
}
