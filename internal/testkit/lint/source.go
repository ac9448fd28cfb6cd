package lint

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
)

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
