package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// param is a name that may be in a query.
type param struct {
	name string
	// kind is string, key, integer, boolean or paramRepeated.
	kind        string
	description string
}

// paramRepeated is the kind of a text that may be given several times.
const paramRepeated = "repeated"

// query is what a request asks for: the parameters that its path knows, most of them at most
// once.
type query struct {
	values url.Values
	id     string // from the path
}

// parseQuery takes the query of a request apart.
func parseQuery(r *http.Request, params []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newInvalidError("the query cannot be read: "+err.Error(), "")
	}
	for name, v := range values {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if i < 0 {
			names := ""
			for i, p := range params {
				if i > 0 {
					names += ", "
				}
				names += p.name
			}
			if names == "" {
				names = "none"
			}
			return nil, newInvalidError("unknown parameter "+strconv.Quote(name), "this path takes: "+names)
		}
		if len(v) > 1 && params[i].kind != paramRepeated {
			return nil, newInvalidError("parameter "+name+" is given twice", "give it once")
		}
	}
	return &query{values, r.PathValue("id")}, nil
}

func (q *query) has(name string) bool { return q.values.Has(name) }

func (q *query) getString(name string) string { return q.values.Get(name) }

func (q *query) getKey(name string) (api.Key, error) {
	k, err := api.ParseKey(q.values.Get(name))
	if err != nil {
		return nil, newInvalidError(err.Error(), "")
	}
	return k, nil
}

// getUint reads a number that is not negative, def if there is none.
func (q *query) getUint(name string, def uint64) (uint64, error) {
	if !q.has(name) {
		return def, nil
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 63)
	if err != nil {
		return 0, newInvalidError("parameter "+name+" is "+strconv.Quote(q.values.Get(name)), "give a number that is not negative")
	}
	return n, nil
}

