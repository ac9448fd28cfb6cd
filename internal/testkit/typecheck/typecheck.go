// Package typecheck lets a test prove that a program does not compile.
//
// The program is a file under testdata. A line that must be refused carries a
// comment with a part of the compiler's words:
//
//	router.Route(local) // want "cannot use local"
//
// Every error must be announced and every announcement must come true, so a
// program that fails for another reason than the one it is about fails the
// test. Lines without a comment prove that the rest compiles.
//
// Imports are read from the build cache through `go list -export`: no network,
// and nothing is compiled twice.
package typecheck

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Check type-checks the Go file at path and returns an error that lists each
// difference between its type errors and its "want" comments, or nil.
func Check(path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return checkSource(path, src)
}

// finding is one error at one line: expected, or found.
type finding struct {
	line int
	text string
}

func checkSource(path string, src []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return err
	}
	wants, err := parseWants(fset, file)
	if err != nil {
		return err
	}
	found, err := findTypeErrors(fset, file)
	if err != nil {
		return fmt.Errorf("type-check %s: %w", path, err)
	}
	return compareFindings(filepath.Base(path), wants, found)
}

// parseWants reads the announcements of a file.
func parseWants(fset *token.FileSet, file *ast.File) ([]finding, error) {
	var wants []finding
	for _, group := range file.Comments {
		for _, c := range group.List {
			// A misspelt announcement must not pass for prose: its proof would
			// be lost without a word.
			if word := strings.TrimLeft(c.Text, "/* \t"); !strings.HasPrefix(word, "want") {
				continue
			}
			quoted, ok := strings.CutPrefix(c.Text, "// want ")
			text, err := strconv.Unquote(quoted)
			if !ok || err != nil || text == "" {
				return nil, fmt.Errorf("%s: %s: write // want and one quoted text", fset.Position(c.Pos()), c.Text)
			}
			wants = append(wants, finding{fset.Position(c.Pos()).Line, text})
		}
	}
	return wants, nil
}

func findTypeErrors(fset *token.FileSet, file *ast.File) ([]finding, error) {
	lookup, err := findExportData(filepath.Dir(fset.Position(file.Pos()).Filename), file)
	if err != nil {
		return nil, err
	}
	var found []finding
	conf := types.Config{
		Importer: importer.ForCompiler(fset, "gc", lookup),
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) {
				found = append(found, finding{fset.Position(e.Pos).Line, e.Msg})
			}
		},
	}
	// The result repeats the first of the errors that Error collects.
	_, _ = conf.Check(file.Name.Name, fset, []*ast.File{file}, nil)
	return found, nil
}

// findExportData returns a way to open the compiled form of each package that the
// file imports, directly or not.
func findExportData(dir string, file *ast.File) (importer.Lookup, error) {
	paths := make(map[string]string)
	if len(file.Imports) > 0 {
		args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			args = append(args, path)
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
		}
		for line := range strings.Lines(string(out)) {
			path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
			paths[path] = export
		}
	}
	return func(path string) (io.ReadCloser, error) {
		if paths[path] == "" {
			return nil, fmt.Errorf("no compiled form of %s", path)
		}
		return os.Open(paths[path])
	}, nil
}

// compareFindings pairs each announcement with one error on its line.
func compareFindings(name string, wants, found []finding) error {
	var errs []error
	matched := make([]bool, len(found))
	for _, w := range wants {
		hit := false
		for i, f := range found {
			if !matched[i] && f.line == w.line && strings.Contains(f.text, w.text) {
				matched[i], hit = true, true
				break
			}
		}
		if !hit {
			errs = append(errs, fmt.Errorf("%s:%d: must not compile, with %q", name, w.line, w.text))
		}
	}
	for i, f := range found {
		if !matched[i] {
			errs = append(errs, fmt.Errorf("%s:%d: must compile, but: %s", name, f.line, f.text))
		}
	}
	return errors.Join(errs...)
}
