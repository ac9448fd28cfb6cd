package advisor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// ErrCandidate means that a candidate is no layout, or names a column that the input does not have.
var ErrCandidate = errors.New("advise: bad candidate")

// timeValue is a time in a key.
type timeValue struct{ time.Time }

// valueOf returns the value of a column as a layout with a column of that type takes it.
func (c *column) valueOf(typ key.Type, text string) (any, bool) {
	if typ == key.TypeAny {
		typ = keyTypes[c.typ]
		if v, ok := c.valueOf(typ, text); ok {
			return v, true
		}
		return text, true // what is of another type is text
	}
	switch typ {
	case key.TypeInt:
		return parseInt(text)
	case key.TypeFloat:
		return parseFloat(text)
	case key.TypeBool:
		return text == "true" || text == "1", true
	case key.TypeUUID:
		u, err := key.ParseUUID(text)
		return u, err == nil
	case key.TypeTime:
		t, ok := c.timeOf(text)
		return timeValue{t}, ok
	case key.TypeBytes:
		return []byte(text), true
	}
	return text, true
}

// candidate is a key to be judged.
type candidate struct {
	layout *key.Layout
	kind   partition.Kind
	key    keyFields
	place  placement
	// asked means that the caller named it.
	asked bool
}

// ParseCandidates cuts a list such as a,b,(a,day(ts)) | id at the commas outside of parentheses that
// begin a new candidate. A comma behind a bar belongs to the candidate; separate those with a
// semicolon.
func ParseCandidates(list string) []string {
	var found []string
	depth, start, barred := 0, 0, false
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == '|':
			barred = true
		case r == ';', r == ',' && depth == 0 && !barred:
			found = append(found, strings.TrimSpace(list[start:i]))
			start, barred = i+1, false
		}
	}
	found = append(found, strings.TrimSpace(list[start:]))
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// newCandidate resolves the columns of a layout.
func (s *simulator) newCandidate(text string, kind partition.Kind) (*candidate, error) {
	layout, err := key.ParseLayout(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCandidate, err)
	}
	c := &candidate{layout: layout, kind: kind, key: keyFields{kind: kind}}
	for _, f := range layout.Fields() {
		out := keyField{salts: f.Salts, partition: f.Partition}
		if f.Column != "" {
			i := slices.IndexFunc(s.columns, func(c *column) bool { return c.ident == f.Column || c.name == f.Column })
			if i < 0 {
				return nil, fmt.Errorf("%w: %s: there is no column %s; there are %s", ErrCandidate, text, f.Column, s.listColumns())
			}
			if f.Bucket != 0 && !s.columns[i].isTime() {
				return nil, fmt.Errorf("%w: %s: the values of %s are no times", ErrCandidate, text, f.Column)
			}
			e := element{i, f.Type, f.Bucket, f.Hash}
			if f.Bucket != 0 {
				e.typ = key.TypeTime
			}
			out.element = s.encode(e)
		}
		if f.Salts > 0 && f.Column != "" {
			if out.derived, err = key.NewDerivedSalt(f.Salts); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCandidate, err)
			}
		}
		c.key.fields = append(c.key.fields, out)
	}
	return c, nil
}

func (s *simulator) listColumns() string {
	var names []string
	for _, c := range s.columns {
		names = append(names, c.ident)
	}
	return strings.Join(names, ", ")
}

// typed returns the column as a layout declares it: with its type if every value has it.
func (c *column) typed(rows uint64) string {
	if c.values < rows || c.wrong > 0 {
		return c.ident
	}
	return c.ident + ":" + keyTypes[c.typ].String()
}

// roles are the columns that candidates are made of.
type roles struct {
	// entities have several rows for a value, and values enough to be worth it.
	entities []*column
	times    []*column
	// id is the column whose values are nearest to unique; nil if none is.
	id *column
	// keys are all columns that can be in a key.
	keys []*column
}

// maxEntities bounds the columns that are paired with each other: the pairs are their square.
const maxEntities = 8

// findRoles looks at what columns hold.
func findRoles(columns []*column, rows uint64) roles {
	var r roles
	for _, c := range columns {
		if c.values == 0 || c.typ == typeFloat || float64(c.long) > maxWrongShare*float64(c.values) {
			continue
		}
		r.keys = append(r.keys, c)
		distinct := c.distinct.Count().Value
		switch {
		case c.isTime():
			r.times = append(r.times, c)
		case distinct > 0.9*float64(rows) && c.values == rows:
			if c.purpose == purposeAttribute && !c.asked {
				continue // a text that happens to be unique
			}
			if r.id == nil || purposePoints[c.purpose] < purposePoints[r.id.purpose] || c.purpose == r.id.purpose && c.typ == typeUUID && r.id.typ != typeUUID {
				r.id = c
			}
		case distinct > 1:
			r.entities = append(r.entities, c)
		}
	}
	// What programs ask for, and then those with the most values, are the best parts of keys.
	slices.SortStableFunc(r.entities, func(a, b *column) int {
		return cmp.Or(
			cmp.Compare(a.doubt(), b.doubt()),
			cmp.Compare(b.distinct.Count().Value, a.distinct.Count().Value),
		)
	})
	// The time that rows come in the order of puts rows of a partition into theirs.
	slices.SortStableFunc(r.times, func(a, b *column) int {
		switch {
		case a.recognized.AppendUnsafe == b.recognized.AppendUnsafe:
			return 0
		case a.recognized.AppendUnsafe:
			return -1
		}
		return 1
	})
	r.entities = r.entities[:min(len(r.entities), maxEntities)]
	return r
}