// getBool reads yes or no. The name alone is yes.
func (q *query) getBool(name string) (bool, error) {
	if !q.has(name) {
		return false, nil
	}
	switch q.values.Get(name) {
	case "", "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, newInvalidError("parameter "+name+" is "+strconv.Quote(q.values.Get(name)), "give true or false")
}

// pathID is a number in the path.
func (q *query) pathID(what string) (uint64, error) {
	n, err := strconv.ParseUint(q.id, 10, 63)
	if err != nil || n == 0 {
		return 0, newInvalidError(what+" "+strconv.Quote(q.id)+" is no id", "give a number")
	}
	return n, nil
}

// pageParams are the parameters of lists.
var pageParams = []param{
	{api.QueryLimit, "integer", "how many items the page has at most: default 200, at most 1000"},
	{api.QueryAfter, "string", "where to go on: next of the page before"},
}

// parsePageLimit is how many items the page has at most.
func (q *query) parsePageLimit() (int, error) {
	n, err := q.getUint(api.QueryLimit, api.DefaultPageItems)
	if err == nil && (n < 1 || n > api.MaxPageItems) {
		return 0, newInvalidError("parameter limit is "+strconv.FormatUint(n, 10), "give 1 to "+strconv.Itoa(api.MaxPageItems))
	}
	return int(n), err
}

// cutPage cuts the next page out of a list whose items have places that grow, or shrink if
// the newest is first. Items that come and go meanwhile do not move the others.
func cutPage[T any](q *query, items []T, place func(i int, item T) uint64, shrink bool) (api.Page[T], error) {
	p := api.Page[T]{Items: []T{}}
	limit, err := q.parsePageLimit()
	if err != nil {
		return p, err
	}
	after, err := q.getUint(api.QueryAfter, 0)
	if err != nil {
		return p, err
	}
	for i, item := range items {
		at := place(i, item)
		if q.has(api.QueryAfter) && (shrink && at >= after || !shrink && at <= after) {
			continue
		}
		if len(p.Items) == limit {
			last := place(i-1, items[i-1])
			p.Next = strconv.FormatUint(last, 10)
			return p, nil
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// byIndex is the place of an item in a list that has no better one.
func byIndex[T any](i int, _ T) uint64 { return uint64(i) }

// writeJSON writes an answer. It is made whole first, so that a mistake in it is not half an
// answer with a good status.
func writeJSON(w http.ResponseWriter, status int, answer any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true) // shown as a page by mistake, it is text
	if err := e.Encode(answer); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		_ = json.NewEncoder(&b).Encode(api.Failure{Error: api.Error{Code: api.CodeInternal, Message: err.Error()}})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// writeError writes why there is no answer.
func writeError(w http.ResponseWriter, err error) {
	e := toAPIError(err)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="cleave"`)
	}
	writeJSON(w, e.Status, api.Failure{Error: *e})
}

// newInvalidError is a request that is none.
func newInvalidError(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: message, Hint: hint}
}

// newRefusedError is what cannot be done as things are.
func newRefusedError(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusConflict, Code: api.CodeRefused, Message: message, Hint: hint}
}

// notFoundError is something that there is not.
func notFoundError(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: message, Hint: hint}
}

// errorMappings is what the errors of package cleave are over HTTP.
var errorMappings = []struct {
	err    error
	status int
	code   string
}{
	{cleave.ErrNoKeyspace, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoIndex, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoShard, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoGroup, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoCap, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoJob, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrKeyspaceExists, http.StatusConflict, api.CodeExists},
	{cleave.ErrBusy, http.StatusConflict, api.CodeBusy},
	{cleave.ErrNoChange, http.StatusConflict, api.CodeNoChange},
	{cleave.ErrTooLate, http.StatusConflict, api.CodeTooLate},
	{cleave.ErrJobEnded, http.StatusConflict, api.CodeTooLate},
	{cleave.ErrDraining, http.StatusConflict, api.CodeRefused},
	{cleave.ErrNotNeighbours, http.StatusConflict, api.CodeRefused},
	{cleave.ErrDifferentGroups, http.StatusConflict, api.CodeRefused},
	{cleave.ErrNowhere, http.StatusConflict, api.CodeRefused},
	{cleave.ErrCatalog, http.StatusConflict, api.CodeRefused},
	{cleave.ErrBoundary, http.StatusBadRequest, api.CodeInvalid},
	{cleave.ErrOptions, http.StatusBadRequest, api.CodeInvalid},
	{cleave.ErrTooLarge, http.StatusBadRequest, api.CodeInvalid},
	{cleave.ErrClosed, http.StatusServiceUnavailable, api.CodeUnavailable},
	{cleave.ErrFailed, http.StatusServiceUnavailable, api.CodeUnavailable},
	{cleave.ErrCorrupt, http.StatusServiceUnavailable, api.CodeUnavailable},
	{cleave.ErrDiskFull, http.StatusInsufficientStorage, api.CodeUnavailable},
	{cleave.ErrOverloaded, http.StatusServiceUnavailable, api.CodeUnavailable},
	{cleave.ErrSnapshots, http.StatusServiceUnavailable, api.CodeUnavailable},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, api.CodeTimeout},
	{context.Canceled, http.StatusServiceUnavailable, api.CodeUnavailable},
}

// operatorWords are what errors of package cleave say to programs, and what operators do instead.
var operatorWords = strings.NewReplacer(
	"create it, or see DB.Keyspaces", "create it, or list the keyspaces",
	"create it, or see DB.Indexes", "list the indexes",
	"see DB.Jobs", "list the jobs",
	"see DB.Shards", "list the shards",
	"see DB.Groups", "list the groups",
	"see DB.Caps", "list the caps",
	"use OpenIndex with it, or drop the index", "let a program that has it open the index, or drop the index",
)

// operatorMessage is the text of an error for operators of the server.
func operatorMessage(err error) string {
	return operatorWords.Replace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "cleave: "), "partition: "))
}

// toAPIError is an error as clients see it.
func toAPIError(err error) *api.Error {
	var known *api.Error
	if errors.As(err, &known) {
		return known
	}
	e := &api.Error{Status: http.StatusInternalServerError, Code: api.CodeInternal, Message: operatorMessage(err)}
	for _, m := range errorMappings {
		if errors.Is(err, m.err) {
			e.Status, e.Code = m.status, m.code
			break
		}
	}
	return e
}
