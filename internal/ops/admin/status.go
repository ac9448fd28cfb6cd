package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func (a *Admin) getStatus(ctx context.Context, _ *query) (api.Status, error) {
	shards, err := a.loadShards(ctx)
	if err != nil && !a.hasFailedStore() {
		return api.Status{}, err
	}
	jobs, err := a.loadJobs(ctx)
	if err != nil && !a.hasFailedStore() {
		return api.Status{}, err
	}
	now, counts := a.o.Now(), a.o.Server.Counts()
	s := api.Status{
		Version: a.o.Version, Go: runtime.Version(), Started: a.startedAt.UTC(), UptimeSeconds: now.Sub(a.startedAt).Seconds(),
		Durability: a.o.Durability, Storage: a.storageKind(), MapVersion: uint64(a.o.DB.Map().Version()), Shards: len(shards),
		Groups: len(a.o.DB.Groups()), Keyspaces: a.countKeyspaces(), Clients: counts.Clients, MaxClients: counts.MaxClients,
		Hottest: findHottest(shards), Fullest: findFullest(shards), Stores: a.listStores(), Jobs: []api.Job{}, Events: []api.Event{},
	}
	for i, e := range a.collectEvents(ctx, jobs) {
		if i == maxStatusEvents {
			break
		}
		s.Events = append(s.Events, e.Event)
	}
	s.MemoryBytes, s.MaxMemoryBytes = a.o.Server.Memory()
	for _, c := range counts.Commands {
		s.Commands += c.Calls
	}
	for _, sh := range shards {
		s.Rows, s.Bytes = s.Rows+sh.Rows, s.Bytes+sh.Bytes
	}
	for _, j := range jobs {
		if !j.HasEnded() {
			s.Jobs = append(s.Jobs, j)
		}
	}
	a.checkHealth(&s)
	return s, nil
}

// hasFailedStore reports whether a store has stopped. Then shards and jobs may be unknown, and the rest is
// reported all the same: it shows what is wrong.
func (a *Admin) hasFailedStore() bool {
	return slices.ContainsFunc(a.o.DB.Metrics().Stores, func(s cleave.StoreMetrics) bool { return s.Failed != nil })
}

func (a *Admin) storageKind() string {
	if a.o.Data == "" {
		return "memory"
	}
	return "disk"
}

// countKeyspaces is how many keyspaces were created.
func (a *Admin) countKeyspaces() (n int) {
	for _, k := range a.o.DB.Keyspaces() {
		if !strings.HasPrefix(k.Name(), indexPrefix) {
			n++
		}
	}
	return n
}

const (
	// A shard is named as the one that has most from minHottestBytes or minHottestOps on, if that is
	// minHottestRatio times the mean: one of some shards always has most, and that says
	// nothing while it is copied within a blink, or while the others are much like it.
	minHottestRatio = 2
	minHottestBytes = 16 << 20
	// minHottestOps is a hundredth of what a shard can be asked in a second by clients that send one request at a time.
	minHottestOps = 1000
)

// findFullest compares shards by bytes. It is nil if none stands out.
func findFullest(shards []api.Shard) *api.Hottest {
	return findOutstanding(shards, "bytes", minHottestBytes, func(s *api.Shard) float64 { return float64(s.Bytes) })
}

// findHottest compares shards by what is asked of them in a second. It is nil if none stands out.
func findHottest(shards []api.Shard) *api.Hottest {
	return findOutstanding(shards, "operations", minHottestOps, func(s *api.Shard) float64 { return s.Load.OpsPerSecond() })
}

// findOutstanding returns the shard that has most of something, if that is at least so much, and much more than the
// mean.
func findOutstanding(shards []api.Shard, by string, least float64, measure func(*api.Shard) float64) *api.Hottest {
	most, sum, n := -1, 0.0, 0
	for i := range shards {
		if shards[i].Keyspace == "" {
			continue
		}
		n++
		sum += measure(&shards[i])
		if most < 0 || measure(&shards[i]) > measure(&shards[most]) {
			most = i
		}
	}
	if most < 0 || sum == 0 {
		return nil
	}
	h := api.Hottest{By: by, Shard: shards[most].ID, Value: measure(&shards[most]), Mean: sum / float64(n)}
	h.Ratio = h.Value / h.Mean
	if h.Value < least || h.Ratio < minHottestRatio {
		return nil
	}
	return &h
}

