package partition

import (
	"fmt"
	"slices"
	"strings"
)

// MaxLabelBytes bounds the text of labels and of constraints.
const MaxLabelBytes = 1024

// Labels is what a group is, such as "store=2,zone=eu". They are a value:
// equal ones compare equal, and the zero value has none.
type Labels struct{ text string } // sorted by key, each key once

// ParseLabels reads labels of the form key=value,key=value in any order.
func ParseLabels(s string) (Labels, error) {
	parts, err := parseTerms(s)
	if err != nil {
		return Labels{}, err
	}
	for _, t := range parts {
		if t.not || len(t.values) > 1 {
			return Labels{}, fmt.Errorf("%w: %q: a label is key=value", ErrLabels, t.String())
		}
	}
	return Labels{joinTerms(parts)}, nil
}

// String is the canonical form, which ParseLabels reads.
func (l Labels) String() string { return l.text }

// Value returns the value of a key.
func (l Labels) Value(key string) (string, bool) {
	for label := range strings.SplitSeq(l.text, ",") {
		if k, v, ok := strings.Cut(label, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Constraint specifies which groups may own a shard by their labels, such as
// "zone=eu|us,disk!=slow": every term must hold, one value is enough. A group
// without the key has no value of it. Like [Labels] it is a value; the zero
// value allows every group.
type Constraint struct{ text string }

// ParseConstraint reads terms key=value|value and key!=value|value, separated
// by commas, in any order.
func ParseConstraint(s string) (Constraint, error) {
	parts, err := parseTerms(s)
	return Constraint{joinTerms(parts)}, err
}

// String is the canonical form, which ParseConstraint reads.
func (c Constraint) String() string { return c.text }

// Allows reports whether a group with these labels meets the constraint.
func (c Constraint) Allows(l Labels) bool {
	if c.text == "" {
		return true
	}
	for s := range strings.SplitSeq(c.text, ",") {
		key, values, _ := strings.Cut(s, "=")
		key, not := strings.CutSuffix(key, "!")
		value, has := l.Value(key)
		found := false
		for v := range strings.SplitSeq(values, "|") {
			found = found || has && v == value
		}
		if found == not {
			return false
		}
	}
	return true
}

// term is one part of a constraint, or a label.
type term struct {
	key    string
	not    bool
	values []string
}

// String is the form in which a term is written down.
func (t term) String() string {
	op := "="
	if t.not {
		op = "!="
	}
	return t.key + op + strings.Join(t.values, "|")
}

// parseTerms reads terms and brings them into their one order.
func parseTerms(s string) ([]term, error) {
	if len(s) > MaxLabelBytes {
		return nil, fmt.Errorf("%w: %d bytes: use at most %d", ErrLabels, len(s), MaxLabelBytes)
	}
	if s == "" {
		return nil, nil
	}
	var terms []term
	for part := range strings.SplitSeq(s, ",") {
		key, values, ok := strings.Cut(part, "=")
		key, not := strings.CutSuffix(key, "!")
		t := term{key, not, strings.Split(values, "|")}
		slices.Sort(t.values)
		t.values = slices.Compact(t.values)
		if !ok || !isWord(key) || !allMatch(t.values, isWord) {
			return nil, fmt.Errorf("%w: %q: write key=value in printable ASCII without spaces and , = ! |", ErrLabels, part)
		}
		terms = append(terms, t)
	}
	slices.SortFunc(terms, func(a, b term) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	for i := range len(terms) - 1 {
		if terms[i].sortKey() == terms[i+1].sortKey() {
			return nil, fmt.Errorf("%w: %s is there twice: name it once", ErrLabels, terms[i].key)
		}
	}
	return terms, nil
}

// sortKey is what a term may not share with another of its list. No word has
// a space or an exclamation mark.
func (t term) sortKey() string {
	if t.not {
		return t.key + "!"
	}
	return t.key + " "
}

func joinTerms(terms []term) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = t.String()
	}
	return strings.Join(texts, ",")
}

func isWord(s string) bool {
	for _, r := range s {
		if r <= ' ' || r > '~' || strings.ContainsRune(",=!|", r) {
			return false
		}
	}
	return s != ""
}

func allMatch(values []string, is func(string) bool) bool {
	return !slices.ContainsFunc(values, func(s string) bool { return !is(s) })
}
