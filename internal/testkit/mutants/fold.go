package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// A folder takes the conditions of mutants out of the code of one file: each is false, and what
// follows from that is folded. It collects edits of the text, so that formatting and comments stay.
type folder struct {
	fset       *token.FileSet
	source     []byte
	switchName string // by which the file imports the switch
	edits      []edit
	names      []string // of the mutants, in their order in the file
	parents    map[ast.Node]ast.Node
}

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
}

// truth is what is known of a condition when no mutant is switched on.
type truth int

const (
	unknown truth = iota
	isFalse
	isTrue
)

func (t truth) negated() truth {
	switch t {
	case isFalse:
		return isTrue
	case isTrue:
		return isFalse
	}
	return unknown
}

// foldError is about code that the folder cannot take a condition out of.
type foldError struct {
	at   token.Position
	what string
}

func (e *foldError) Error() string { return fmt.Sprintf("%s: %s", e.at, e.what) }

// fold takes all conditions out of a file.
func (f *folder) fold(file *ast.File) (err error) {
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(*foldError)
			if !ok {
				panic(r)
			}
			err = bad
		}
	}()
	f.parents = map[ast.Node]ast.Node{}
	var path []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		if len(path) > 0 {
			f.parents[n] = path[len(path)-1]
		}
		if name, ok := f.mutantName(n); ok {
			f.names = append(f.names, name)
		}
		path = append(path, n)
		return true
	})
	f.foldAll(file)
	return nil
}

func (f *folder) refuse(at ast.Node, what string) {
	panic(&foldError{f.fset.Position(at.Pos()), what})
}

// mutantName returns the name of the mutant that a call asks the switch for.
func (f *folder) mutantName(n ast.Node) (name string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Bug" {
		return "", false
	}
	if x, ok := fun.X.(*ast.Ident); !ok || x.Name != f.switchName {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		f.refuse(n, "the name of a mutant is a literal")
	}
	name, err := strconv.Unquote(literal.Value)
	if err != nil || name == "" {
		f.refuse(n, "the name of a mutant is a literal")
	}
	return name, true
}

func (f *folder) mentions(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n != nil && !found {
			_, found = f.mutantName(n)
		}
		return !found
	})
	return found
}

// foldAll folds what is in n and below it.
func (f *folder) foldAll(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil || !f.mentions(n) {
			return false
		}
		switch n := n.(type) {
		case *ast.IfStmt:
			f.foldIf(n, nil)
			return false
		case *ast.SwitchStmt:
			f.foldSwitch(n)
			return false
		case *ast.ForStmt:
			if n.Cond != nil && f.truthOf(n.Cond) != unknown {
				f.refuse(n, "a mutant alone is the condition of a loop: use an if")
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				f.foldExpr(n, 0, false)
				return false
			}
		case *ast.UnaryExpr, *ast.ParenExpr:
			if f.truthOf(n.(ast.Expr)) != unknown {
				f.foldExpr(n.(ast.Expr), 0, false)
				return false
			}
		case *ast.CallExpr:
			if _, ok := f.mutantName(n); ok {
				f.foldExpr(n, 0, false)
				return false
			}
		}
		return true
	})
}

// truthOf returns what is known of a condition.
func (f *folder) truthOf(e ast.Expr) truth {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.truthOf(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return f.truthOf(e.X).negated()
		}
	case *ast.BinaryExpr:
		x, y := f.truthOf(e.X), f.truthOf(e.Y)
		switch {
		case e.Op == token.LAND && (x == isFalse || y == isFalse):
			return isFalse
		case e.Op == token.LOR && (x == isTrue || y == isTrue):
			return isTrue
		case (e.Op == token.LAND || e.Op == token.LOR) && x == y:
			return x
		}
	case *ast.CallExpr:
		if _, ok := f.mutantName(e); ok {
			return isFalse
		}
	}
	return unknown
}

