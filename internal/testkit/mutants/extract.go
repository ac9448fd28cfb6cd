package mutants

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// Extract takes the conditions of mutants out of the files of one folder: it returns those that have any
// as they are without, and the patches that put the conditions in. All files of the folder are given, by
// their paths in the module: what only mutants use goes too.
func Extract(folder map[string][]byte) (clean map[string][]byte, patches []*Patch, err error) {
	clean = map[string][]byte{}
	planted := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(folder)) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, normal, err := extractFile(name, folder[name])
		if err != nil {
			return nil, nil, err
		}
		if text != nil {
			clean[name], planted[name] = text, normal
		}
	}
	if err := removeHelpers(folder, clean); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(clean)) {
		p, err := makePatch(name, clean, planted[name])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		patches = append(patches, p)
	}
	return clean, patches, nil
}

// extractFile folds the conditions of a file. It returns nothing for one that has none. planted is the file
// itself, with the import of the switch where a patch puts it.
func extractFile(name string, text []byte) (clean, planted []byte, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	switchName, switchPath := findSwitch(file)
	if switchName == "" {
		return nil, nil, nil
	}
	f := &folder{fset: fset, source: text, switchName: switchName}
	if err := f.fold(file); err != nil {
		return nil, nil, err
	}
	clean, err = removeImport(applyEdits(text, f.edits), switchPath)
	if err == nil {
		clean, err = format.Source(clean)
	}
	if err == nil {
		planted, err = removeImport(text, switchPath)
	}
	if err == nil && len(f.names) > 0 {
		planted, err = addImport(planted, SwitchPath)
	}
	if err == nil {
		planted, err = format.Source(planted)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s without its mutants: %w", name, err)
	}
	return clean, planted, nil
}

// applyEdits makes the edits that are not within another.
func applyEdits(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var out []byte
	at := 0
	for _, e := range edits {
		if e.to <= at && e.from < at {
			continue
		}
		out = append(out, text[at:max(at, e.from)]...)
		out = append(out, e.text...)
		at = e.to
	}
	return append(out, text[at:]...)
}

// removeHelpers removes from files without mutants the declarations that only mutants use.
func removeHelpers(folder, clean map[string][]byte) error {
	before, err := countNames(folder, nil)
	if err != nil {
		return err
	}
	for removed := true; removed; {
		removed = false
		now, err := countNames(folder, clean)
		if err != nil {
			return err
		}
		for name, text := range clean {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			var edits []edit
			for _, d := range file.Decls {
				if id, from := declaredName(d); id != "" && !token.IsExported(id) && now[id] == 1 && before[id] > 1 {
					begin, end := widenToLines(text, fset.Position(from).Offset, fset.Position(d.End()).Offset, true)
					edits = append(edits, edit{from: begin, to: end})
				}
			}
			if len(edits) > 0 {
				removed = true
				if clean[name], err = format.Source(applyEdits(text, edits)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// declaredName returns the one name that a declaration declares, and where it begins.
func declaredName(d ast.Decl) (name string, from token.Pos) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.Name == "init" || d.Name.Name == "main" {
			return "", 0
		}
		return d.Name.Name, d.Pos()
	case *ast.GenDecl:
		if len(d.Specs) != 1 {
			return "", 0
		}
		switch s := d.Specs[0].(type) {
		case *ast.ValueSpec:
			if len(s.Names) == 1 {
				return s.Names[0].Name, d.Pos()
			}
		case *ast.TypeSpec:
			return s.Name.Name, d.Pos()
		}
	}
	return "", 0
}

// countNames counts how often files have each identifier. Those in instead come in the place of others.
func countNames(folder, instead map[string][]byte) (map[string]int, error) {
	counts := map[string]int{}
	for name, text := range folder {
		if t, ok := instead[name]; ok {
			text = t
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				counts[id.Name]++
			}
			return true
		})
	}
	return counts, nil
}

// makePatch removes the imports that only mutants use from clean[name], and returns the patch.
func makePatch(name string, clean map[string][]byte, planted []byte) (*Patch, error) {
	p := &Patch{Source: name}
	text := clean[name]
	unused := func(text []byte) ([]string, error) {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		return listUnusedImports(file), nil
	}
	before, err := unused(planted)
	if err != nil {
		return nil, err
	}
	now, err := unused(text)
	if err != nil {
		return nil, err
	}
	for _, path := range now {
		if !slices.Contains(before, path) {
			p.Imports = append(p.Imports, path)
			if text, err = removeImport(text, path); err != nil {
				return nil, err
			}
		}
	}
	clean[name] = text
	plain := planted
	for _, path := range append([]string{SwitchPath}, p.Imports...) {
		if plain, err = removeImport(plain, path); err != nil {
			return nil, err
		}
	}
	if p.Hunks, err = makeHunks(text, plain); err != nil {
		return nil, err
	}
	again, err := p.Apply(text)
	if err != nil {
		return nil, fmt.Errorf("the patch does not fit: %w", err)
	}
	if !bytes.Equal(again, planted) {
		return nil, fmt.Errorf("the patch does not make the file again that it is of, but\n%s", firstDifference(again, planted))
	}
	return p, nil
}

// firstDifference shows where two texts begin to differ.
func firstDifference(got, want []byte) string {
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %q instead of %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(a), len(b))
}

// folderOf is the folder of a file in the module.
func folderOf(source string) string { return path.Dir(source) }
