package key

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewriteScripts = flag.Bool("rewrite", false, "write what the scripts in testdata/layout answer into them")

// TestLayoutScripts runs the transcripts in testdata/layout, which specify how
// layouts behave. In a script a command stands above ---- and its answer below,
// up to a blank line:
//
//	layout TEXT               parse, print the canonical form and the columns
//	encode COL=VALUE …        the key in hexadecimal, and how it is printed
//	decode HEX                its columns; or how far it fits, and the error
//	prefix COL=VALUE …        the range of a scan
//	fanout COL=VALUE …        the ranges of a scan over all salts
//	between … from=A to=B     the same with bounds for the next field
//
// A value is "text", b"bytes", a number, true, false, nil, a UUID or a time.
func TestLayoutScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/layout/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runScript(t, path) })
	}
}

func runScript(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := script{}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		command, _, isCommand := strings.Cut(block, "\n----")
		if !isCommand {
			fmt.Fprintf(&out, "%s\n\n", block) // prose
			continue
		}
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", command, strings.TrimSpace(s.runCommand(command)))
	}
	got := strings.TrimSpace(out.String()) + "\n"
	if *rewriteScripts {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("the script answers otherwise; -rewrite shows it in the diff:\n%s", firstDifference(got, string(text)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got: %s\nwant: %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// script is the state between commands.
type script struct{ layout *Layout }

func (s *script) runCommand(command string) string {
	verb, rest, _ := strings.Cut(command, " ")
	// A command may go on over several lines.
	rest = strings.ReplaceAll(rest, "\n", " ")
	switch verb {
	case "layout":
		l, err := ParseLayout(rest)
		if err != nil {
			return err.Error()
		}
		s.layout = l
		return fmt.Sprintf("%v\ncolumns %s", l, strings.Join(l.Columns(), " "))
	case "encode":
		return s.runEncode(parseColumns(rest))
	case "decode":
		key, err := hex.DecodeString(rest)
		if err != nil {
			return err.Error()
		}
		return s.runDecode(key)
	case "prefix", "fanout", "between":
		return s.runScan(verb, parseColumns(rest))
	}
	return "unknown command " + verb
}

func (s *script) runScan(verb string, given Columns) string {
	var ranges []Range
	var err error
	switch verb {
	case "prefix":
		ranges = make([]Range, 1)
		ranges[0], err = s.layout.Prefix(given)
	case "fanout":
		ranges, err = s.layout.FanOut(given)
	case "between":
		from, to := given["from"], given["to"]
		delete(given, "from")
		delete(given, "to")
		ranges, err = s.layout.Between(given, from, to)
	}
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, r := range ranges {
		fmt.Fprintf(&b, "[%x, %x)\n", r.Begin, r.End)
	}
	return b.String()
}

func (s *script) runEncode(row Columns) string {
	key, err := s.layout.Encode(row)
	if err != nil {
		return err.Error()
	}
	text, err := s.layout.Format(key)
	if err != nil {
		return fmt.Sprintf("%x does not print: %v", key, err)
	}
	partition, err := s.layout.Partition(key)
	if err != nil {
		return err.Error()
	}
	parts := fmt.Sprintf("%x | %x", partition, bytes.TrimPrefix(key, partition))
	return strings.TrimSuffix(parts, " | ") + "\n" + text
}

func (s *script) runDecode(key []byte) string {
	v, err := s.layout.Decode(key)
	if err != nil {
		text, _ := s.layout.Format(key)
		return fmt.Sprintf("%s\n%v", text, err)
	}
	m := v.Map()
	var b strings.Builder
	for _, c := range s.layout.Columns() {
		value, ok := m[c]
		switch {
		case !ok:
			fmt.Fprintf(&b, "%s is not in the key\n", c)
		case !v.Exact(c):
			fmt.Fprintf(&b, "%s from %v\n", c, value.(time.Time).Format(time.RFC3339))
		case v.layout.columns[v.layout.columnIndex(c)].typ == TypeTime:
			fmt.Fprintf(&b, "%s at %v\n", c, value.(time.Time).Format(time.RFC3339Nano))
		default:
			fmt.Fprintf(&b, "%s %T %s\n", c, value, appendText(nil, value, 0))
		}
	}
	return b.String()
}

// parseColumns reads COL=VALUE pairs, quoting as Go does.
func parseColumns(s string) Columns {
	row := Columns{}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		name, rest, _ := strings.Cut(s, "=")
		quote := strings.TrimPrefix(rest, "b")
		var word string
		if q, err := strconv.QuotedPrefix(quote); err == nil {
			word = rest[:len(rest)-len(quote)+len(q)]
		} else {
			word, _, _ = strings.Cut(rest, " ")
		}
		row[name] = parseValue(word)
		s = rest[len(word):]
	}
	return row
}

func parseValue(s string) any {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t
	}
	if u, err := ParseUUID(s); err == nil {
		return u
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	if q, err := strconv.Unquote(s); err == nil {
		return q
	}
	if b, ok := strings.CutPrefix(s, "b"); ok && slices.Contains([]byte(b), '"') {
		if q, err := strconv.Unquote(b); err == nil {
			return []byte(q)
		}
	}
	switch s {
	case "true", "false":
		return s == "true"
	case "nil":
		return nil
	}
	panic("not a value: " + s)
}