// foldExpr folds a condition that stands where an operator of a precedence applies to it. Its parentheses
// may go if unwrap is set or what they enclose is folded.
func (f *folder) foldExpr(e ast.Expr, precedence int, unwrap bool) {
	switch f.truthOf(e) {
	case isFalse:
		f.replace(e.Pos(), e.End(), "false")
		return
	case isTrue:
		f.replace(e.Pos(), e.End(), "true")
		return
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		inner, folded := f.survivor(e.X)
		binary, ok := inner.(*ast.BinaryExpr)
		if (folded || unwrap) && (!ok || binary.Op.Precedence() >= precedence) {
			f.replace(e.Lparen, e.Lparen+1, "")
			f.replace(e.Rparen, e.Rparen+1, "")
			f.foldExpr(e.X, precedence, unwrap)
			return
		}
		f.foldExpr(e.X, 0, folded)
	case *ast.UnaryExpr:
		f.foldExpr(e.X, token.UnaryPrec, false)
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			f.foldAll(e.X)
			f.foldAll(e.Y)
			return
		}
		switch {
		case f.truthOf(e.X) != unknown:
			f.replace(e.Pos(), e.Y.Pos(), "")
			f.foldExpr(e.Y, precedence, true)
		case f.truthOf(e.Y) != unknown:
			f.foldExpr(e.X, precedence, true)
			f.replace(e.X.End(), e.End(), "")
		default:
			f.foldExpr(e.X, e.Op.Precedence(), false)
			f.foldExpr(e.Y, e.Op.Precedence(), false)
		}
	default:
		f.foldAll(e)
	}
}

// survivor returns what is left of a condition, and whether that is not all of it.
func (f *folder) survivor(e ast.Expr) (left ast.Expr, folded bool) {
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		if f.truthOf(b.X) != unknown {
			left, _ = f.survivor(b.Y)
			return left, true
		}
		if f.truthOf(b.Y) != unknown {
			left, _ = f.survivor(b.X)
			return left, true
		}
	}
	return e, false
}

// foldIf folds an if, which may be the else of another.
func (f *folder) foldIf(n, elseOf *ast.IfStmt) {
	known := f.truthOf(n.Cond)
	if known == unknown {
		if n.Init != nil {
			f.foldAll(n.Init)
		}
		f.foldExpr(n.Cond, 0, false)
		f.foldAll(n.Body)
		f.foldElse(n)
		return
	}
	if elseOf != nil && n.Init != nil {
		f.refuse(n, "an else-if on a mutant alone has a statement before its condition: write it before the if")
	}
	if known == isTrue {
		f.foldAll(n.Body)
		if elseOf != nil {
			f.replace(n.Pos(), n.Body.Pos(), "")
			f.replace(n.Body.End(), n.End(), "")
			return
		}
		f.unwrap(n, n.Body)
		return
	}
	switch e := n.Else.(type) {
	case nil:
		switch {
		case elseOf != nil:
			f.replace(elseOf.Body.End(), n.End(), "")
		case n.Init == nil:
			f.removeLines(n.Pos(), n.End(), true)
		default:
			if a, ok := n.Init.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				f.refuse(n, "the if of a mutant alone defines a variable: define it in the branch")
			}
			f.foldAll(n.Init)
			f.replace(n.Pos(), n.Init.Pos(), "")
			f.replace(n.Init.End(), n.End(), "")
		}
	case *ast.IfStmt:
		if n.Init != nil {
			f.refuse(n, "the if of a mutant alone has a statement before its condition, and an else-if: write it before the if")
		}
		f.replace(n.Pos(), e.Pos(), "")
		f.foldIf(e, nil)
	case *ast.BlockStmt:
		f.foldAll(e)
		if elseOf != nil {
			f.replace(n.Pos(), e.Pos(), "")
			return
		}
		f.unwrap(n, e)
	}
}

func (f *folder) foldElse(n *ast.IfStmt) {
	switch e := n.Else.(type) {
	case *ast.IfStmt:
		f.foldIf(e, n)
	case *ast.BlockStmt:
		f.foldAll(e)
	}
}

// unwrap leaves of an if the statement before its condition and the statements of one of its blocks.
func (f *folder) unwrap(n *ast.IfStmt, body *ast.BlockStmt) {
	keepsBlock := f.declaresNamesOfOthers(n, body)
	if n.Init != nil {
		f.foldAll(n.Init)
		f.replace(n.Pos(), n.Init.Pos(), "")
	}
	if keepsBlock {
		if n.Init != nil {
			f.replace(n.Init.End(), body.Lbrace, "\n")
		}
		if n.Init == nil {
			f.replace(n.Pos(), body.Lbrace, "")
		}
		f.replace(body.End(), n.End(), "")
		return
	}
	if n.Init == nil {
		f.removeLines(n.Pos(), body.Lbrace+1, false)
	} else {
		f.replace(n.Init.End(), body.Lbrace+1, "")
	}
	f.removeLines(body.Rbrace, n.End(), false)
	f.removeUnreachable(n, body)
}