// generate returns the candidates that are worth a simulation.
func (s *simulator) generate(rows uint64, kinds []partition.Kind, together [][]int, shared []string) ([]*candidate, error) {
	r := findRoles(s.columns, rows)
	g := generator{simulator: s, kinds: kinds, rows: rows, seen: map[string]bool{}}
	g.addTogether(together, shared)
	for _, c := range r.keys {
		g.add(partition.Hash, g.join(c), "")
		g.add(partition.Range, g.join(c), g.tail(r, c))
	}
	advice, err := key.SaltCount(s.shards)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	salts := advice.Salts
	for _, e := range r.entities {
		for _, t := range r.times {
			for _, bucket := range []string{"hour", "day"} {
				part := fmt.Sprintf("%s, %s(%s)", e.typed(rows), bucket, t.ident)
				g.add(partition.Hash, part, "")
				g.add(partition.Range, part, g.tail(r, e, t))
			}
		}
		if r.id != nil {
			part := fmt.Sprintf("%s, salt(%d, %s)", e.typed(rows), salts, r.id.ident)
			g.add(partition.Hash, part, "")
			g.add(partition.Range, fmt.Sprintf("salt(%d, %s), %s", salts, r.id.ident, e.typed(rows)), r.id.typed(rows))
		}
		if s.fillsShards(e) {
			g.addDivided(r, e, salts)
		}
	}
	for _, c := range r.keys {
		if c.recognized.AppendUnsafe || c.isTime() {
			tail := c.typed(rows)
			if r.id == nil && len(r.entities) > 0 && r.entities[0] != c && !c.isUnique() {
				tail += ", " + r.entities[0].typed(rows) // several rows have one time
			}
			g.add(partition.Range, fmt.Sprintf("salt(%d)", salts), tail)
			g.add(partition.Range, fmt.Sprintf("hash(%s), %s", c.ident, c.typed(rows)), "")
		}
	}
	for i, a := range r.entities {
		for j, b := range r.entities[i+1:] {
			g.add(partition.Hash, g.join(a, b), "")
			g.add(partition.Range, g.join(a, b), g.tail(r, a, b))
			if a.distinct.Count().Value*b.distinct.Count().Value < 100*float64(s.shards) {
				for _, c := range r.entities[i+1+j+1:] {
					g.add(partition.Hash, g.join(a, b, c), "")
				}
			}
		}
	}
	return g.found, g.err
}

// fillsShards reports whether a value of a column has more than half of a shard's share of rows.
func (s *simulator) fillsShards(c *column) bool {
	top := c.heavy.Top(1)
	return len(top) > 0 && 2*float64(top[0].Count)*float64(s.shards) > float64(c.values)
}

// addDivided adds candidates that divide the rows of one value by what does not grow: in a range keyspace its shards are cut
// inside it then, and writes go to all of them. With a time next, they would go to the last.
func (g *generator) addDivided(r roles, e *column, salts int) {
	if r.id != nil && !r.id.recognized.AppendUnsafe {
		g.add(partition.Range, g.join(e), g.join(r.id))
	}
	for n, by := range r.entities {
		if by == e || by.doubt() >= purposePoints[purposeAttribute] {
			continue
		}
		tail := g.join(by)
		if rest := g.tail(r, e, by); rest != "" {
			tail += ", " + rest
		}
		g.add(partition.Range, g.join(e), tail)
		if r.id == nil && n < 2 {
			g.add(partition.Hash, fmt.Sprintf("%s, salt(%d, %s)", e.typed(g.rows), salts, by.ident), "")
		}
	}
}

// generator collects candidates without repetition.
type generator struct {
	*simulator
	kinds []partition.Kind
	rows  uint64
	seen  map[string]bool
	found []*candidate
	err   error
}

func (g *generator) join(columns ...*column) string {
	var names []string
	for _, c := range columns {
		names = append(names, c.typed(g.rows))
	}
	return strings.Join(names, ", ")
}

// tail returns what orders the rows of a partition: the time, then what is unique, or else what comes nearest.
func (g *generator) tail(r roles, used ...*column) string {
	var parts []string
	if len(r.times) > 0 && !slices.Contains(used, r.times[0]) {
		parts = append(parts, r.times[0].typed(g.rows))
	} else if len(r.times) > 0 && len(used) == 2 && used[1] == r.times[0] {
		parts = append(parts, r.times[0].ident) // a bucket of it implies the type
	}
	if r.id != nil && !slices.Contains(used, r.id) {
		parts = append(parts, r.id.typed(g.rows))
	}
	if r.id == nil && len(parts) == 0 { // several rows of a partition must have several keys
		if n := slices.IndexFunc(r.entities, func(e *column) bool { return !slices.Contains(used, e) }); n >= 0 {
			parts = append(parts, r.entities[n].typed(g.rows))
		}
	}
	return strings.Join(parts, ", ")
}

func (g *generator) add(kind partition.Kind, part, tail string) {
	text := "(" + part + ")"
	if tail != "" {
		text += " | " + tail
	}
	id := kind.String() + text
	if g.seen[id] || g.err != nil || !slices.Contains(g.kinds, kind) || len(g.found) == maxCandidates {
		return
	}
	g.seen[id] = true
	c, err := g.newCandidate(text, kind)
	if err != nil {
		g.err = err
		return
	}
	g.found = append(g.found, c)
}
