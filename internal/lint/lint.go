// Package lint holds the rules of the house and checks them.
//
// The rules are tables with a reason in each row, in rules.go; its tests run
// them over this repository and show that each fails on a planted violation.
// What gofmt, vet and staticcheck already say is not said again here.
package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Finding is one broken rule at one place.
type Finding struct {
	Pos  string // file, or file:line
	Rule string // the rule's name
	What string // what is wrong, why the rule is there, what to do
}

// String formats the finding as compilers do.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Pos, f.Rule, f.What) }

// source is one parsed Go file.
type source struct {
	name  string // slash-separated path from the root of the module
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

// folder returns the package's folder, "." for the root.
func (s *source) folder() string { return path.Dir(s.name) }

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) at(pos token.Pos) string {
	return s.name + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

// imported is one import of a file.
type imported struct {
	pos   string
	path  string
	local string // the name it is renamed to, or ""
}

func (s *source) imports() []imported {
	var all []imported
	for _, spec := range s.ast.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepts only valid string literals
		}
		local := ""
		if spec.Name != nil {
			local = spec.Name.Name
		}
		all = append(all, imported{s.at(spec.Pos()), path, local})
	}
	return all
}

// Check applies every rule to the Go files under root and returns what it
// found, in the order of files. Folders named testdata, and those whose names
// begin with a dot or an underscore, are not read: the go command skips them too.
func Check(root fs.FS) ([]Finding, error) {
	sources, err := load(root)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, s := range sources {
		findings = append(findings, checkLength(s)...)
		if s.isTest() || inOwnModule(s.folder()) {
			continue
		}
		findings = append(findings, checkNames(s)...)
		findings = append(findings, checkDirections(s)...)
		findings = append(findings, checkHomes(s)...)
		findings = append(findings, checkPurity(s)...)
		findings = append(findings, checkExported(s)...)
	}
	findings = append(findings, checkDocs(sources)...)
	return findings, nil
}

func load(root fs.FS) ([]*source, error) {
	var sources []*source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		sources = append(sources, &source{name, bytes.Count(text, []byte("\n")), fset, file})
		return nil
	})
	slices.SortFunc(sources, func(a, b *source) int {
		return cmp.Or(strings.Compare(a.folder(), b.folder()), strings.Compare(a.name, b.name))
	})
	return sources, err
}
