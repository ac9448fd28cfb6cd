package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

func inOwnModule(folder string) bool {
	return slices.ContainsFunc(ownModules, func(m string) bool { return within(folder, m) })
}

// within reports whether path is parent or below it.
func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

func checkLength(s *source) []Finding {
	if s.lines <= maxLines {
		return nil
	}
	return []Finding{{s.name, "length", fmt.Sprintf("%d lines, at most %d: split it by idea", s.lines, maxLines)}}
}

func checkNames(s *source) []Finding {
	if name := s.ast.Name.Name; slices.Contains(vague, name) {
		return []Finding{{s.name, "name", fmt.Sprintf("package %s says nothing: name it after what it provides", name)}}
	}
	return nil
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

func checkDirections(s *source) []Finding {
	from, fromName, ok := layerOf(s.folder())
	if !ok {
		return []Finding{{s.name, "direction", fmt.Sprintf("folder %s has no layer: list it in internal/lint/rules.go", s.folder())}}
	}
	var findings []Finding
	for _, imp := range s.imports() {
		if !within(imp.path, module) {
			continue
		}
		folder := folderOf(imp.path)
		to, toName, ok := layerOf(folder)
		switch {
		case !ok:
			findings = append(findings, Finding{imp.pos, "direction", fmt.Sprintf("imports %s, which has no layer", folder)})
		case to >= from && toName != fromName:
			findings = append(findings, Finding{imp.pos, "direction",
				fmt.Sprintf("%s (layer %d) imports %s (layer %d): data flows from low to high and never back", s.folder(), from, folder, to)})
		case within(s.folder(), "examples") && within(folder, "internal"):
			findings = append(findings, Finding{imp.pos, "direction",
				fmt.Sprintf("an example imports %s: it shows what a user can do", folder)})
		}
	}
	return findings
}

func checkHomes(s *source) []Finding {
	var findings []Finding
	for _, imp := range s.imports() {
		for _, home := range homes {
			at := func(folder string) bool { return within(s.folder(), folder) }
			if within(imp.path, home.dependency) && !slices.ContainsFunc(home.folders, at) {
				findings = append(findings, Finding{imp.pos, "home",
					fmt.Sprintf("imports %s outside %s: %s", imp.path, strings.Join(home.folders, " and "), home.reason)})
			}
		}
	}
	return findings
}

func checkPurity(s *source) []Finding {
	if !isPure(s.folder()) {
		return nil
	}
	const reason = "this package decides and is handed time, randomness and I/O"
	var findings []Finding
	watched := map[string]string{} // local name -> import path
	for _, imp := range s.imports() {
		names, known := impureNames(imp.path)
		switch {
		case !known && within(imp.path, module) && !isPure(folderOf(imp.path)):
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
			findings = append(findings, Finding{s.at(n.Pos()), "pure", "starts a goroutine: " + reason})
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				findings = append(findings, Finding{s.at(n.Pos()), "pure", "prints: " + reason})
			}
		case *ast.Comment:
			if strings.HasPrefix(n.Text, "//go:linkname ") {
				findings = append(findings, Finding{s.at(n.Pos()), "pure", "links to a name of another package, which hides what it uses"})
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			if target, ok := watched[x.Name]; ok && slices.Contains(impure[target], n.Sel.Name) {
				findings = append(findings, Finding{s.at(n.Pos()), "pure", fmt.Sprintf("uses %s.%s: %s", target, n.Sel.Name, reason)})
			}
		}
		return true
	})
	return findings
}

func isPure(folder string) bool {
	return slices.ContainsFunc(pure, func(p string) bool { return within(folder, p) })
}

// impureNames returns the row of impure for a package: its own, or that of the
// nearest listed one above it, if that forbids everything.
func impureNames(importPath string) (names []string, known bool) {
	if names, known = impure[importPath]; known {
		return names, true
	}
	for parent := path.Dir(importPath); parent != "."; parent = path.Dir(parent) {
		if names, known = impure[parent]; known {
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
func checkDocs(sources []*source) []Finding {
	var findings []Finding
	for i := 0; i < len(sources); {
		folder, documented, first := sources[i].folder(), 0, ""
		for ; i < len(sources) && sources[i].folder() == folder; i++ {
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
