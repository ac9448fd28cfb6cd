package key

import (
	"strconv"
	"time"
)

// Format prints key for people, with its fields named:
//
//	region="eu" hour(ts)=2026-11-15T01 | id=42
//
// Whatever is not printable is escaped. If the key does not fit, the text has
// the fields that do, then a question mark and the rest in quotes, and the
// error is that of [Layout.Decode].
func (l *Layout) Format(key []byte) (string, error) {
	text, err := l.AppendFormat(nil, key)
	return string(text), err
}

// AppendFormat is [Layout.Format], appended to dst.
func (l *Layout) AppendFormat(dst, key []byte) ([]byte, error) {
	var inline [inlineColumns]Element
	fields, err := l.decode(inline[:0], key)
	dst = l.appendFields(dst, fields)
	offset := 0
	for _, e := range fields {
		offset += len(e.Raw())
	}
	if offset < len(key) {
		dst = append(l.appendSeparator(dst, len(fields)), '?')
		dst = strconv.AppendQuoteToASCII(dst, string(key[offset:]))
	}
	return dst, err
}

// appendFields prints fields of a key.
func (l *Layout) appendFields(dst []byte, fields []Element) []byte {
	for i, e := range fields {
		dst = l.appendSeparator(dst, i)
		dst = l.fields[i].appendText(dst, e)
	}
	return dst
}

// appendSeparator appends what goes before field i.
func (l *Layout) appendSeparator(dst []byte, i int) []byte {
	switch i {
	case 0:
		return dst
	case l.partition:
		return append(dst, " | "...)
	default:
		return append(dst, ' ')
	}
}

// appendText prints the field's name and e, which check has passed.
func (f *Field) appendText(dst []byte, e Element) []byte {
	dst = append(append(dst, f.name...), '=')
	if f.Bucket != 0 {
		span, _ := elementSpan(f.Bucket, e)
		return span.Start().AppendFormat(dst, f.Bucket.timeFormat())
	}
	if f.Type == TypeTime && f.Salts == 0 {
		t, _ := elementTime(e)
		return t.AppendFormat(dst, time.RFC3339Nano)
	}
	// The usual kinds are printed without making a value of them first.
	if i, ok := e.Int(); ok {
		return strconv.AppendInt(dst, i, 10)
	}
	b, ok := e.Bytes()
	switch {
	case ok && e.Kind() == KindString:
		return strconv.AppendQuote(dst, string(b))
	case ok:
		return appendBytesText(dst, b)
	default:
		return appendText(dst, e.Value(), 0)
	}
}
