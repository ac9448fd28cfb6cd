package main

import (
	"cmp"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// layering is how many calls between the files of a package go against the best order of the
// files that was found. In a package that reads top to bottom, files call only files below them.
//
// Calls are found by names. A call f() goes to the function f of the package, unless the file or a
// scope in it declares f. A call x.m() goes to the method m if the package has only one method m and
// x is not an imported package. Without types, x may be a value of another package: a buf.Reset()
// counts as a call of the package's only Reset. String and Error, which most packages have from
// others, and functions with a declaration in several files, for build tags, are left out.
type layering struct {
	folder   string
	backward int // calls to a file above
	calls    int // all calls between files
}

// rankLayerings returns the packages with calls between files, the highest share of backward calls
// first, and among equals those with more calls.
func rankLayerings(packages map[string][]sourceFile) []layering {
	var all []layering
	for _, files := range packages {
		slices.SortFunc(files, func(a, b sourceFile) int { return strings.Compare(a.name, b.name) })
		calls := countCalls(files)
		l := layering{folder: path.Dir(files[0].name)}
		order := orderFiles(calls)
		for i, from := range order {
			for j, to := range order {
				l.calls += calls[from][to]
				if j < i {
					l.backward += calls[from][to]
				}
			}
		}
		if l.calls > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b layering) int {
		return cmp.Or(cmp.Compare(b.backward*a.calls, a.backward*b.calls), cmp.Compare(b.calls, a.calls), strings.Compare(a.folder, b.folder))
	})
	return all
}

// ambiguous stands for the file of a name with several declarations.
const ambiguous = -1

// declarations are the names that a package declares, with the indexes of their files.
type declarations struct {
	functions, methods map[string]int
	others             map[string]bool // types, variables and constants
}

func indexDeclarations(files []sourceFile) declarations {
	d := declarations{map[string]int{}, map[string]int{}, map[string]bool{}}
	for i, file := range files {
		for _, decl := range file.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				names := d.functions
				if decl.Recv != nil {
					names = d.methods
				}
				if _, again := names[decl.Name.Name]; again {
					names[decl.Name.Name] = ambiguous
				} else {
					names[decl.Name.Name] = i
				}
			case *ast.GenDecl:
				d.addOthers(decl)
			}
		}
	}
	return d
}

func (d declarations) addOthers(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			d.others[s.Name.Name] = true
		case *ast.ValueSpec:
			for _, name := range s.Names {
				d.others[name.Name] = true
			}
		}
	}
}

// resolveCall returns the file with what is called, and reports whether there is exactly one.
// outside are the names in the caller's file that the file does not declare.
func (d declarations) resolveCall(call *ast.CallExpr, outside map[*ast.Ident]bool) (file int, ok bool) {
	switch f := trimInstance(call.Fun).(type) {
	case *ast.Ident:
		if !outside[f] {
			return 0, false
		}
		file, ok = d.functions[f.Name]
	case *ast.SelectorExpr:
		if x, isName := f.X.(*ast.Ident); isName && outside[x] && !d.others[x.Name] {
			return 0, false // x is an imported package
		}
		if f.Sel.Name == "String" || f.Sel.Name == "Error" {
			return 0, false // of a strings.Builder, more often than not
		}
		file, ok = d.methods[f.Sel.Name]
	}
	return file, ok && file != ambiguous
}

// countCalls returns how often each file of a package calls each other one.
func countCalls(files []sourceFile) [][]int {
	declared := indexDeclarations(files)
	calls := make([][]int, len(files))
	for from, file := range files {
		calls[from] = make([]int, len(files))
		outside := map[*ast.Ident]bool{}
		for _, name := range file.ast.Unresolved {
			outside[name] = true
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if to, ok := declared.resolveCall(call, outside); ok && to != from {
					calls[from][to]++
				}
			}
			return true
		})
	}
	return calls
}

// trimInstance removes parentheses and type arguments from what is called.
func trimInstance(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return trimInstance(e.X)
	case *ast.IndexExpr:
		return trimInstance(e.X)
	case *ast.IndexListExpr:
		return trimInstance(e.X)
	}
	return e
}

// orderFiles returns an order of the files in which few calls go backward, and none if that is
// possible. The best order is NP-hard to find, so this one is a local optimum. A file that no other
// file left calls is the next from the top, and one that calls no other is the next from the bottom.
// Without either, the next from the top is the file with the most calls to the files left, less
// their calls to it. At last single files move, by swaps of neighbors, as long as a move helps.
func orderFiles(calls [][]int) []int {
	left := make([]int, len(calls))
	for i := range left {
		left[i] = i
	}
	var top, bottom []int
	for len(left) > 0 {
		i, isSink := chooseNext(left, calls)
		if isSink {
			bottom = append(bottom, left[i])
		} else {
			top = append(top, left[i])
		}
		left = slices.Delete(left, i, i+1)
	}
	slices.Reverse(bottom)
	order := append(top, bottom...)
	for improved := true; improved; {
		improved = false
		for i := range order {
			improved = moveToBest(order, i, calls) || improved
		}
	}
	return order
}

// chooseNext returns the index of the file in left to place next, and whether it goes to the bottom.
func chooseNext(left []int, calls [][]int) (next int, isSink bool) {
	nextWeight := 0
	for i, f := range left {
		out, in := 0, 0
		for _, other := range left {
			out += calls[f][other]
			in += calls[other][f]
		}
		if in == 0 || out == 0 {
			return i, in > 0
		}
		if i == 0 || out-in > nextWeight {
			next, nextWeight = i, out-in
		}
	}
	return next, false
}

// moveToBest moves the file at position i to where the fewest calls go backward, and reports whether
// that is better than where it was.
func moveToBest(order []int, i int, calls [][]int) bool {
	f, best, bestGain := order[i], i, 0
	gain := 0
	for j := i - 1; j >= 0; j-- {
		gain += calls[f][order[j]] - calls[order[j]][f]
		if gain > bestGain {
			best, bestGain = j, gain
		}
	}
	gain = 0
	for j := i + 1; j < len(order); j++ {
		gain += calls[order[j]][f] - calls[f][order[j]]
		if gain > bestGain {
			best, bestGain = j, gain
		}
	}
	for ; i > best; i-- {
		order[i], order[i-1] = order[i-1], order[i]
	}
	for ; i < best; i++ {
		order[i], order[i+1] = order[i+1], order[i]
	}
	return bestGain > 0
}
