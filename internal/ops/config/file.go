package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// sourcedValue is the value given for a setting, and where.
type sourcedValue struct {
	text, location string
	source         Source
}

// parseFile reads a file of settings. It goes on behind a mistake where the language lets
// it, so that a file is put right in one go.
func parseFile(name string, data []byte, wrong *Mistakes) map[string]sourcedValue {
	values := map[string]sourcedValue{}
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		path, at := parseKeyPath(e)
		place := formatPosition(name, data, at)
		if e.Kind != unstable.KeyValue {
			wrong.add(place, "[%s]: settings stand without tables: write name = value", path)
			return values // what follows is meant for that table
		}
		s := findSetting(path)
		switch {
		case s == nil:
			wrong.add(place, "unknown setting %q%s", path, nameHint(path))
			continue
		case values[path].location != "":
			wrong.add(place, "%s is set twice: it stands at %s too", path, values[path].location)
			continue
		}
		text, err := parseValue(s, e.Value())
		if err != nil {
			wrong.add(place, "%s: %v", path, err)
		}
		values[path] = sourcedValue{text, place, FromFile}
	}
	if err := p.Error(); err != nil {
		at := len(data)
		var syntax *unstable.ParserError
		if errors.As(err, &syntax) && len(syntax.Highlight) > 0 {
			at = int(p.Range(syntax.Highlight).Offset)
		}
		wrong.add(formatPosition(name, data, at), "%v%s", err, quoteHint(data[:min(at, len(data))]))
	}
	return values
}

// quoteHint returns what is usually wrong with a value that is none: what is before it on its
// line ends the name.
func quoteHint(before []byte) string {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	if _, value, ok := bytes.Cut(line, []byte("=")); ok && !bytes.ContainsAny(value, `"'`) {
		return `: write text in quotes, such as "always"`
	}
	return ""
}

// nameHint is a question about the name that was meant.
func nameHint(name string) string {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": see packaging/cleave.toml, or cleave config example, for all there are"
}

// parseKeyPath returns the name on the left, dots included, and where it stands.
func parseKeyPath(e *unstable.Node) (path string, at int) {
	var parts []string
	keys := e.Key()
	for keys.Next() {
		n := keys.Node()
		if len(parts) == 0 {
			at = int(n.Raw.Offset)
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), at
}

// parseValue reads the right side as the kind of the setting wants it.
func parseValue(s *Setting, v *unstable.Node) (string, error) {
	text := string(v.Data)
	switch v.Kind {
	case unstable.String:
	case unstable.Integer:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || s.Kind != Number && s.Kind != Bytes {
			return "", valueError(s, text)
		}
		text = strconv.FormatInt(n, 10)
	case unstable.Bool:
		if s.Kind != YesNo {
			return "", valueError(s, text)
		}
	default:
		return "", fmt.Errorf("want one value, got %s", strings.ToLower(v.Kind.String()))
	}
	if _, err := s.Parse(text); err != nil {
		return "", valueError(s, text)
	}
	return s.Parse(text)
}

// valueError describes what a setting wants in the words of the file.
func valueError(s *Setting, text string) error {
	if _, err := s.Parse(text); err != nil {
		return fmt.Errorf("%q: %w", redactValue(s, text), err)
	}
	return fmt.Errorf("%s: want a text in quotes", redactValue(s, text))
}

// redactValue is a value in a message: secrets are not.
func redactValue(s *Setting, text string) string {
	if s.Secret {
		return "(hidden)"
	}
	return text
}

// formatPosition is file:line:column of a byte.
func formatPosition(name string, data []byte, at int) string {
	before := string(data[:min(at, len(data))])
	line := 1 + strings.Count(before, "\n")
	column := 1 + len(before) - (strings.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("%s:%d:%d", name, line, column)
}

// ExampleFile is a file in which every setting stands with its default.
func ExampleFile() string {
	var b strings.Builder
	b.WriteString(`# Settings of cleave serve, each with its default. Start it with
#
#     cleave serve --config cleave.toml
#
# A flag of the same name counts more, and so does a variable of the environment:
# CLEAVE_TLS_PORT for tls-port. "cleave config check FILE" finds mistakes.
# SIGHUP makes a server take what is marked (live); the rest waits for a restart.
`)
	for i := range settings {
		s := &settings[i]
		b.WriteString("\n")
		help := strings.ReplaceAll(s.Help, "\n", "\n# ")
		if s.Live {
			help += " (live)"
		}
		value := s.Default
		if s.Kind != Number && s.Kind != Bytes {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "# %s%s.\n%s = %s\n", strings.ToUpper(help[:1]), help[1:], s.Name, value)
	}
	return b.String()
}

// Mistake is one thing that is wrong, and where.
type Mistake struct {
	// Location is file:line:column, the name of a variable, or that of a flag.
	Location string
	Text     string
}

// String is the mistake as a line.
func (m Mistake) String() string { return m.Location + ": " + m.Text }

// Mistakes is an error that lists all of them.
type Mistakes []Mistake

// Error is one line for each.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i := range m {
		lines[i] = m[i].String()
	}
	return strings.Join(lines, "\n")
}

// add notes one more.
func (m *Mistakes) add(place, format string, args ...any) {
	*m = append(*m, Mistake{place, fmt.Sprintf(format, args...)})
}

// errOrNil is nil if there are none.
func (m Mistakes) errOrNil() error {
	if len(m) == 0 {
		return nil
	}
	return m
}
