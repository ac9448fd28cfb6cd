// Package api answers one question: what do a server and its operators say to each other
// over HTTP?
//
// It has the requests and answers of /api/v1 as plain structs, the form of errors, and a
// Client. The server (package admin) and the command line are both made of it, so neither
// can mean something else by a name.
//
// # Promises
//
//   - Names in JSON and codes of errors do not change within v1; new ones may be added, so
//     a reader leaves alone what it does not know. A server refuses fields that it does not
//     know: what was misspelt must not be left out in silence.
//   - Bytes of keys are written in one form that loses nothing and shows nothing hostile:
//     see Key.
//   - Durations are seconds, sizes are bytes, times are RFC 3339; the name says which.
//   - A GET changes nothing. Whatever changes something is a POST to a noun and a verb, or the
//     DELETE of what a query names, has a form that only returns what it would do
//     (?dry_run=true), and needs a token.
//
// The limit: a list comes in pages of at most MaxPage, each of its own moment. What changes
// between two pages may be missed.
package api

import (
	"errors"
	"fmt"
	"strconv"
)

// DefaultAddr is where a server listens unless configured otherwise.
const DefaultAddr = "127.0.0.1:7380"

// EnvAddr is the variable that names another.
const EnvAddr = "CLEAVE_ADDR"

// EnvCACert is the variable that names a file of certificates of the authorities that may vouch for a server.
const EnvCACert = "CLEAVE_CACERT"

// PathPrefix is where the API begins.
const PathPrefix = "/api/v1"

// Paths outside of the API.
const (
	PathMetrics = "/metrics"
	PathLive    = "/livez"
	PathReady   = "/readyz"
)

// Paths that are read.
const (
	PathStatus    = PathPrefix + "/status"
	PathMap       = PathPrefix + "/map"
	PathShards    = PathPrefix + "/shards"
	PathShard     = PathPrefix + "/shards/{id}"
	PathGroups    = PathPrefix + "/groups"
	PathKeyspaces = PathPrefix + "/keyspaces"
	PathIndexes   = PathPrefix + "/indexes"
	PathJobs      = PathPrefix + "/jobs"
	PathJob       = PathPrefix + "/jobs/{id}"
	PathSagas     = PathPrefix + "/sagas"
	PathExplain   = PathPrefix + "/explain"
	PathHotKeys   = PathPrefix + "/hotkeys"
	PathHeatMap   = PathPrefix + "/heatmap"
	PathTraffic   = PathPrefix + "/traffic"
	PathClients   = PathPrefix + "/clients"
	PathSlowlog   = PathPrefix + "/slowlog"
	PathConfig    = PathPrefix + "/config"
	PathBackups   = PathPrefix + "/backups"
	PathAudit     = PathPrefix + "/audit"
	PathPlan      = PathPrefix + "/plan"
	PathDecisions = PathPrefix + "/decisions"
	PathAccepted  = PathPrefix + "/accepted"
	PathKnobs     = PathPrefix + "/knobs"
	PathEvents    = PathPrefix + "/events"
	PathCaps      = PathPrefix + "/caps"
	PathStream    = PathPrefix + "/live"
	PathOpenAPI   = PathPrefix + "/openapi.json"
)

// Paths of actions: a POST of the request that has the same name.
const (
	PathSplit          = PathPrefix + "/shards/split"
	PathPresplit       = PathPrefix + "/shards/presplit"
	PathMerge          = PathPrefix + "/shards/merge"
	PathMove           = PathPrefix + "/shards/move"
	PathDrain          = PathPrefix + "/groups/drain"
	PathUndrain        = PathPrefix + "/groups/undrain"
	PathRegroup        = PathPrefix + "/groups/regroup"
	PathCreateKeyspace = PathPrefix + "/keyspaces/create"
	PathDropKeyspace   = PathPrefix + "/keyspaces/drop"
	PathDropIndex      = PathPrefix + "/indexes/drop"
	PathPauseJob       = PathPrefix + "/jobs/{id}/pause"
	PathResumeJob      = PathPrefix + "/jobs/{id}/resume"
	PathCancelJob      = PathPrefix + "/jobs/{id}/cancel"
	PathThrottleJob    = PathPrefix + "/jobs/{id}/throttle"
	PathSetCap         = PathPrefix + "/caps/set"
	PathRemoveCap      = PathPrefix + "/caps/remove"
	PathSetConfig      = PathPrefix + "/config/set"
	PathCreateBackup   = PathPrefix + "/backups/create"
	PathVerifyBackup   = PathPrefix + "/backups/verify"
	PathRestoreBackup  = PathPrefix + "/backups/restore"
	PathRebalance      = PathPrefix + "/rebalance"
	PathAccept         = PathPrefix + "/shards/accept"
	PathCritical       = PathPrefix + "/keyspaces/critical"
	PathSetKnobs       = PathPrefix + "/knobs/set"
)

