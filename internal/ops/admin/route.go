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

	"github.com/cleavekv/cleave/internal/ops/api"
)

// allRoutes is all that is served. The order is that of the document.
func (a *Admin) allRoutes() []route {
	return slices.Concat(a.readRoutes(), a.mapActionRoutes(), a.otherActionRoutes(), a.balanceRoutes(), a.healthRoutes(), []route{a.liveRoute()})
}

var keyspaceParam = param{api.QueryKeyspace, "string", "only those of a keyspace"}

// readRoutes are the routes for reads.
func (a *Admin) readRoutes() []route {
	return []route{
		newReadRoute(api.PathStatus, "status", "How the server is: the verdict first.", nil, a.getStatus),
		newReadRoute(api.PathMap, "map", "Which group has which keys, at one version.", nil, a.getMap),
		newListRoute(api.PathShards, "listShards", "Shards in the order of their keys.", []param{keyspaceParam, {api.QueryGroup, "integer", "only those of a group"}}, a.listShards),
		newReadRoute(api.PathShard, "getShard", "One shard, with its explanation.", nil, a.getShard),
		newListRoute(api.PathGroups, "listGroups", "Groups by id.", nil, a.listGroups),
		newListRoute(api.PathKeyspaces, "listKeyspaces", "Keyspaces by name.", nil, a.listKeyspaces),
		newListRoute(api.PathIndexes, "listIndexes", "Indexes by keyspace and name, with how they are.", []param{keyspaceParam}, a.listIndexes),
		newListRoute(api.PathJobs, "listJobs", "Jobs under way and the last ones that have ended, the oldest first.", []param{{api.QueryState, "string", "only those in a state"}}, a.listJobs),
		newReadRoute(api.PathJob, "getJob", "One job.", nil, a.getJob),
		newListRoute(api.PathSagas, "listSagas", "Sagas of a journal: those that have not ended, then the others, each by id.", []param{
			{api.QueryKeyspace, "string", "the keyspace of the journal: default sagas"}, {api.QueryState, "string", "only those in a state: running, compensating, completed, compensated or stuck"},
		}, a.listSagas),
		newReadRoute(api.PathExplain, "explain", "Where a key, a slot or a shard is, and why. One of them is given.", []param{
			{api.QueryKeyspace, "string", "the keyspace of the key or slot: default the default one"}, {api.QueryKey, "key", "a key"},
			{api.QuerySlot, "integer", "a slot of a hash keyspace"}, {api.QueryShard, "integer", "a shard"},
		}, a.explainLocation),
		newReadRoute(api.PathHotKeys, "hotKeys", "The keys that are asked for most, with error bounds, commands and clients.", []param{
			{api.QueryBy, "string", "ops, bytes, time or conflicts: default ops"}, {api.QueryN, "integer", "how many: default 20, at most 512"},
			keyspaceParam, {api.QueryShard, "integer", "only those of a shard"},
		}, a.listHotKeys),
		newReadRoute(api.PathHeatMap, "heatMap", "What was asked by time and key range, since the server has started.", []param{
			{api.QueryMetric, "string", "ops, reads, writes, bytes_in, bytes_out, conflicts or p99: default ops"},
			{api.QueryFrom, "string", "a time in RFC 3339, or how long ago, such as -30m: default as far back as is known"}, {api.QueryTo, "string", "the same: default now"},
			keyspaceParam, {api.QueryStart, "key", "the first key, of a range keyspace"}, {api.QueryEnd, "key", "the key behind the last"},
			{api.QueryStartAt, "string", "where the first row begins: at of a row of another answer"}, {api.QueryEndAt, "string", "at of the row behind the last"},
			{api.QueryCells, "string", "values or levels: default values"},
			{api.QueryRows, "integer", "how many rows at most: default 360, at most 512"}, {api.QueryColumns, "integer", "how many columns at most: default 360, at most 1000"},
		}, a.getHeatMap),
		newReadRoute(api.PathTraffic, "traffic", "Operations of a sample as they come. The first request begins it.", []param{
			keyspaceParam, {api.QueryAfter, "string", "where to go on: next of the answer before"},
		}, a.getTraffic),
		newListRoute(api.PathClients, "listClients", "Connections of Redis clients, the oldest first.", nil, a.listClients),
		newListRoute(api.PathSlowlog, "listSlow", "Requests that took long, the newest first, without their values.", nil, a.listSlowlog),
		newListRoute(api.PathEvents, "listEvents", "What happened, the newest first: starts, jobs, throttles, changes. Those about keys have their range.", eventParams, a.listEvents),
		newListRoute(api.PathCaps, "listCaps", "Caps of writes that hold, by number.", nil, a.listCaps),
		newListRoute(api.PathConfig, "listSettings", "Settings of the server.", nil, a.listSettings),
		newListRoute(api.PathBackups, "listBackups", "Backups, the oldest first.", nil, a.listBackups),
		newListRoute(api.PathAudit, "listAudit", "The newest entries of the audit log, the newest first.", nil, a.listAudit),
	}
}

