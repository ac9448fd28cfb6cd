package redis

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/resp"
)

// Writer is where replies are written, in the version of the protocol that the client
// has chosen.
type Writer struct {
	Version resp.Version
	Bytes   []byte
	// Limit is how many bytes may be written, 0 for any number. What would be above it
	// is left out, and Over is set: then what was written is of no use.
	Limit int
	Over  bool
}

// fits tells whether there is room for so many bytes more.
func (w *Writer) fits(n int) bool {
	if w.Limit > 0 && len(w.Bytes)+n > w.Limit {
		w.Over = true
	}
	return !w.Over
}

// OK writes that all went well.
func (w *Writer) OK() { w.Bytes = append(w.Bytes, "+OK\r\n"...) }

// Simple writes a short text.
func (w *Writer) Simple(s string) { w.Bytes = resp.AppendSimple(w.Bytes, s) }

// Int writes a number.
func (w *Writer) Int(n int64) { w.Bytes = resp.AppendInt(w.Bytes, n) }

// Bulk writes a string of bytes.
func (w *Writer) Bulk(b []byte) {
	if w.fits(len(b)) {
		w.Bytes = resp.AppendBulk(w.Bytes, b)
	}
}

// Text is Bulk of a string.
func (w *Writer) Text(s string) {
	if w.fits(len(s)) {
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
func (w *Writer) Fail(err error) { w.Bytes = resp.AppendError(w.Bytes, Text(err)) }

// failed writes the error of a reply, if it is one.
func (w *Writer) failed(r command.Reply) bool {
	if r.Err != nil {
		w.Fail(r.Err)
	}
	return r.Err != nil
}

// The usual ways to write the reply of a command.

// plain writes each kind of reply as it is.
func plain(w *Writer, _ *Request, r command.Reply) {
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
			w.value(item)
		}
	case command.Failed:
		w.Fail(r.Err)
	}
}

// value writes the value of an item, if there is one.
func (w *Writer) value(item command.Item) {
	if item.Found {
		w.Bulk(item.Value)
	} else {
		w.Null()
	}
}
