package mutants

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modulePath is the module that has the mutants.
const modulePath = "github.com/cleavekv/cleave"

// SwitchPath is the package that planted files ask whether a mutant is switched on.
const SwitchPath = modulePath + "/internal/testkit/mutants/plant"

// isSwitch reports whether an import is one of the switch, wherever in the module it lies.
func isSwitch(importPath string) bool {
	return strings.HasPrefix(importPath, modulePath+"/") && path.Base(importPath) == "plant"
}

// findSwitch returns the name by which a file imports the switch, and the path, or nothing.
func findSwitch(file *ast.File) (name, importPath string) {
	for _, imp := range file.Imports {
		if p, _ := strconv.Unquote(imp.Path.Value); isSwitch(p) {
			if imp.Name != nil {
				return imp.Name.Name, p
			}
			return "plant", p
		}
	}
	return "", ""
}

// versionSuffix is the last part of the path of a module from its second major version on.
var versionSuffix = regexp.MustCompile(`^v[0-9]+$`)

// listUnusedImports returns the paths of imports without a name of their own that the file does not use.
func listUnusedImports(file *ast.File) (paths []string) {
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, imp := range file.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		base := path.Base(p)
		if versionSuffix.MatchString(base) {
			base = path.Base(path.Dir(p))
		}
		if imp.Name == nil && !used[base] {
			paths = append(paths, p)
		}
	}
	return paths
}

// removeImport removes an import of a file, and the declaration if it was the only one.
func removeImport(text []byte, importPath string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.ImportSpec)
			if !ok || spec.Path.Value != strconv.Quote(importPath) {
				continue
			}
			var removed ast.Node = spec
			if len(decl.Specs) == 1 {
				removed = decl
			}
			from, to := widenToLines(text, fset.Position(removed.Pos()).Offset, fset.Position(removed.End()).Offset, true)
			if len(decl.Specs) == 1 { // and the empty line before it
				from = len(bytes.TrimRight(text[:from], "\n")) + 1
			} else if strings.HasPrefix(nextLine(text, to), ")") && previousLine(text, from) == "" {
				from--
			}
			return slices.Concat(text[:from], text[to:]), nil
		}
	}
	return text, nil
}

// addImport adds an import to a file, where gofmt would have it: among those of the standard library or of
// the module, in the order of paths.
func addImport(text []byte, importPath string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	line := strconv.Quote(importPath)
	insert := func(at int, added string) []byte { return slices.Concat(text[:at], []byte(added), text[at:]) }
	var decl *ast.GenDecl
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			decl = g
			break
		}
	}
	lineEnd := func(offset int) int { return offset + bytes.IndexByte(text[offset:], '\n') + 1 }
	switch {
	case decl == nil:
		return insert(lineEnd(fset.Position(file.Name.End()).Offset), "\nimport (\n\t"+line+"\n)\n"), nil
	case decl.Lparen == 0:
		from, to := fset.Position(decl.Specs[0].Pos()).Offset, fset.Position(decl.End()).Offset
		single := string(text[from:to])
		grouped := slices.Concat(text[:from], []byte("(\n\t"+single+"\n)"), text[to:])
		return addImport(grouped, importPath)
	}
	begin, last, found := fset.Position(decl.Rparen).Offset, 0, false // where it goes, and the end of the import before
	for _, s := range decl.Specs {
		spec := s.(*ast.ImportSpec)
		p, _ := strconv.Unquote(spec.Path.Value)
		if p == importPath {
			return text, nil
		}
		if importGroup(p) != importGroup(importPath) {
			continue
		}
		offset := fset.Position(spec.Pos()).Offset
		if p > importPath {
			at := bytes.LastIndexByte(text[:offset], '\n') + 1
			return insert(at, "\t"+line+"\n"), nil
		}
		last, found = lineEnd(offset), true
	}
	switch {
	case found:
		return insert(last, "\t"+line+"\n"), nil
	case importGroup(importPath) == "":
		return insert(lineEnd(fset.Position(decl.Lparen).Offset), "\t"+line+"\n\n"), nil
	}
	return insert(begin, "\n\t"+line+"\n"), nil
}

// importGroup returns what imports that stand together have in common.
func importGroup(importPath string) string {
	first, _, _ := strings.Cut(importPath, "/")
	switch {
	case importPath == modulePath || strings.HasPrefix(importPath, modulePath+"/"):
		return modulePath
	case strings.Contains(first, "."):
		return "others"
	}
	return ""
}