// mapActionRoutes change which group has which keys.
func (a *Admin) mapActionRoutes() []route {
	return []route{
		newActionRoute(a, api.PathSplit, "split", "Cut shards at slots or keys, or one in its middle.", a.planSplit),
		newActionRoute(a, api.PathPresplit, "presplit", "Cut a keyspace into many shards before it has many keys.", a.planPresplit),
		newActionRoute(a, api.PathMerge, "merge", "Join two shards that are neighbours.", a.planMerge),
		newActionRoute(a, api.PathMove, "move", "Give a shard to another group.", a.planMove),
		newActionRoute(a, api.PathDrain, "drain", "Move all shards of a group to others.", a.planDrain),
		newActionRoute(a, api.PathUndrain, "undrain", "Let a group have shards again.", a.planUndrain),
		newActionRoute(a, api.PathRegroup, "regroup", "Change how many groups there are.", a.planRegroup),
		newActionRoute(a, api.PathPauseJob, "pauseJob", "Let a job begin nothing more that carries rows.", a.planPauseJob),
		newActionRoute(a, api.PathResumeJob, "resumeJob", "Let a paused job go on.", a.planResumeJob),
		newActionRoute(a, api.PathCancelJob, "cancelJob", "Take a job back.", a.planCancelJob),
		newActionRoute(a, api.PathThrottleJob, "throttleJob", "Bound how fast a job copies rows.", a.planThrottleJob),
	}
}

// otherActionRoutes change what else there is.
func (a *Admin) otherActionRoutes() []route {
	return []route{
		newActionRoute(a, api.PathCreateKeyspace, "createKeyspace", "Make a keyspace.", a.planCreateKeyspace),
		newActionRoute(a, api.PathDropKeyspace, "dropKeyspace", "Remove a keyspace with all its keys and indexes.", a.planDropKeyspace),
		newActionRoute(a, api.PathDropIndex, "dropIndex", "Remove an index.", a.planDropIndex),
		newActionRoute(a, api.PathSetCap, "setCap", "Limit the writes of a shard or prefix.", a.planSetCap),
		newActionRoute(a, api.PathRemoveCap, "removeCap", "Remove a cap.", a.planRemoveCap),
		newActionRoute(a, api.PathSetConfig, "setConfig", "Change settings, all or none, until the server ends.", a.planSetConfig),
		newActionRoute(a, api.PathCreateBackup, "createBackup", "Copy the store while it works.", a.planCreateBackup),
		newActionRoute(a, api.PathVerifyBackup, "verifyBackup", "Open a copy of a backup and read all of it.", a.planVerifyBackup),
		newActionRoute(a, api.PathRestoreBackup, "restoreBackup", "Make a directory of data from a backup, to be served by another server.", a.planRestoreBackup),
		newDeleteRoute(a, api.PathBackups, "deleteBackup", "Remove a backup, whole or unfinished.", []param{
			{api.QueryName, "string", "its name"}, {api.QueryRestored, "boolean", "the one of that name that was restored, instead of the backup"},
		}, a.planDeleteBackup),
	}
}

// route is a path with a method: all that there is to know about it. The handlers, what
// they refuse, and the OpenAPI document are made of it.
type route struct {
	method, path string
	// name is what it is called in the document, summary what it does.
	name, summary string
	query         []param
	// request and answer are the types of the bodies, nil for none.
	request, response reflect.Type
	// statuses are those of answers that are no errors.
	statuses []int
	// mediaType is the media type of an answer that is not JSON.
	mediaType string
	// public reports whether it never needs a token.
	public bool
	// endless means that its answer lasts as long as the client: no time is up for it.
	endless bool
	handle  func(w http.ResponseWriter, r *http.Request)
}

