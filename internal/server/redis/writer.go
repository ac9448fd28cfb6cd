package redis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// Writer is where replies are written, in the version of the protocol that the client
// has chosen.
type Writer struct {
	Version resp.Version
	Bytes   []byte
	// Limit is how many bytes may be written, 0 for any number. What would be above it
	// is left out, and Over is set: then what was written is of no use.
	Limit         int
	HasOverflowed bool
}

// canWrite reports whether there is room for so many bytes more.
func (w *Writer) canWrite(n int) bool {
	if w.Limit > 0 && len(w.Bytes)+n > w.Limit {
		w.HasOverflowed = true
	}
	return !w.HasOverflowed
}

// OK writes that all went well.
func (w *Writer) OK() { w.Bytes = append(w.Bytes, "+OK\r\n"...) }

// Simple writes a short text.
func (w *Writer) Simple(s string) { w.Bytes = resp.AppendSimple(w.Bytes, s) }

// Int writes a number.
func (w *Writer) Int(n int64) { w.Bytes = resp.AppendInt(w.Bytes, n) }

// Bulk writes a string of bytes.
func (w *Writer) Bulk(b []byte) {
	if w.canWrite(len(b)) {
		w.Bytes = resp.AppendBulk(w.Bytes, b)
	}
}

// Text is Bulk of a string.
func (w *Writer) Text(s string) {
	if w.canWrite(len(s)) {
		w.Bytes = resp.AppendBulk(w.Bytes, s)
	}
}

// Null writes the absence of a value.
func (w *Writer) Null() { w.Bytes = w.Version.AppendNull(w.Bytes) }

// NullArray writes the absence of a list.
func (w *Writer) NullArray() { w.Bytes = w.Version.AppendNullArray(w.Bytes) }

// Array begins a list of n.
func (w *Writer) Array(n int) { w.Bytes = resp.AppendArray(w.Bytes, n) }

// Map begins a map of n pairs.
func (w *Writer) Map(n int) { w.Bytes = w.Version.AppendMap(w.Bytes, n) }

// Set begins a set of n.
func (w *Writer) Set(n int) { w.Bytes = w.Version.AppendSet(w.Bytes, n) }

// Push begins a message of n elements that was not asked for.
func (w *Writer) Push(n int) { w.Bytes = w.Version.AppendPush(w.Bytes, n) }

// Bool writes a truth.
func (w *Writer) Bool(b bool) { w.Bytes = w.Version.AppendBool(w.Bytes, b) }

// Double writes a number with a fraction.
func (w *Writer) Double(f float64) { w.Bytes = w.Version.AppendDouble(w.Bytes, f) }

// Verbatim writes a text for people.
func (w *Writer) Verbatim(s string) { w.Bytes = w.Version.AppendVerbatim(w.Bytes, s) }

// Fail writes an error in the words of Redis.
func (w *Writer) Fail(err error) { w.Bytes = resp.AppendError(w.Bytes, FormatError(err)) }

// maybeFail writes the error of a reply, if it is one.
func (w *Writer) maybeFail(r command.Reply) bool {
	if r.Err != nil {
		w.Fail(r.Err)
	}
	return r.Err != nil
}

// The usual ways to write the reply of a command.

// writePlainReply writes each kind of reply as it is.
func writePlainReply(w *Writer, _ *Request, r command.Reply) {
	switch r.Kind {
	case command.Nil:
		w.Null()
	case command.OK:
		w.OK()
	case command.Int:
		w.Int(r.Int)
	case command.Bytes:
		w.Bulk(r.Bytes)
	case command.Items:
		w.Array(len(r.Items))
		for _, item := range r.Items {
			w.writeItem(item)
		}
	case command.Failed:
		w.Fail(r.Err)
	}
}

// writeItem writes the value of an item, if there is one.
func (w *Writer) writeItem(item command.Item) {
	if item.Found {
		w.Bulk(item.Value)
	} else {
		w.Null()
	}
}

// Error is an error in the words that clients know: a word in capitals, and a text.
type Error string

// Error is the text.
func (e Error) Error() string { return string(e) }

// The errors that many commands share.
const (
	ErrSyntax     Error = "ERR syntax error"
	ErrNotInteger Error = "ERR value is not an integer or out of range"
	ErrDatabase   Error = "ERR DB index is out of range"
	errNotInt     Error = "ERR value is out of range, value must between -2147483648 and 2147483647"
	errNotFloat   Error = "ERR value is not a valid float"
	errWrongType  Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errOverflow   Error = "ERR increment or decrement would overflow"
	errNaN        Error = "ERR increment would produce NaN or Infinity"
	errNoKey      Error = "ERR no such key"
	errTooLong    Error = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errOffset     Error = "ERR offset is out of range"
)

// NewArityError is the answer to a wrong number of arguments.
func NewArityError(name string) error { return newArityError(name) }

// newArityError is the answer to a wrong number of arguments.
func newArityError(name string) error {
	return Error("ERR wrong number of arguments for '" + name + "' command")
}

// SubcommandArity is the answer to a wrong number of arguments of a command below another, by commands whose
// arity allows it.
func SubcommandArity(r *Request) error {
	return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", cutAtZero(r.Args[1]), toUpper(string(r.Args[0]))))
}

// newExpireError is the answer to a time that is none.
func newExpireError(name string) error {
	return Error("ERR invalid expire time in '" + name + "' command")
}

// FormatError is an error as a client sees it. Those of this package are in Redis' words
// already; those of the store get them here, and no other place.
func FormatError(err error) string {
	var mine Error
	switch {
	case errors.As(err, &mine):
		return string(mine)
	case errors.Is(err, command.ErrWrongType):
		return string(errWrongType)
	case errors.Is(err, command.ErrNotInteger):
		return string(ErrNotInteger)
	case errors.Is(err, command.ErrNotFloat):
		return string(errNotFloat)
	case errors.Is(err, command.ErrOverflow):
		return string(errOverflow)
	case errors.Is(err, command.ErrConflict):
		return "TXNABORT " + err.Error()
	}
	var throttled *admission.ThrottledError
	if errors.As(err, &throttled) {
		return "THROTTLED" + strings.TrimPrefix(throttled.Error(), "throttled:")
	}
	var limit *command.LimitError
	if errors.As(err, &limit) && limit.What == "value" {
		return string(errTooLong)
	}
	return "ERR " + strings.TrimPrefix(strings.TrimPrefix(err.Error(), "command: "), "cleave: ")
}
