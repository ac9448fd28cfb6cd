package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// jobTracer looks for jobs that have ended, whatever began them, and sends them to the collector
// of spans. It exists only if there is a collector.
type jobTracer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// jobTraceInterval is how often it looks. Of jobs that have ended about a hundred are known: so
// many do not end between two looks.
const jobTraceInterval = time.Second

// startSpan begins the span of a request, if it is one of the API: requests for figures
// and health come all day.
func (a *Admin) startSpan(r *http.Request, pattern string) (*http.Request, func(status int)) {
	if a.o.Tracer == nil || !strings.HasPrefix(pattern, api.PathPrefix) {
		return r, func(int) {}
	}
	return a.o.Tracer.StartRequest(r, pattern)
}

// startJobTracer begins to follow jobs.
func (a *Admin) startJobTracer() {
	if a.o.Tracer == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	a.jobTracer.cancel = stop
	seen := map[string]bool{}
	since := a.startedAt
	look := func(ctx context.Context) {
		jobs, err := a.loadJobs(ctx)
		if err != nil {
			return // it looks again
		}
		known := map[string]bool{}
		for _, j := range jobs {
			if j.Ended == nil {
				continue
			}
			if !seen[j.ID] && !j.Ended.Before(since) {
				a.o.Tracer.SendJob(j)
			}
			known[j.ID] = true
		}
		seen = known // what is forgotten does not come again
	}
	a.jobTracer.wg.Go(func() {
		tick := time.NewTicker(jobTraceInterval)
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

// stopJobTracer looks once more, and ends.
func (a *Admin) stopJobTracer() {
	if a.jobTracer.cancel != nil {
		a.jobTracer.cancel()
		a.jobTracer.wg.Wait()
	}
}
