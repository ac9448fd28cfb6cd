package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

func isInOwnModule(folder string) bool {
	return slices.ContainsFunc(ownModules, func(m string) bool { return isWithin(folder, m) })
}

// isWithin reports whether path is parent or below it.
func isWithin(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

func checkLength(s *sourceFile) []Finding {
	if s.lines <= maxLines {
		return nil
	}
	return []Finding{{s.name, "length", fmt.Sprintf("%d lines, at most %d: split it by idea", s.lines, maxLines)}}
}

func checkNames(s *sourceFile) []Finding {
	if name := s.ast.Name.Name; slices.Contains(vagueNames, name) {
		return []Finding{{s.name, "name", fmt.Sprintf("package %s says nothing: name it after what it provides", name)}}
	}
	return checkRetiredWords(s)
}

// nameWord is a word of a name in mixed caps.
var nameWord = regexp.MustCompile(`[A-Z]?[a-z0-9]+`)

// checkRetiredWords looks for retired words in the names of functions, methods and types.
func checkRetiredWords(s *sourceFile) (findings []Finding) {
	check := func(id *ast.Ident) {
		for _, word := range nameWord.FindAllString(id.Name, -1) {
			if better := retiredWords[strings.ToLower(word)]; better != "" {
				findings = append(findings, Finding{s.formatPos(id.Pos()), "name", fmt.Sprintf("%s has the retired word %q: write %s, see docs/glossary.md", id.Name, strings.ToLower(word), better)})
			}
		}
	}
	for _, decl := range s.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			check(decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					check(t.Name)
				}
			}
		}
	}
	return findings
}

// checkTypeNames wants each exported type under internal to have a name of its own.
func checkTypeNames(sources []*sourceFile) (findings []Finding) {
	homes := map[string]string{} // by the name of a type, the first folder that declares it
	for _, s := range sources {
		folder := s.folderPath()
		if s.isTest() || !isWithin(folder, "internal") || slices.ContainsFunc(mirrors, func(m string) bool { return isWithin(folder, m) }) {
			continue
		}
		for _, decl := range s.ast.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				t := spec.(*ast.TypeSpec)
				name := t.Name.Name
				if !t.Name.IsExported() || t.Assign.IsValid() || genericTypeNames[name] != "" || slices.Contains(sharedTypeNames, name) {
					continue
				}
				if home := cmp.Or(homes[name], folder); home != folder {
					findings = append(findings, Finding{s.formatPos(t.Pos()), "type", fmt.Sprintf("%s is a type of %s too: one word has one meaning, see docs/glossary.md", name, home)})
				} else {
					homes[name] = folder
				}
			}
		}
	}
	return findings
}

// layerOf returns the layer of a folder: its own, or that of the nearest
// listed folder above it, as subpackages belong to their parent.
func layerOf(folder string) (layer int, listed string, ok bool) {
	for f := folder; ; f = path.Dir(f) {
		if layer, ok := layers[f]; ok && (f != "." || folder == ".") {
			return layer, f, true
		}
		if f == "." {
			return 0, "", false
		}
	}
}

// folderOf returns the folder of one of our packages.
func folderOf(importPath string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"), ".")
}

func checkDirections(s *sourceFile) []Finding {
	from, fromName, ok := layerOf(s.folderPath())
	if !ok {
		return []Finding{{s.name, "direction", fmt.Sprintf("folder %s has no layer: list it in internal/testkit/lint/rules.go", s.folderPath())}}
	}
	var findings []Finding
	for _, imp := range s.listImports() {
		if !isWithin(imp.path, module) {
			continue
		}
		folder := folderOf(imp.path)
		to, toName, ok := layerOf(folder)
		switch {
		case isWithin(folder, mutantSwitch) && !isWithin(s.folderPath(), path.Dir(mutantSwitch)):
			findings = append(findings, Finding{imp.pos, "mutant", "asks for a mutant: make extract moves the condition into a patch"})
		case !ok:
			findings = append(findings, Finding{imp.pos, "direction", fmt.Sprintf("imports %s, which has no layer", folder)})
		case to >= from && toName != fromName:
			findings = append(findings, Finding{imp.pos, "direction",
				fmt.Sprintf("%s (layer %d) imports %s (layer %d): data flows from low to high and never back", s.folderPath(), from, folder, to)})
		case isWithin(s.folderPath(), "examples") && isWithin(folder, "internal"):
			findings = append(findings, Finding{imp.pos, "direction",
				fmt.Sprintf("an example imports %s: it shows what a user can do", folder)})
		}
	}
	return findings
}

func checkDependencyHomes(s *sourceFile) []Finding {
	var findings []Finding
	for _, imp := range s.listImports() {
		for _, home := range dependencyHomes {
			at := func(folder string) bool { return isWithin(s.folderPath(), folder) }
			if isWithin(imp.path, home.dependency) && !slices.ContainsFunc(home.folders, at) {
				findings = append(findings, Finding{imp.pos, "home",
					fmt.Sprintf("imports %s outside %s: %s", imp.path, strings.Join(home.folders, " and "), home.reason)})
			}
		}
	}
	return findings
}

