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
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
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
