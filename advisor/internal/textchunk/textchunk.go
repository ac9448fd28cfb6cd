// Package textchunk reads text in chunks that end with a record, so that several goroutines can parse
// one input. Where a record ends is the caller's to say. Where chunks end depends on the text alone,
// not on how it arrives.
package textchunk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// chunkBytes is about how long a chunk is. It stays in the second-level cache of the processor that
// parses it; a quarter or four times as much is slower in BenchmarkAnalyze.
const chunkBytes = 512 << 10

// Reader reads chunks. Get one from New.
type Reader struct {
	src io.Reader
	// longest is how long a record may be.
	longest int
	// carry is the text that was read behind the chunk before.
	carry []byte
	line  int64 // of the next chunk, from 1 on
	ended bool
	err   error // why the input ended, if that is not its end
}

// Chunk is a chunk of text.
type Chunk struct {
	// Text begins with the records of the chunk. What follows after them is for looking ahead: it comes
	// again with the next chunk.
	Text []byte
	// Size is how long the records are.
	Size int
	// Line is the line on which the first begins.
	Line int64
	// Ended means that the input has no more than Text.
	Ended bool
	// Skipped is the size of a line that is longer than a record may be; the chunk has nothing then.
	Skipped int
}

// New returns a reader of records that are at most so long.
func New(src io.Reader, longest int) *Reader { return &Reader{src: src, longest: longest, line: 1} }

// Next reads the next chunk into buf, which it may replace by a larger one. EndOf returns the size of
// the whole records that text begins with, 0 if the first is not whole. The error at the end is
// io.EOF.
func (r *Reader) Next(buf []byte, endOf func(text []byte, ended bool) int) (Chunk, error) {
	text := append(buf[:0], r.carry...)
	size := 0
	for least := chunkBytes; size == 0; least *= 2 {
		text = r.fill(text, least)
		size = endOf(text, r.ended)
		if size > 0 || r.ended {
			break
		}
		if len(text) > r.longest && bytes.IndexByte(text, '\n') < 0 {
			return r.skipLine(text)
		}
	}
	if r.ended && size == 0 {
		if r.err != nil {
			return Chunk{Text: text}, fmt.Errorf("line %d: %w", r.line, r.err)
		}
		return Chunk{Text: text}, io.EOF
	}
	c := Chunk{Text: text, Size: size, Line: r.line, Ended: r.ended}
	r.carry = append(r.carry[:0], text[size:]...)
	r.line += int64(bytes.Count(text[:size], []byte{'\n'}))
	return c, nil
}

// fill reads until text has so many bytes or the input ends.
func (r *Reader) fill(text []byte, least int) []byte {
	for len(text) < least && !r.ended {
		if cap(text) < least {
			text = append(make([]byte, 0, least+least/8), text...)
		}
		n, err := r.src.Read(text[len(text):least])
		text = text[:len(text)+n]
		if err != nil {
			r.ended = true
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
		}
	}
	return text
}

// skipLine drops a line that is longer than a record may be.
func (r *Reader) skipLine(text []byte) (Chunk, error) {
	c := Chunk{Text: text[:0], Line: r.line, Skipped: len(text)}
	for !r.ended {
		text = r.fill(text[:0], chunkBytes)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			c.Skipped += i + 1
			r.carry = append(r.carry[:0], text[i+1:]...)
			r.line++
			return c, nil
		}
		c.Skipped += len(text)
	}
	r.carry = r.carry[:0]
	return c, nil
}

// LastLine returns the size of the whole lines that text begins with. It is an endOf where a record
// is a line.
func LastLine(text []byte, ended bool) int {
	if ended {
		return len(text)
	}
	return bytes.LastIndexByte(text, '\n') + 1
}