func checkPurity(s *sourceFile) []Finding {
	if !isPure(s.folderPath()) {
		return nil
	}
	const reason = "this package decides and is handed time, randomness and I/O"
	var findings []Finding
	watched := map[string]string{} // local name -> import path
	for _, imp := range s.listImports() {
		names, known := lookupImpure(imp.path)
		switch {
		case !known && isWithin(imp.path, module) && !isPure(folderOf(imp.path)):
			findings = append(findings, Finding{imp.pos, "pure", fmt.Sprintf("imports %s, which is not pure: %s", folderOf(imp.path), reason)})
		case !known:
		case names == nil:
			findings = append(findings, Finding{imp.pos, "pure", fmt.Sprintf("imports %s: %s", imp.path, reason)})
		case imp.local == ".":
			findings = append(findings, Finding{imp.pos, "pure", fmt.Sprintf("dot-imports %s, which hides what it uses", imp.path)})
		default:
			watched[cmp.Or(imp.local, defaultName(imp.path))] = imp.path
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			findings = append(findings, Finding{s.formatPos(n.Pos()), "pure", "starts a goroutine: " + reason})
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				findings = append(findings, Finding{s.formatPos(n.Pos()), "pure", "prints: " + reason})
			}
		case *ast.Comment:
			if strings.HasPrefix(n.Text, "//go:linkname ") {
				findings = append(findings, Finding{s.formatPos(n.Pos()), "pure", "links to a name of another package, which hides what it uses"})
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			if target, ok := watched[x.Name]; ok && slices.Contains(impureNames[target], n.Sel.Name) {
				findings = append(findings, Finding{s.formatPos(n.Pos()), "pure", fmt.Sprintf("uses %s.%s: %s", target, n.Sel.Name, reason)})
			}
		}
		return true
	})
	return findings
}

func isPure(folder string) bool {
	return !slices.Contains(impurePackages, folder) && slices.ContainsFunc(purePackages, func(p string) bool { return isWithin(folder, p) })
}

// lookupImpure returns the row of impure for a package: its own, or that of the
// nearest listed one above it, if that forbids everything.
func lookupImpure(importPath string) (names []string, known bool) {
	if names, known = impureNames[importPath]; known {
		return names, true
	}
	for parent := path.Dir(importPath); parent != "."; parent = path.Dir(parent) {
		if names, known = impureNames[parent]; known {
			return nil, names == nil
		}
	}
	return nil, false
}

// defaultName guesses the name of a package of the standard library.
func defaultName(importPath string) string {
	base := path.Base(importPath)
	if base == "v2" {
		return path.Base(path.Dir(importPath))
	}
	return base
}

// checkDocs wants exactly one package comment for each folder with code.
func checkDocs(sources []*sourceFile) []Finding {
	var findings []Finding
	for i := 0; i < len(sources); {
		folder, documented, first := sources[i].folderPath(), 0, ""
		for ; i < len(sources) && sources[i].folderPath() == folder; i++ {
			s := sources[i]
			if s.isTest() {
				continue
			}
			if first == "" {
				first = s.name
			}
			if s.ast.Doc != nil && hasDoc(s.ast.Doc.Text(), s.ast.Name.Name, folder) {
				documented++
			}
		}
		switch {
		case first == "" || documented == 1:
		case documented == 0:
			findings = append(findings, Finding{first, "doc", "package has no comment that begins 'Package NAME' or 'Command NAME': say what question it answers"})
		default:
			findings = append(findings, Finding{first, "doc", fmt.Sprintf("package has %d package comments: keep one", documented)})
		}
	}
	return findings
}

func hasDoc(text, name, folder string) bool {
	if name == "main" {
		return strings.HasPrefix(text, "Command "+path.Base(folder)+" ")
	}
	return strings.HasPrefix(text, "Package "+name+" ")
}

// checkExported wants a comment on every exported name of a package that can
// be imported: functions, methods of exported types, types, constants and
// variables. A comment on a group speaks for its members.
func checkExported(s *sourceFile) []Finding {
	if s.ast.Name.Name == "main" {
		return nil
	}
	var findings []Finding
	want := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc != nil {
				return
			}
		}
		if name.IsExported() {
			findings = append(findings, Finding{s.formatPos(name.Pos()), "doc", fmt.Sprintf("exported %s has no comment: say what a caller must know", name.Name)})
		}
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiverName(d.Recv.List[0].Type).IsExported() {
				want(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					want(spec.Name, d.Doc, spec.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						want(name, d.Doc, spec.Doc, spec.Comment)
					}
				}
			}
		}
	}
	return findings
}

// receiverName returns the name of a method's type.
func receiverName(t ast.Expr) *ast.Ident {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.ParenExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t
	}
	return ast.NewIdent("_")
}
