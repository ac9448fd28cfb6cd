package config

import (
	"fmt"
	"strings"
)

// Mistake is one thing that is wrong, and where.
type Mistake struct {
	// Place is file:line:column, the name of a variable, or that of a flag.
	Place string
	Text  string
}

// String is the mistake as a line.
func (m Mistake) String() string { return m.Place + ": " + m.Text }

// Mistakes is an error that tells all of them.
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

// err is nil if there are none.
func (m Mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}