// isAction reports whether it changes something.
func (rt *route) isAction() bool { return rt.method != http.MethodGet }

// newReadRoute makes a route for reads.
func newReadRoute[T any](path, name, summary string, query []param, f func(ctx context.Context, q *query) (T, error)) route {
	rt := route{method: http.MethodGet, path: path, name: name, summary: summary, query: query, response: reflect.TypeFor[T](), statuses: []int{http.StatusOK}}
	rt.handle = func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r, query)
		if err != nil {
			writeError(w, err)
			return
		}
		answer, err := f(r.Context(), q)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	}
	return rt
}

// newListRoute makes a route that returns a list in pages.
func newListRoute[T any](path, name, summary string, query []param, f func(ctx context.Context, q *query) (api.Page[T], error)) route {
	return newReadRoute(path, name, summary, slices.Concat(query, pageParams), f)
}

// plannedChange is an action that was planned.
type plannedChange struct {
	plan api.Plan
	// apply makes it. What it begins and does not end is a job.
	apply func(ctx context.Context) (*api.Job, error)
}

// newActionRoute makes a route that changes something: f plans it.
func newActionRoute[T any](a *Admin, path, name, summary string, f func(ctx context.Context, q *query, request T) (*plannedChange, error)) route {
	query := []param{{api.QueryDryRun, "boolean", "only tell what would be done"}}
	rt := route{
		method: http.MethodPost, path: path, name: name, summary: summary, query: query,
		request: reflect.TypeFor[T](), response: reflect.TypeFor[api.Action](), statuses: []int{http.StatusOK, http.StatusAccepted},
	}
	rt.handle = func(w http.ResponseWriter, r *http.Request) {
		var request T
		q, err := parseQuery(r, query)
		if err == nil {
			err = decodeBody(w, r, &request)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		a.planOrApply(w, r, name, q, func() (*plannedChange, error) { return f(r.Context(), q, request) })
	}
	return rt
}

// newDeleteRoute makes a route that deletes what its query names: f plans it.
func newDeleteRoute(a *Admin, path, name, summary string, query []param, f func(ctx context.Context, q *query) (*plannedChange, error)) route {
	query = append(query, param{api.QueryDryRun, "boolean", "only tell what would be done"})
	rt := route{
		method: http.MethodDelete, path: path, name: name, summary: summary, query: query,
		response: reflect.TypeFor[api.Action](), statuses: []int{http.StatusOK, http.StatusAccepted},
	}
	rt.handle = func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r, query)
		if err != nil {
			writeError(w, err)
			return
		}
		a.planOrApply(w, r, name, q, func() (*plannedChange, error) { return f(r.Context(), q) })
	}
	return rt
}

// planOrApply plans a change, and makes it unless only the plan was asked for.
func (a *Admin) planOrApply(w http.ResponseWriter, r *http.Request, name string, q *query, plan func() (*plannedChange, error)) {
	dry, err := q.getBool(api.QueryDryRun)
	if err != nil {
		writeError(w, err)
		return
	}
	c, err := plan()
	if err != nil {
		writeError(w, err)
		return
	}
	if c.plan.Steps == nil {
		c.plan.Steps = []string{}
	}
	if dry {
		writeJSON(w, http.StatusOK, api.Action{DryRun: true, Plan: c.plan})
		return
	}
	a.applyChange(w, r, name, c)
}

// applyChange makes a change that was planned, between two entries of the audit log. It goes on
// when the client leaves: half a change is of no use, and the log says how it ended.
func (a *Admin) applyChange(w http.ResponseWriter, r *http.Request, name string, c *plannedChange) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	done, err := a.audit.beginChange(r, name, c.plan.Summary)
	if err != nil {
		writeError(w, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: "nothing was changed: the audit log cannot be written: " + err.Error()})
		return
	}
	job, err := c.apply(ctx)
	done(job, err)
	if err != nil {
		writeError(w, err)
		return
	}
	status := http.StatusOK
	if job != nil { // even if it is over by now: what an action answers is no race
		status = http.StatusAccepted
		w.Header().Set("Location", strings.Replace(api.PathJob, "{id}", job.ID, 1))
	}
	writeJSON(w, status, api.Action{Plan: c.plan, Job: job})
}

