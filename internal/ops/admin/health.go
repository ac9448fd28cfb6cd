package admin

import (
	"fmt"
	"html"
	"net/http"
	"net/http/pprof"
	"reflect"
	"strings"

	"github.com/cleavekv/cleave/internal/ops/api"
)

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

// frontRoute is the first page: where to go from here. It reveals nothing about the server, and needs
// no token.
var frontRoute = route{method: http.MethodGet, path: "/", name: "front", public: true, handle: serveFront}

// frontLinks are what the first page names.
var frontLinks = []struct{ path, about string }{
	{api.PathStatus, "how the server is, the verdict first"},
	{api.PathOpenAPI, "every path of the API, as an OpenAPI document"},
	{api.PathMetrics, "figures for Prometheus"},
	{api.PathLive, "whether the process answers"},
	{api.PathReady, "whether the server takes requests; ?verbose says why not"},
}

const docsURL = "https://github.com/cleavekv/cleave/blob/main/docs/http.md"

// serveFront answers in HTML to a browser, which asks for it, and else in plain text.
func serveFront(w http.ResponseWriter, r *http.Request) {
	var b strings.Builder
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		b.WriteString("<!doctype html>\n<html lang=\"en\">\n<title>Cleave</title>\n<h1>Cleave</h1>\n<p>This is the HTTP port for operators. Redis clients use another one.</p>\n<ul>\n")
		for _, s := range frontLinks {
			fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>: %s</li>\n", s.path, s.path, html.EscapeString(s.about))
		}
		fmt.Fprintf(&b, "</ul>\n<p>On the command line: <code>cleave status</code>. <a href=\"%s\">Documentation</a></p>\n</html>\n", docsURL)
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		b.WriteString("Cleave: the HTTP port for operators. Redis clients use another one.\n\n")
		for _, s := range frontLinks {
			fmt.Fprintf(&b, "%-21s %s\n", s.path, s.about)
		}
		b.WriteString("\nOn the command line: cleave status\nDocumentation: " + docsURL + "\n")
	}
	_, _ = w.Write([]byte(b.String()))
}
