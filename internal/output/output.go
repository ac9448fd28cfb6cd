// Package output writes what a command found: as a table for people, as JSON
// or JSON lines for programs.
//
// A command fills a slice of rows, says once how a row is shown, and calls
// [Write]. The JSON forms encode the rows themselves, so their fields are the
// schema that scripts rely on; the table is free to show less, or better.
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Format is a form of output. The zero value is [Table]. It is a pflag value,
// so a command takes it as a flag.
type Format uint8

// The forms of output.
const (
	Table Format = iota // aligned columns with bars, for people
	JSON                // one array
	JSONL               // one object a line
)

var names = [...]string{Table: "table", JSON: "json", JSONL: "jsonl"}

// Words returns what [Format.Set] takes.
func Words() []string { return slices.Clone(names[:]) }

// String returns the word that [Format.Set] takes.
func (f Format) String() string {
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Set parses a word. It is part of the flag interface, so whoever reports its
// error names the flag and the word.
func (f *Format) Set(word string) error {
	for i, name := range names {
		if word == name {
			*f = Format(i)
			return nil
		}
	}
	return errors.New("want table, json or jsonl")
}

// Type names the value in help texts. It is part of the flag interface.
func (f *Format) Type() string { return "table|json|jsonl" }

// Write writes rows to w in format f. Columns matter to the table alone.
func Write[T any](w io.Writer, f Format, rows []T, columns []Column[T]) error {
	switch f {
	case Table:
		_, err := io.WriteString(w, render(rows, columns))
		return err
	case JSON:
		if rows == nil {
			rows = []T{} // an empty result is [], never null
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	case JSONL:
		enc := json.NewEncoder(w)
		for _, row := range rows {
			if err := enc.Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("write output: unknown format %d", f)
}

// One writes a single thing: as an object in JSON, on a line in JSON lines, and as the
// text that show makes for people.
func One[T any](w io.Writer, f Format, thing T, show func(T) string) error {
	switch f {
	case Table:
		_, err := io.WriteString(w, show(thing))
		return err
	case JSON, JSONL:
		enc := json.NewEncoder(w)
		if f == JSON {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(thing)
	}
	return fmt.Errorf("write output: unknown format %d", f)
}