// decodeBody reads the request of an action: one object with the fields that it knows.
func decodeBody(w http.ResponseWriter, r *http.Request, request any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &api.Error{Status: http.StatusUnsupportedMediaType, Code: api.CodeInvalid, Message: "the body is not JSON", Hint: "send it with Content-Type: application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge, Message: "the body is larger than " + strconv.Itoa(maxBodyBytes) + " bytes"}
	}
	if err != nil {
		return newInvalidError("the body cannot be read: "+err.Error(), "")
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(request); err != nil {
		return newInvalidError("the body is not what is asked for: "+strings.TrimPrefix(err.Error(), "json: "), "see "+api.PathOpenAPI)
	}
	if _, err := d.Token(); err != io.EOF {
		return newInvalidError("the body has more than one object", "send one")
	}
	return nil
}

// newHandler serves the routes.
func (a *Admin) newHandler() http.Handler {
	mux := http.NewServeMux()
	paths := map[string]map[string]route{}
	for _, rt := range a.allRoutes() {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]route{}
		}
		paths[rt.path][rt.method] = rt
	}
	for p, methods := range paths {
		mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) { a.serveRoute(w, r, methods) })
	}
	if a.o.Pprof {
		a.registerProfiles(mux)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		a.serveRoute(w, r, map[string]route{http.MethodGet: frontRoute})
	})
	mux.HandleFunc(assetRoute.path, func(w http.ResponseWriter, r *http.Request) {
		a.serveRoute(w, r, map[string]route{http.MethodGet: assetRoute})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, notFoundError("there is nothing at "+strconv.Quote(r.URL.Path), "see "+api.PathOpenAPI))
	})
	a.initLive(mux)
	return a.wrapHandler(mux)
}

// wrapHandler is what is done with every request before its path is looked at.
func (a *Admin) wrapHandler(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		seen := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		began := time.Now()
		_, pattern := mux.Handler(r)
		r, spanned := a.startSpan(r, pattern)
		defer func() {
			if p := recover(); p != nil {
				a.requests.recordPanic()
				if !seen.wroteHeader {
					writeError(seen, &api.Error{Status: http.StatusInternalServerError, Code: api.CodeInternal, Message: "a mistake of the server"})
				}
			}
			a.requests.recordRequest(r.Method, pattern, seen.status, time.Since(began))
			spanned(seen.status)
		}()
		if e := a.guard.checkOrigin(r); e != nil {
			a.replyDenied(seen, r, "any", e)
			return
		}
		if isHealthOnly(r) && !a.serveHealthOnly(seen, r) {
			return
		}
		// The mux would send a path with dots or empty parts elsewhere.
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			writeError(seen, notFoundError("there is nothing at "+strconv.Quote(r.URL.Path), "see "+api.PathOpenAPI))
			return
		}
		mux.ServeHTTP(seen, r)
	})
}

// serveRoute answers a request for a path.
func (a *Admin) serveRoute(w http.ResponseWriter, r *http.Request, methods map[string]route) {
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
		writeError(w, &api.Error{Status: http.StatusMethodNotAllowed, Code: api.CodeMethod, Message: r.Method + " is not for this path", Hint: "use " + strings.Join(allow, " or ")})
		return
	}
	if !rt.public {
		if e := a.guard.authorizeRequest(r, rt.isAction(), true); e != nil {
			if rt.isAction() {
				a.audit.recordDenied(r, rt.name)
			}
			a.replyDenied(w, r, rt.name, e)
			return
		}
	}
	if !rt.isAction() && !rt.endless {
		ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	rt.handle(w, r)
}

// serveHealthOnly prepares a request that came by a connection for health alone, and reports
// whether it is about that. The connection is not kept, and no body is waited for, so that there
// is room for the next one.
func (a *Admin) serveHealthOnly(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	if slices.Contains(healthPaths, r.URL.Path) {
		return true
	}
	writeError(w, &api.Error{
		Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable,
		Message: "all connections for operators are in use", Hint: "ask again in a while",
	})
	return false
}

// replyDenied answers a request that may not do what it asks for, and logs it.
func (a *Admin) replyDenied(w http.ResponseWriter, r *http.Request, action string, e *api.Error) {
	a.eventLog.Warn("operator request denied", "reason", e.Message, "action", action, "addr", r.RemoteAddr)
	writeError(w, e)
}

// statusRecorder remembers how a request was answered.
type statusRecorder struct {
	http.ResponseWriter
	status      int
	wroteHeader bool
}

// WriteHeader begins the answer.
func (w *statusRecorder) WriteHeader(status int) {
	w.status, w.wroteHeader = status, true
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
