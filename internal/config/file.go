package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// said is a value that somebody gave a setting, and where.
type said struct{ text, place string }

// parseFile reads a file of settings. It goes on behind a mistake where the language lets
// it, so that a file is put right in one go.
func parseFile(name string, data []byte, wrong *Mistakes) map[string]said {
	values := map[string]said{}
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		path, at := keyOf(e)
		place := position(name, data, at)
		if e.Kind != unstable.KeyValue {
			wrong.add(place, "[%s]: settings stand without tables: write name = value", path)
			return values // what follows is meant for that table
		}
		s := find(path)
		switch {
		case s == nil:
			wrong.add(place, "unknown setting %q%s", path, meant(path))
			continue
		case values[path].place != "":
			wrong.add(place, "%s is set twice: it stands at %s too", path, values[path].place)
			continue
		}
		text, err := valueOf(s, e.Value())
		if err != nil {
			wrong.add(place, "%s: %v", path, err)
		}
		values[path] = said{text, place}
	}
	if err := p.Error(); err != nil {
		at := len(data)
		var syntax *unstable.ParserError
		if errors.As(err, &syntax) && len(syntax.Highlight) > 0 {
			at = int(p.Range(syntax.Highlight).Offset)
		}
		wrong.add(position(name, data, at), "%v%s", err, unquoted(data[:min(at, len(data))]))
	}
	return values
}

// unquoted says what is usually wrong with a value that is none: what is before it on its
// line ends the name.
func unquoted(before []byte) string {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	if _, value, ok := bytes.Cut(line, []byte("=")); ok && !bytes.ContainsAny(value, `"'`) {
		return `: write text in quotes, such as "always"`
	}
	return ""
}

// meant is a question about the name that was meant.
func meant(name string) string {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
	}
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ": see packaging/cleave.toml, or cleave config example, for all there are"
}

// keyOf returns the name on the left, dots included, and where it stands.
func keyOf(e *unstable.Node) (path string, at int) {
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

// valueOf reads the right side as the kind of the setting wants it.
func valueOf(s *Setting, v *unstable.Node) (string, error) {
	text := string(v.Data)
	switch v.Kind {
	case unstable.String:
	case unstable.Integer:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || s.Kind != Number && s.Kind != Bytes {
			return "", wantOf(s, text)
		}
		text = strconv.FormatInt(n, 10)
	case unstable.Bool:
		if s.Kind != YesNo {
			return "", wantOf(s, text)
		}
	default:
		return "", fmt.Errorf("want one value, got %s", strings.ToLower(v.Kind.String()))
	}
	if _, err := s.Parse(text); err != nil {
		return "", wantOf(s, text)
	}
	return s.Parse(text)
}

// wantOf says what a setting wants in the words of the file.
func wantOf(s *Setting, text string) error {
	if _, err := s.Parse(text); err != nil {
		return fmt.Errorf("%q: %w", shown(s, text), err)
	}
	return fmt.Errorf("%s: want a text in quotes", shown(s, text))
}

// shown is a value in a message: secrets are not.
func shown(s *Setting, text string) string {
	if s.Secret {
		return "(hidden)"
	}
	return text
}

// position is file:line:column of a byte.
func position(name string, data []byte, at int) string {
	before := string(data[:min(at, len(data))])
	line := 1 + strings.Count(before, "\n")
	column := 1 + len(before) - (strings.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("%s:%d:%d", name, line, column)
}