func (a *Admin) listStores() []api.Store {
	groups := map[int]int{}
	for _, g := range a.o.DB.Groups() {
		groups[g.Store]++
	}
	all := []api.Store{}
	for i, m := range a.o.DB.Metrics().Stores {
		s := api.Store{
			ID: i, Groups: groups[i], TableBytes: m.TableBytes, LogWrittenBytes: m.LogBytes, LogSyncs: m.LogSyncs, CacheBytes: m.CacheBytes,
			UnappliedBytes: m.UnappliedBytes, CompactionDebtBytes: m.CompactionDebtBytes, QueueDepth: m.QueueDepth, Commands: m.Commands,
			ServiceP99Seconds: m.Service.Quantile(0.99).Seconds(), QueueWaitP99Seconds: m.QueueWait.Quantile(0.99).Seconds(), DiskFull: m.DiskFull,
		}
		if looks := m.CacheHits + m.CacheMisses; looks > 0 {
			s.CacheHitRatio = float64(m.CacheHits) / float64(looks)
		}
		if m.Failed != nil {
			s.Failed = m.Failed.Error()
		}
		all = append(all, s)
	}
	return all
}

const (
	// minSkewRatio and minSkewBytes are from when on one shard has too much: less is moved within
	// seconds, and needs no report.
	minSkewRatio = 4
	minSkewBytes = 256 << 20
	// nearLimitShare is from when on clients, or writes, are about to be turned away.
	nearLimitShare = 0.9
)

// checkHealth makes the verdict: that of the worst finding.
func (a *Admin) checkHealth(s *api.Status) {
	s.Findings = []api.Finding{}
	find := func(severity, fix, format string, args ...any) {
		s.Findings = append(s.Findings, api.Finding{Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	if a.draining.Load() {
		find(api.Unhealthy, "", "the server is about to end")
	}
	for _, st := range s.Stores {
		switch {
		case st.Failed != "":
			find(api.Unhealthy, "repair the cause and start the server again: what was acknowledged is there", "store %d has stopped: %s", st.ID, st.Failed)
		case st.DiskFull:
			find(api.Unhealthy, "free some room: writes go on by themselves", "the disk of store %d is full: writes are refused, reads go on", st.ID)
		}
	}
	switch share := float64(s.MemoryBytes) / float64(max(s.MaxMemoryBytes, 1)); {
	case s.MaxMemoryBytes == 0:
	case share > 1:
		find(api.Unhealthy, "cleave config set maxmemory=…, or delete something", "%s are in memory, and maxmemory is %s: writes are refused", output.Bytes(s.MemoryBytes), output.Bytes(s.MaxMemoryBytes))
	case share >= nearLimitShare:
		find(api.Degraded, "cleave config set maxmemory=…, or delete something", "%s are in memory, and maxmemory is %s: soon writes are refused", output.Bytes(s.MemoryBytes), output.Bytes(s.MaxMemoryBytes))
	}
	if s.MaxClients > 0 && float64(s.Clients) >= nearLimitShare*float64(s.MaxClients) {
		find(api.Degraded, "cleave client list", "nearly all connections are taken: %d of at most %d", s.Clients, s.MaxClients)
	}
	for _, j := range s.Jobs {
		if j.State == api.JobPaused {
			find(api.Degraded, "cleave job resume "+j.ID, "job %s, a %s, is paused", j.ID, j.Kind)
		}
	}
	for _, ix := range a.o.DB.Indexes() {
		if st, err := ix.Status(); err == nil && st.Err != nil {
			name, space := ix.Name(), ix.Keyspace().Name()
			find(api.Degraded, fmt.Sprintf("cleave index show %s --keyspace %s says why", name, space), "index %s of keyspace %s stands still: %s", name, space, operatorMessage(st.Err))
		}
	}
	a.checkDrainingGroups(s, find)
	a.checkHot(s, find)
	a.checkThrottles(s, find)
	if h := s.Fullest; h != nil && h.Ratio >= minSkewRatio && h.Value >= minSkewBytes {
		find(api.Degraded, fmt.Sprint("cleave shard split --shard ", h.Shard), "shard %d has %.1f times the bytes of the mean", h.Shard, h.Ratio)
	}
	if e, _ := a.node.Evenness(); e.Alarm && len(s.Hot) == 0 && sumOps(a.node.LoadRates()) >= minHottestOps {
		find(api.Degraded, "cleave hotkeys", "the load is uneven: a thousandth of the keys has %.0f %% of it", 100*e.TopShare)
	}
	worst := []string{api.Unhealthy, api.Degraded, api.Notice}
	slices.SortStableFunc(s.Findings, func(x, y api.Finding) int {
		return cmp.Compare(slices.Index(worst, x.Severity), slices.Index(worst, y.Severity))
	})
	s.Verdict = api.Healthy
	if len(s.Findings) > 0 && s.Findings[0].Severity != api.Notice {
		s.Verdict = s.Findings[0].Severity
	}
}

// checkDrainingGroups finds groups that were to be emptied and were not.
func (a *Admin) checkDrainingGroups(s *api.Status, find func(severity, fix, format string, args ...any)) {
	for _, g := range a.o.DB.Groups() {
		busy := slices.ContainsFunc(s.Jobs, func(j api.Job) bool { return j.Kind == "drain" || j.Kind == "regroup" })
		if g.Draining && g.Shards > 0 && !busy {
			find(api.Degraded, fmt.Sprint("cleave group drain ", uint64(g.ID)), "group %d takes no more shards and has %d, which no job moves", uint64(g.ID), g.Shards)
		}
	}
}

// healthRoutes are the paths for machines. A service manager has no token.
func (a *Admin) healthRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: api.PathLive, name: "live", summary: "Whether the process answers.", mediaType: "text/plain", statuses: []int{http.StatusOK}, public: true,
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = w.Write([]byte("ok\n"))
			},
		},
		{
			method: http.MethodGet, path: api.PathReady, name: "ready", summary: "Whether the server takes requests: 503 if it does not, and before its sockets close.",
			query: []param{{api.QueryVerbose, "boolean", "also tell what was looked at"}}, response: reflect.TypeFor[api.Ready](),
			statuses: []int{http.StatusOK, http.StatusServiceUnavailable}, public: true, handle: a.serveReady,
		},
		{
			method: http.MethodGet, path: api.PathMetrics, name: "metrics", summary: "Figures in the text format of Prometheus.", mediaType: metricsContentType, statuses: []int{http.StatusOK},
			handle: a.serveMetrics,
		},
		{
			method: http.MethodGet, path: api.PathOpenAPI, name: "openapi", summary: "This document.", mediaType: "application/json", statuses: []int{http.StatusOK},
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(openAPIDocument)
			},
		},
	}
}

