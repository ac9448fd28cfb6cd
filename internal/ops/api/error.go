package api

import (
	"errors"
	"fmt"
)

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

func unreachableError(addr string, err error) error {
	return fmt.Errorf("%w at %s: is it running there? %w", ErrUnreachable, addr, err)
}