// Names in queries.
const (
	QueryDryRun   = "dry_run"
	QueryLimit    = "limit"
	QueryAfter    = "after"
	QueryKeyspace = "keyspace"
	QueryGroup    = "group"
	QueryState    = "state"
	QueryKey      = "key"
	QuerySlot     = "slot"
	QueryShard    = "shard"
	QueryVerbose  = "verbose"
	QueryName     = "name"
	QueryRestored = "restored"
	QueryBy       = "by"
	QueryN        = "n"
	QueryMetric   = "metric"
	QueryFrom     = "from"
	QueryTo       = "to"
	QueryStart    = "start"
	QueryEnd      = "end"
	QueryStartAt  = "start_at"
	QueryEndAt    = "end_at"
	QueryCells    = "cells"
	QueryRows     = "rows"
	QueryColumns  = "columns"
	QueryClass    = "class"
	QuerySince    = "since"
	QueryKind     = "kind"
	QueryWatch    = "watch"
	QueryEvery    = "every"
)

// HeaderActor is the user of a client, by its own account. It is written into the audit log as
// a claim, beside what is known.
const HeaderActor = "Cleave-Actor"

// Pages of lists.
const (
	DefaultPageItems = 200
	MaxPageItems     = 1000
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is where the next page begins, for ?after=; none at the end.
	Next string `json:"next,omitempty"`
	// Note is what there is to say about the whole list.
	Note string `json:"note,omitempty"`
}

// formatID is a number in a path.
func formatID(n uint64) string { return strconv.FormatUint(n, 10) }

// Error is why a request was refused or failed. In JSON it is the field "error" of an
// object.
type Error struct {
	// Code is one of the words below: what a program goes by.
	Code string `json:"code"`
	// Message is what is wrong, and Hint what to do, if that is not clear from it.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Status is that of the answer.
	Status int `json:"-"`
}

// Failure is the answer with an error.
type Failure struct {
	Error Error `json:"error"`
}

// The codes of errors. Scripts go by them: they do not change.
const (
	// CodeInvalid: the request is not one: the message says which part.
	CodeInvalid = "invalid"
	// CodeUnauthorized: a token is needed, or the one given is wrong.
	CodeUnauthorized = "unauthorized"
	// CodeForbidden: the request came in a way that is not served: by another name of the
	// server, or from a page of another site.
	CodeForbidden = "forbidden"
	// CodeNotFound: there is no such thing.
	CodeNotFound = "not_found"
	// CodeMethod: the path takes another method.
	CodeMethod = "method_not_allowed"
	// CodeExists: the name is taken.
	CodeExists = "exists"
	// CodeBusy: a job is at work there: wait for it, or cancel it.
	CodeBusy = "busy"
	// CodeRefused: it cannot be done as things are: the message says why.
	CodeRefused = "refused"
	// CodeNoChange: all is as it is asked for.
	CodeNoChange = "no_change"
	// CodeTooLate: a job has made its decision, or has ended.
	CodeTooLate = "too_late"
	// CodeTooLarge: the request is larger than is read.
	CodeTooLarge = "too_large"
	// CodeUnavailable: the server ends, or its store has stopped.
	CodeUnavailable = "unavailable"
	// CodeTimeout: the server has given up; what was begun may go on.
	CodeTimeout = "timeout"
	// CodeInternal: a mistake of the server.
	CodeInternal = "internal"
)

// Error returns what is wrong and what to do.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Is matches an error of the same code, so that errors.Is(err, &Error{Code: CodeBusy})
// asks for one.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// What can go wrong between a client and a server, besides an [*Error], which is what the
// server says.
var (
	// ErrUnreachable means that there is no answer at the address: start the server, or name
	// its address. Nothing was changed.
	ErrUnreachable = errors.New("api: no server answers")
	// ErrTimeout means that the answer did not come in time: what was asked for may be
	// done, or be under way. Look before it is repeated.
	ErrTimeout = errors.New("api: no answer in time")
	// ErrBroken means that the connection broke before the answer was whole: what was
	// asked for may be done.
	ErrBroken = errors.New("api: the answer broke off")
	// ErrForeign means that what answers is not a Cleave server, or not one of this
	// version of the API.
	ErrForeign = errors.New("api: not an answer of a Cleave server")
	// ErrUntrusted means that the certificate of the server is not of an authority that is
	// trusted, or not for its name. Nothing was sent.
	ErrUntrusted = errors.New("api: the certificate of the server is not trusted")
)

func newUnreachableError(addr string, err error) error {
	return fmt.Errorf("%w at %s: is it running there? %w", ErrUnreachable, addr, err)
}
