package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

// route is a path with a method: all that there is to know about it. The handlers, what
// they refuse, and the OpenAPI document are made of it.
type route struct {
	method, path string
	// name is what it is called in the document, summary what it does.
	name, summary string
	query         []param
	// request and answer are the types of the bodies, nil for none.
	request, answer reflect.Type
	// statuses are those of answers that are no errors.
	statuses []int
	// text is the media type of an answer that is not JSON.
	text string
	// public tells that it never needs a token.
	public bool
	handle func(w http.ResponseWriter, r *http.Request)
}

// acts tells whether it changes something.
func (rt *route) acts() bool { return rt.method != http.MethodGet }

// read makes a route that tells something.
func read[T any](path, name, summary string, query []param, f func(ctx context.Context, q *query) (T, error)) route {
	rt := route{method: http.MethodGet, path: path, name: name, summary: summary, query: query, answer: reflect.TypeFor[T](), statuses: []int{http.StatusOK}}
	rt.handle = func(w http.ResponseWriter, r *http.Request) {
		q, err := readQuery(r, query)
		if err != nil {
			fail(w, err)
			return
		}
		answer, err := f(r.Context(), q)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, answer)
	}
	return rt
}

// list makes a route that tells a list in pages.
func list[T any](path, name, summary string, query []param, f func(ctx context.Context, q *query) (api.Page[T], error)) route {
	return read(path, name, summary, slices.Concat(query, paging), f)
}

// change is an action that was planned.
type change struct {
	plan api.Plan
	// do makes it. What it begins and does not end is a job.
	do func(ctx context.Context) (*api.Job, error)
}

// action makes a route that changes something: f plans it.
func action[T any](a *Admin, path, name, summary string, f func(ctx context.Context, q *query, request T) (*change, error)) route {
	query := []param{{api.QueryDryRun, "boolean", "only tell what would be done"}}
	rt := route{
		method: http.MethodPost, path: path, name: name, summary: summary, query: query,
		request: reflect.TypeFor[T](), answer: reflect.TypeFor[api.Action](), statuses: []int{http.StatusOK, http.StatusAccepted},
	}
	rt.handle = func(w http.ResponseWriter, r *http.Request) {
		var request T
		q, err := readQuery(r, query)
		if err == nil {
			err = readBody(w, r, &request)
		}
		dry := false
		if err == nil {
			dry, err = q.truth(api.QueryDryRun)
		}
		if err != nil {
			fail(w, err)
			return
		}
		c, err := f(r.Context(), q, request)
		if err != nil {
			fail(w, err)
			return
		}
		if c.plan.Steps == nil {
			c.plan.Steps = []string{}
		}
		if dry {
			reply(w, http.StatusOK, api.Action{DryRun: true, Plan: c.plan})
			return
		}
		a.act(w, r, name, c)
	}
	return rt
}

// act makes a change that was planned, between two entries of the audit log. It goes on
// when the client leaves: half a change helps nobody, and the log says how it ended.
func (a *Admin) act(w http.ResponseWriter, r *http.Request, name string, c *change) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTime)
	defer cancel()
	done, err := a.audit.begin(r, name, c.plan.Summary)
	if err != nil {
		fail(w, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: "nothing was changed: the audit log cannot be written: " + err.Error()})
		return
	}
	job, err := c.do(ctx)
	done(job, err)
	if err != nil {
		fail(w, err)
		return
	}
	status := http.StatusOK
	if job != nil { // even if it is over by now: what an action answers is no race
		status = http.StatusAccepted
		w.Header().Set("Location", strings.Replace(api.PathJob, "{id}", job.ID, 1))
	}
	reply(w, status, api.Action{Plan: c.plan, Job: job})
}

// readBody reads the request of an action: one object with the fields that it knows.
func readBody(w http.ResponseWriter, r *http.Request, request any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &api.Error{Status: http.StatusUnsupportedMediaType, Code: api.CodeInvalid, Message: "the body is not JSON", Hint: "send it with Content-Type: application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge, Message: "the body is larger than " + strconv.Itoa(maxBody) + " bytes"}
	}
	if err != nil {
		return invalid("the body cannot be read: "+err.Error(), "")
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(request); err != nil {
		return invalid("the body is not what is asked for: "+strings.TrimPrefix(err.Error(), "json: "), "see "+api.PathOpenAPI)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("the body has more than one object", "send one")
	}
	return nil
}

// handler serves the routes.
func (a *Admin) handler() http.Handler {
	mux := http.NewServeMux()
	paths := map[string]map[string]route{}
	for _, rt := range a.routes() {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]route{}
		}
		paths[rt.path][rt.method] = rt
	}
	for p, methods := range paths {
		mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, methods) })
	}
	if a.o.Pprof {
		a.profiles(mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, missing("there is nothing at "+strconv.Quote(r.URL.Path), "see "+api.PathOpenAPI))
	})
	return a.outermost(mux)
}

// outermost is what is done with every request before its path is looked at.
func (a *Admin) outermost(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		seen := &watched{ResponseWriter: w, status: http.StatusOK}
		began := time.Now()
		_, pattern := mux.Handler(r)
		r, spanned := a.span(r, pattern)
		defer func() {
			if p := recover(); p != nil {
				a.asked.panicked()
				if !seen.begun {
					fail(seen, &api.Error{Status: http.StatusInternalServerError, Code: api.CodeInternal, Message: "a mistake of the server"})
				}
			}
			a.asked.count(r.Method, pattern, seen.status, time.Since(began))
			spanned(seen.status)
		}()
		if e := a.guard.refuses(r); e != nil {
			fail(seen, e)
			return
		}
		// The mux would send a path with dots or empty parts elsewhere.
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			fail(seen, missing("there is nothing at "+strconv.Quote(r.URL.Path), "see "+api.PathOpenAPI))
			return
		}
		mux.ServeHTTP(seen, r)
	})
}

// serve answers a request for a path.
func (a *Admin) serve(w http.ResponseWriter, r *http.Request, methods map[string]route) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	rt, ok := methods[method]
	if !ok {
		var allow []string
		for m := range methods {
			allow = append(allow, m)
		}
		slices.Sort(allow)
		w.Header().Set("Allow", strings.Join(allow, ", "))
		fail(w, &api.Error{Status: http.StatusMethodNotAllowed, Code: api.CodeMethod, Message: r.Method + " is not for this path", Hint: "use " + strings.Join(allow, " or ")})
		return
	}
	if !rt.public && (rt.acts() || !a.guard.open) && !a.guard.admits(r) {
		if rt.acts() {
			a.audit.deny(r, rt.name)
		}
		fail(w, unauthorized(r))
		return
	}
	if !rt.acts() {
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		defer cancel()
		r = r.WithContext(ctx)
	}
	rt.handle(w, r)
}

// watched remembers how a request was answered.
type watched struct {
	http.ResponseWriter
	status int
	begun  bool
}

// WriteHeader begins the answer.
func (w *watched) WriteHeader(status int) {
	w.status, w.begun = status, true
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
