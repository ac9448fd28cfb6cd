package mutants

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// A Patch puts the conditions of mutants into one file.
type Patch struct {
	// Source is the file, by its path in the module, with slashes.
	Source string
	// Imports are what the file imports for the mutants, besides the switch.
	Imports []string
	Hunks   []Hunk
}

// A Hunk changes one place of a file. It finds the place by its lines, not by their numbers.
type Hunk struct {
	// Mutants are the names of those that the change is for.
	Mutants []string
	// Function is the one that the place is in, as "name" or "Receiver.name". It is empty outside of
	// functions.
	Function string
	Lines    []Line
}

// A Line of a hunk is context if its sign is a space, in the file without mutants alone if it is a minus,
// and in that with mutants alone if it is a plus.
type Line struct {
	Sign byte
	Text string
}

const importsHeader = "@@ imports @@"

// String is the text of the patch: a unified diff whose hunks have the names of mutants and of a function
// where other diffs have numbers of lines.
func (p *Patch) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", p.Source, p.Source)
	if len(p.Imports) > 0 {
		b.WriteString(importsHeader + "\n")
		for _, path := range p.Imports {
			fmt.Fprintf(&b, "+\t%q\n", path)
		}
	}
	for _, h := range p.Hunks {
		b.WriteString(strings.TrimRight(fmt.Sprintf("@@ %s @@ %s", strings.Join(h.Mutants, ", "), h.Function), " ") + "\n")
		for _, l := range h.Lines {
			b.WriteString(strings.TrimRight(string(l.Sign)+l.Text, " ") + "\n")
		}
	}
	return b.String()
}

// ParsePatch parses what [Patch.String] writes.
func ParsePatch(text string) (*Patch, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	p := &Patch{}
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "--- a/") || !strings.HasPrefix(lines[1], "+++ b/") {
		return nil, errors.New("line 1: a patch begins with a line --- a/FILE and a line +++ b/FILE")
	}
	p.Source = strings.TrimPrefix(lines[1], "+++ b/")
	inImports := false
	for i, line := range lines[2:] {
		switch {
		case line == importsHeader:
			inImports = true
		case strings.HasPrefix(line, "@@ "):
			names, function, ok := strings.Cut(line[len("@@ "):], " @@")
			if !ok {
				return nil, fmt.Errorf("line %d: a hunk begins with @@ MUTANT, … @@ FUNCTION", i+3)
			}
			inImports = false
			p.Hunks = append(p.Hunks, Hunk{Mutants: strings.Split(names, ", "), Function: strings.TrimSpace(function)})
		case inImports && strings.HasPrefix(line, "+"):
			p.Imports = append(p.Imports, strings.Trim(strings.TrimSpace(line[1:]), `"`))
		case len(p.Hunks) == 0 || inImports:
			return nil, fmt.Errorf("line %d: no hunk has begun", i+3)
		default:
			l := Line{Sign: ' '}
			if line != "" {
				l = Line{line[0], line[1:]}
			}
			if !strings.ContainsRune(" +-", rune(l.Sign)) {
				return nil, fmt.Errorf("line %d: a line begins with a space, + or -", i+3)
			}
			h := &p.Hunks[len(p.Hunks)-1]
			h.Lines = append(h.Lines, l)
		}
	}
	return p, nil
}

