package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
)

// reply writes an answer. It is made whole first, so that a mistake in it is not half an
// answer with a good status.
func reply(w http.ResponseWriter, status int, answer any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true) // whoever shows it by mistake shows text
	if err := e.Encode(answer); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		_ = json.NewEncoder(&b).Encode(api.Failure{Error: api.Error{Code: api.CodeInternal, Message: err.Error()}})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// fail writes why there is no answer.
func fail(w http.ResponseWriter, err error) {
	e := problem(err)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="cleave"`)
	}
	reply(w, e.Status, api.Failure{Error: *e})
}

// invalid is a request that is none.
func invalid(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: message, Hint: hint}
}

// refused is what cannot be done as things are.
func refused(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusConflict, Code: api.CodeRefused, Message: message, Hint: hint}
}

// missing is something that there is not.
func missing(message, hint string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: message, Hint: hint}
}

// meanings says what the errors of package cleave are over HTTP.
var meanings = []struct {
	err    error
	status int
	code   string
}{
	{cleave.ErrNoKeyspace, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoIndex, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoShard, http.StatusNotFound, api.CodeNotFound},
	{cleave.ErrNoGroup, http.StatusNotFound, api.CodeNotFound},
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

// goWords are what errors of package cleave say to programs, and what operators do instead.
var goWords = strings.NewReplacer(
	"create it, or see DB.Keyspaces", "create it, or list the keyspaces",
	"create it, or see DB.Indexes", "list the indexes",
	"see DB.Jobs", "list the jobs",
	"see DB.Shards", "list the shards",
	"see DB.Groups", "list the groups",
	"use OpenIndex with it, or drop the index", "let a program that has it open the index, or drop the index",
)

// operators is an error in words for who operates the server.
func operators(err error) string {
	return goWords.Replace(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "cleave: "), "partition: "))
}

// problem is an error as clients are told.
func problem(err error) *api.Error {
	var known *api.Error
	if errors.As(err, &known) {
		return known
	}
	e := &api.Error{Status: http.StatusInternalServerError, Code: api.CodeInternal, Message: operators(err)}
	for _, m := range meanings {
		if errors.Is(err, m.err) {
			e.Status, e.Code = m.status, m.code
			break
		}
	}
	return e
}
