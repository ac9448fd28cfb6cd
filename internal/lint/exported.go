package lint

import (
	"fmt"
	"go/ast"
	"go/token"
)

// checkExported wants a comment on every exported name of a package that can
// be imported: functions, methods of exported types, types, constants and
// variables. A comment on a group speaks for its members.
func checkExported(s *source) []Finding {
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
			findings = append(findings, Finding{s.at(name.Pos()), "doc", fmt.Sprintf("exported %s has no comment: say what a caller must know", name.Name)})
		}
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiver(d.Recv.List[0].Type).IsExported() {
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

// receiver returns the name of a method's type.
func receiver(t ast.Expr) *ast.Ident {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t
	}
	return ast.NewIdent("_")
}
