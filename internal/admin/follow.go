package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

// follower looks for jobs that have ended, whoever began them, and tells the collector of
// spans. It is there only if there is one.
type follower struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// followEvery is how often it looks. Of jobs that have ended about a hundred are known: so
// many do not end between two looks.
const followEvery = time.Second

// span begins the span of a request, if it is one of the API: those who ask for figures
// and health do so all day.
func (a *Admin) span(r *http.Request, pattern string) (*http.Request, func(status int)) {
	if a.o.Spans == nil || !strings.HasPrefix(pattern, api.Prefix) {
		return r, func(int) {}
	}
	return a.o.Spans.Request(r, pattern)
}

// follow begins to follow jobs.
func (a *Admin) follow() {
	if a.o.Spans == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	a.follows.stop = stop
	seen := map[string]bool{}
	since := a.born
	look := func(ctx context.Context) {
		jobs, err := a.jobsNow(ctx)
		if err != nil {
			return // it looks again
		}
		known := map[string]bool{}
		for _, j := range jobs {
			if j.Ended == nil {
				continue
			}
			if !seen[j.ID] && !j.Ended.Before(since) {
				a.o.Spans.Job(j)
			}
			known[j.ID] = true
		}
		seen = known // what is forgotten does not come again
	}
	a.follows.running.Go(func() {
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				look(context.WithoutCancel(ctx)) // those that have ended since
				return
			case <-tick.C:
				look(ctx)
			}
		}
	})
}

// unfollow looks once more, and ends.
func (a *Admin) unfollow() {
	if a.follows.stop != nil {
		a.follows.stop()
		a.follows.running.Wait()
	}
}