// Mutants returns the names of all mutants of the patch, each once.
func (p *Patch) Mutants() (names []string) {
	for _, h := range p.Hunks {
		names = append(names, h.Mutants...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A HunkError says which hunk of a patch does not fit its file.
type HunkError struct {
	Hunk *Hunk
	What string
}

// Error names the mutants of the hunk and its function.
func (e *HunkError) Error() string {
	place := ""
	if e.Hunk.Function != "" {
		place = ", for " + e.Hunk.Function
	}
	return fmt.Sprintf("the hunk of %s%s: %s", strings.Join(e.Hunk.Mutants, ", "), place, e.What)
}

// Apply returns a file with the mutants of the patch. If hunks do not fit it returns the file with the
// others, and a [HunkError] for each, joined.
func (p *Patch) Apply(text []byte) ([]byte, error) {
	s, err := readScopes(text)
	if err != nil {
		return nil, err
	}
	var changes []lineChange
	var failures []error
	for i := range p.Hunks {
		h := &p.Hunks[i]
		c, what := h.locate(s)
		if what == "" && slices.ContainsFunc(changes, c.overlaps) {
			what = "it changes lines that another hunk changes"
		}
		if what != "" {
			failures = append(failures, &HunkError{h, what})
			continue
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b lineChange) int { return cmp.Compare(a.from, b.from) })
	var lines []string
	at := 0
	for _, c := range changes {
		lines = append(lines, s.lines[at:c.from]...)
		lines = append(lines, c.lines...)
		at = c.to
	}
	lines = append(lines, s.lines[at:]...)
	out := []byte(strings.Join(lines, "\n"))
	if len(changes) > 0 {
		for _, path := range append(slices.Clone(p.Imports), SwitchPath) {
			if out, err = addImport(out, path); err != nil {
				return nil, err
			}
		}
	}
	if formatted, err := format.Source(out); err == nil {
		out = formatted
	} else {
		failures = append(failures, fmt.Errorf("the result is not Go: %w", err))
	}
	return out, errors.Join(failures...)
}

// lineChange replaces some lines of a file.
type lineChange struct {
	from, to int
	lines    []string
}

func (c lineChange) overlaps(d lineChange) bool {
	return c.from < d.to && d.from < c.to || c.from == d.from && c.to == d.to
}

// scopes are the lines of a file, and where its functions are.
type scopes struct {
	lines     []string
	functions []functionLines
}

// functionLines are the lines of a function with its comment, from first up to end.
type functionLines struct {
	name       string
	first, end int
}

func readScopes(text []byte) (*scopes, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &scopes{lines: strings.Split(string(text), "\n")}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			first := f.Pos()
			if f.Doc != nil {
				first = f.Doc.Pos()
			}
			s.functions = append(s.functions, functionLines{nameOf(f), fset.Position(first).Line - 1, fset.Position(f.End()).Line})
		}
	}
	return s, nil
}

// nameOf returns the name of a function, after that of its receiver's type if it has one.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// functionAt returns the function that has all of some lines, or one without a name that is the whole file.
func (s *scopes) functionAt(from, to int) functionLines {
	for _, f := range s.functions {
		if f.first <= from && to <= f.end && from < f.end {
			return f
		}
	}
	return functionLines{"", 0, len(s.lines)}
}

// change splits a hunk into the context before its change, the change and the context behind it.
func (h *Hunk) change() (before, old, planted, after []string) {
	isContext := func(l Line) bool { return l.Sign == ' ' }
	first := slices.IndexFunc(h.Lines, func(l Line) bool { return !isContext(l) })
	if first < 0 {
		return nil, nil, nil, nil
	}
	last := len(h.Lines)
	for isContext(h.Lines[last-1]) {
		last--
	}
	for i, l := range h.Lines {
		switch {
		case i < first:
			before = append(before, l.Text)
		case i >= last:
			after = append(after, l.Text)
		default:
			if l.Sign != '+' {
				old = append(old, l.Text)
			}
			if l.Sign != '-' {
				planted = append(planted, l.Text)
			}
		}
	}
	return before, old, planted, after
}

// locate finds the one place that a hunk changes, or says why it does not. It looks in the function, or in
// the whole file if that has no such function, and does with less and less context: as long as a line is left
// that the function has, or as there is as much context as a hunk has on one side.
func (h *Hunk) locate(s *scopes) (c lineChange, problem string) {
	before, old, planted, after := h.change()
	if len(planted) == 0 {
		return c, "it adds nothing"
	}
	within, leastContext := functionLines{"", 0, len(s.lines)}, contextLines
	for _, f := range s.functions {
		if f.name == h.Function {
			within, leastContext = f, 1
			if len(old) > 0 {
				leastContext = 0
			}
		}
	}
	leastContext = min(leastContext, len(before)+len(after))
	for context := len(before) + len(after); context >= leastContext; context-- {
		var places []int
		for n := max(0, context-len(after)); n <= min(context, len(before)); n++ { // the outer lines go first
			places = append(places, s.find(within, before[len(before)-n:], old, after[:context-n])...)
		}
		slices.Sort(places)
		switch places = slices.Compact(places); len(places) {
		case 0:
		case 1:
			return lineChange{places[0], places[0] + len(old), planted}, ""
		default:
			return c, fmt.Sprintf("its lines are found %d times", len(places))
		}
	}
	return c, "its lines are not found"
}

// find returns where in a range the old lines begin that have these before and behind them. Indentation
// does not matter.
func (s *scopes) find(r functionLines, before, old, after []string) (places []int) {
	want := slices.Concat(before, old, after)
	for i := r.first; i+len(want) <= r.end; i++ {
		if slices.EqualFunc(s.lines[i:i+len(want)], want, func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }) {
			places = append(places, i+len(before))
		}
	}
	return places
}