// declaresNamesOfOthers reports whether a block, or the statement before the condition of its if, declares
// a name that its function also has outside the if: without the block it would be taken for that.
func (f *folder) declaresNamesOfOthers(n *ast.IfStmt, body *ast.BlockStmt) bool {
	declared := map[string]bool{}
	statements := body.List
	if n.Init != nil {
		statements = append([]ast.Stmt{n.Init}, statements...)
	}
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.AssignStmt:
			for _, e := range s.Lhs {
				if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE {
					declared[id.Name] = true
				}
			}
		case *ast.DeclStmt:
			return true
		}
	}
	delete(declared, "_")
	if len(declared) == 0 {
		return false
	}
	var function ast.Node = n
	for {
		function = f.parents[function]
		if _, ok := function.(*ast.FuncDecl); ok || function == nil {
			break
		}
	}
	found := false
	ast.Inspect(function, func(at ast.Node) bool {
		if at == ast.Node(n) {
			return false
		}
		if id, ok := at.(*ast.Ident); ok && declared[id.Name] {
			found = true
		}
		return true
	})
	return found
}

// removeUnreachable removes what follows an if whose unwrapped block ends with a jump.
func (f *folder) removeUnreachable(n *ast.IfStmt, body *ast.BlockStmt) {
	if len(body.List) == 0 {
		return
	}
	switch body.List[len(body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
	default:
		return
	}
	var list []ast.Stmt
	switch parent := f.parents[n].(type) {
	case *ast.BlockStmt:
		list = parent.List
	case *ast.CaseClause:
		list = parent.Body
	}
	for i, s := range list {
		if s == ast.Stmt(n) && i+1 < len(list) {
			f.removeLines(list[i+1].Pos(), list[len(list)-1].End(), true)
		}
	}
}

// foldSwitch removes the clauses of a switch that are of mutants alone.
func (f *folder) foldSwitch(n *ast.SwitchStmt) {
	if n.Init != nil {
		f.foldAll(n.Init)
	}
	if n.Tag != nil {
		f.foldAll(n.Tag)
		f.foldAll(n.Body)
		return
	}
	for i, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		known := unknown
		if len(c.List) == 1 {
			known = f.truthOf(c.List[0])
		}
		switch known {
		case isFalse:
			f.removeLines(c.Pos(), c.End(), true)
			continue
		case isTrue:
			if i+1 < len(n.Body.List) {
				f.refuse(c, "a clause that a mutant switches off is not the last one of its switch")
			}
			f.replace(c.Pos(), c.Colon, "default")
		default:
			for _, e := range c.List {
				if f.mentions(e) {
					f.foldExpr(e, 0, false)
				}
			}
		}
		for _, s := range c.Body {
			f.foldAll(s)
		}
	}
}

func (f *folder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *folder) replace(from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(from), f.offset(to), text})
}

// removeLines removes a part of the text and what would be left of its lines: with all set their comments
// too, those directly above included.
func (f *folder) removeLines(fromPos, toPos token.Pos, all bool) {
	from, to := widenToLines(f.source, f.offset(fromPos), f.offset(toPos), all)
	f.edits = append(f.edits, edit{from: from, to: to})
}

func widenToLines(text []byte, from, to int, all bool) (int, int) {
	begin := bytes.LastIndexByte(text[:from], '\n') + 1
	end := to + bytes.IndexByte(text[to:], '\n') + 1
	rest := strings.TrimSpace(string(text[to:end]))
	if len(bytes.TrimSpace(text[begin:from])) > 0 || rest != "" && !(all && strings.HasPrefix(rest, "//")) {
		return from, to
	}
	from, to = begin, end
	for all && from > 0 && strings.HasPrefix(previousLine(text, from), "//") {
		from = bytes.LastIndexByte(text[:from-1], '\n') + 1
	}
	if !all {
		return from, to
	}
	before, after := previousLine(text, from), nextLine(text, to)
	switch {
	case before == "" && (after == "" || strings.HasPrefix(after, "}")):
		from = bytes.LastIndexByte(text[:from-1], '\n') + 1
	case after == "" && (strings.HasSuffix(before, "{") || strings.HasSuffix(before, ":")):
		to += bytes.IndexByte(text[to:], '\n') + 1
	}
	return from, to
}

// previousLine is the trimmed line before the one that begins at an offset.
func previousLine(text []byte, at int) string {
	if at == 0 {
		return ""
	}
	return strings.TrimSpace(string(text[bytes.LastIndexByte(text[:at-1], '\n')+1 : at]))
}

// nextLine is the trimmed line that begins at an offset.
func nextLine(text []byte, at int) string {
	line, _, _ := strings.Cut(string(text[at:]), "\n")
	return strings.TrimSpace(line)
}