func (a *Admin) serveReady(w http.ResponseWriter, r *http.Request) {
	query := []param{{api.QueryVerbose, "boolean", ""}}
	q, err := parseQuery(r, query)
	verbose := false
	if err == nil {
		verbose, err = q.getBool(api.QueryVerbose)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	answer := api.Ready{Ready: true, Checks: []api.Check{}}
	for _, c := range a.checkReadiness() {
		answer.Ready = answer.Ready && c.OK
		if verbose {
			answer.Checks = append(answer.Checks, c)
		}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// checkReadiness are what must hold for the server to be sent clients. A full disk is not among
// them: reads go on, and another server would not have the data.
func (a *Admin) checkReadiness() []api.Check {
	drain := api.Check{Name: "serving", OK: !a.draining.Load()}
	if !drain.OK {
		drain.Detail = "the server is about to end"
	}
	all := []api.Check{drain}
	for i, s := range a.o.DB.Metrics().Stores {
		c := api.Check{Name: fmt.Sprint("store-", i), OK: s.Failed == nil}
		if !c.OK {
			// Why it has failed may name files: that is for clients with the token.
			c.Detail = "the store has stopped: see " + api.PathStatus
		}
		all = append(all, c)
	}
	open := api.Check{Name: "open", OK: a.node.CheckOpen() == nil}
	if !open.OK {
		open.Detail = "the store is closed"
	}
	return append(all, open)
}

// healthPaths are served to connections that are let in for them alone.
var healthPaths = []string{api.PathLive, api.PathReady}

// registerProfiles adds the profiles of the process. They reveal more than figures do, and cost
// something: they need the token wherever the listener is.
func (a *Admin) registerProfiles(mux *http.ServeMux) {
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if e := a.guard.authorizeRequest(r, true, false); e != nil {
				a.replyDenied(w, r, "profiles", e)
				return
			}
			h(w, r)
		})
	}
}
