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

// sourceFile is one parsed Go file.
type sourceFile struct {
	name  string // slash-separated path from the root of the module
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

// folderPath returns the package's folder, "." for the root.
func (s *sourceFile) folderPath() string { return path.Dir(s.name) }

func (s *sourceFile) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *sourceFile) formatPos(pos token.Pos) string {
	return s.name + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

// importSpec is one import of a file.
type importSpec struct {
	pos   string
	path  string
	local string // the name it is renamed to, or ""
}

func (s *sourceFile) listImports() []importSpec {
	var all []importSpec
	for _, spec := range s.ast.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepts only valid string literals
		}
		local := ""
		if spec.Name != nil {
			local = spec.Name.Name
		}
		all = append(all, importSpec{s.formatPos(spec.Pos()), path, local})
	}
	return all
}

// Check applies every rule to the Go files under root and returns what it
// found, in the order of files. Folders named testdata, and those whose names
// begin with a dot or an underscore, are not read: the go command skips them too.
func Check(root fs.FS) ([]Finding, error) {
	sources, err := loadSources(root)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, s := range sources {
		findings = append(findings, checkLength(s)...)
		if s.isTest() || isInOwnModule(s.folderPath()) {
			continue
		}
		findings = append(findings, checkNames(s)...)
		findings = append(findings, checkDirections(s)...)
		findings = append(findings, checkDependencyHomes(s)...)
		findings = append(findings, checkPurity(s)...)
		findings = append(findings, checkExported(s)...)
	}
	findings = append(findings, checkDocs(sources)...)
	findings = append(findings, checkTypeNames(sources)...)
	return findings, nil
}

func loadSources(root fs.FS) ([]*sourceFile, error) {
	var sources []*sourceFile
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
		sources = append(sources, &sourceFile{name, bytes.Count(text, []byte("\n")), fset, file})
		return nil
	})
	slices.SortFunc(sources, func(a, b *sourceFile) int {
		return cmp.Or(strings.Compare(a.folderPath(), b.folderPath()), strings.Compare(a.name, b.name))
	})
	return sources, err
}
