package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"reflect"

	"github.com/cleavekv/cleave/internal/api"
)

// health are the paths that machines ask for. Who starts and stops servers has no token.
func (a *Admin) health() []route {
	return []route{
		{
			method: http.MethodGet, path: api.PathLive, name: "live", summary: "Whether the process answers.", text: "text/plain", statuses: []int{http.StatusOK}, public: true,
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = w.Write([]byte("ok\n"))
			},
		},
		{
			method: http.MethodGet, path: api.PathReady, name: "ready", summary: "Whether the server takes requests: 503 if it does not, and before its sockets close.",
			query: []param{{api.QueryVerbose, "boolean", "also tell what was looked at"}}, answer: reflect.TypeFor[api.Ready](),
			statuses: []int{http.StatusOK, http.StatusServiceUnavailable}, public: true, handle: a.ready,
		},
		{
			method: http.MethodGet, path: api.PathMetrics, name: "metrics", summary: "Figures in the text format of Prometheus.", text: metricsType, statuses: []int{http.StatusOK},
			handle: a.metrics,
		},
		{
			method: http.MethodGet, path: api.PathOpenAPI, name: "openapi", summary: "This document.", text: "application/json", statuses: []int{http.StatusOK},
			handle: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(document)
			},
		},
	}
}

func (a *Admin) ready(w http.ResponseWriter, r *http.Request) {
	query := []param{{api.QueryVerbose, "boolean", ""}}
	q, err := readQuery(r, query)
	verbose := false
	if err == nil {
		verbose, err = q.truth(api.QueryVerbose)
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer := api.Ready{Ready: true, Checks: []api.Check{}}
	for _, c := range a.checks() {
		answer.Ready = answer.Ready && c.OK
		if verbose {
			answer.Checks = append(answer.Checks, c)
		}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, answer)
}

// checks are what must hold for the server to be sent clients. A full disk is not among
// them: reads go on, and another server would not have the data.
func (a *Admin) checks() []api.Check {
	drain := api.Check{Name: "serving", OK: !a.draining.Load()}
	if !drain.OK {
		drain.Detail = "the server is about to end"
	}
	all := []api.Check{drain}
	for i, s := range a.o.DB.Metrics().Stores {
		c := api.Check{Name: fmt.Sprint("store-", i), OK: s.Failed == nil}
		if !c.OK {
			// Why it has failed may name files: that is for those who have the token.
			c.Detail = "the store has stopped: see " + api.PathStatus
		}
		all = append(all, c)
	}
	open := api.Check{Name: "open", OK: a.node.Closed() == nil}
	if !open.OK {
		open.Detail = "the store is closed"
	}
	return append(all, open)
}

// profiles adds the profiles of the process. They tell more than figures do, and cost
// something: they need the token wherever the listener is.
func (a *Admin) profiles(mux *http.ServeMux) {
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !a.guard.admits(r) {
				fail(w, unauthorized(r))
				return
			}
			h(w, r)
		})
	}
}
