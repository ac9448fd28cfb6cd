// Command measure prints the measures by which the style guide compares this module with others:
// one row for each measure, one column for each checkout.
//
//	go run ./internal/testkit/measure [DIR ...]
//
// Without DIR it measures the module around the current folder. It only parses, so it reads any
// checkout without its dependencies. It counts Go files without tests and leaves out generated
// files, folders named vendor or testdata, folders that the go command skips, and in our own
// module bench and examples.
//
// What the rows mean:
//   - A function is a function or method with a declaration. A name of a single lower-case word has
//     neither capitals nor underscores; main and init count as well.
//   - The first word of a name ends before the next capital or underscore: write for WriteBatch,
//     http for HTTPServer. Case does not distinguish words.
//   - A private numeric constant is one of a package, not exported, whose value is computed from a
//     number in its declaration: 64 << 10, 5 * time.Second. Enumerations by iota do not count.
//   - The lines of a function reach from func to its closing brace.
//   - Cognitive complexity is described at type cognitive.
//   - Siblings are the folders with Go files, directly or below, inside one folder under internal.
//   - Calls against the layering are described at type layering.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// ownModule is the module whose ownSkipped folders are not measured: they show or compare the
// product and are not part of it.
const ownModule = "github.com/cleavekv/cleave"

var ownSkipped = []string{"bench", "examples"}

const (
	// Functions over these limits are counted: the thresholds of the style guide's table.
	lineLimit      = 80
	cognitiveLimit = 30

	// listedPackages is how many packages with calls against their layering are printed: enough to
	// choose what to reorder next.
	listedPackages = 5
)

// report holds the measures of one checkout.
type report struct {
	name           string
	files, lines   int // without tests
	functions      int
	singleWords    int
	firstWords     map[string]bool
	constants      int
	long, complex  int
	siblings       int
	siblingsFolder string     // the first folder with that many siblings
	layerings      []layering // the packages with the highest share first
}

// sourceFile is one parsed Go file that is neither a test nor generated.
type sourceFile struct {
	name string // slash-separated path from the root of the checkout
	fset *token.FileSet
	ast  *ast.File
}

func main() {
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: measure [DIR ...]") }
	flag.Parse()
	if err := run(flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(folders []string, out io.Writer) error {
	if len(folders) == 0 {
		root, err := findModuleRoot()
		if err != nil {
			return err
		}
		folders = []string{root}
	}
	var reports []report
	for _, folder := range folders {
		r, err := measureFolder(folder)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		reports = append(reports, r)
	}
	return writeTable(out, reports)
}

// findModuleRoot returns the nearest folder with a go.mod, from the current one upwards.
func findModuleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no go.mod here or above: name the checkout to measure")
		}
		folder = parent
	}
}

func measureFolder(folder string) (report, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return report{}, err
	}
	root := os.DirFS(absolute)
	module, err := readModulePath(root)
	if err != nil {
		return report{}, err
	}
	name := filepath.Base(absolute)
	if module != "" {
		name = path.Base(majorSuffix.ReplaceAllString(module, ""))
	}
	var skip []string
	if module == ownModule {
		skip = ownSkipped
	}
	r, err := measure(root, skip)
	r.name = name
	return r, err
}

var (
	moduleLine  = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
	majorSuffix = regexp.MustCompile(`/v[0-9]+$`)
)

// readModulePath returns the module's path, or "" in a checkout without a go.mod.
func readModulePath(root fs.FS) (string, error) {
	text, err := fs.ReadFile(root, "go.mod")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if found := moduleLine.FindSubmatch(text); found != nil {
		return string(found[1]), nil
	}
	return "", nil
}

// measure counts everything in the Go files under root, except in the folders of skip.
func measure(root fs.FS, skip []string) (report, error) {
	r := report{firstWords: map[string]bool{}}
	children := map[string]map[string]bool{} // of folders under internal
	packages := map[string][]sourceFile{}    // by folder and package name
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && isSkipped(name, skip) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || !entry.Type().IsRegular() {
			return nil
		}
		noteChildren(children, path.Dir(name))
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		r.files++
		r.lines += bytes.Count(text, []byte("\n"))
		source := sourceFile{name, fset, file}
		r.countDeclarations(source)
		key := path.Dir(name) + " " + file.Name.Name
		packages[key] = append(packages[key], source)
		return nil
	})
	if err != nil {
		return report{}, err
	}
	for folder, names := range children {
		if len(names) > r.siblings || len(names) == r.siblings && folder < r.siblingsFolder {
			r.siblings, r.siblingsFolder = len(names), folder
		}
	}
	r.layerings = rankLayerings(packages)
	return r, nil
}

func isSkipped(folder string, skip []string) bool {
	base := path.Base(folder)
	return base == "vendor" || base == "testdata" || base[0] == '.' || base[0] == '_' || slices.Contains(skip, folder)
}

// noteChildren enters folder, which has Go files, and its parents as children of the folders
// around them, up to internal.
func noteChildren(children map[string]map[string]bool, folder string) {
	for strings.HasPrefix(folder, "internal/") {
		parent := path.Dir(folder)
		if children[parent] == nil {
			children[parent] = map[string]bool{}
		}
		children[parent][folder] = true
		folder = parent
	}
}

func (r *report) countDeclarations(s sourceFile) {
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			r.countFunction(s.fset, d)
		case *ast.GenDecl:
			if d.Tok == token.CONST {
				r.constants += countPrivateNumbers(d)
			}
		}
	}
}

func (r *report) countFunction(fset *token.FileSet, f *ast.FuncDecl) {
	r.functions++
	if isSingleWord(f.Name.Name) {
		r.singleWords++
	}
	r.firstWords[firstWord(f.Name.Name)] = true
	if fset.Position(f.End()).Line-fset.Position(f.Type.Pos()).Line+1 > lineLimit {
		r.long++
	}
	if scoreFunction(f) > cognitiveLimit {
		r.complex++
	}
}

func isSingleWord(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return unicode.IsUpper(c) || c == '_' })
}

// firstWord returns the first word of a name in lower case. Capitals in a row are one word, the
// last of them excepted if a lower-case letter follows, as it begins the next word.
func firstWord(name string) string {
	letters := []rune(strings.TrimLeft(name, "_"))
	if len(letters) == 0 {
		return ""
	}
	end := 1
	for end < len(letters) && unicode.IsUpper(letters[end-1]) && unicode.IsUpper(letters[end]) {
		end++
	}
	if end > 1 && end < len(letters) && unicode.IsLower(letters[end]) {
		end--
	} else {
		for end < len(letters) && !unicode.IsUpper(letters[end]) && letters[end] != '_' {
			end++
		}
	}
	return strings.ToLower(string(letters[:end]))
}

// countPrivateNumbers counts the numeric constants of one declaration that are not exported.
func countPrivateNumbers(d *ast.GenDecl) int {
	count := 0
	var values []ast.Expr // a constant without a value repeats those of the one before
	for _, spec := range d.Specs {
		spec := spec.(*ast.ValueSpec)
		if len(spec.Values) > 0 {
			values = spec.Values
		}
		for i, name := range spec.Names {
			if name.Name != "_" && !name.IsExported() && i < len(values) && isNumber(values[i]) {
				count++
			}
		}
	}
	return count
}

// isNumber reports whether a constant's value is computed from a number that is written there.
func isNumber(value ast.Expr) bool {
	written, other := false, false
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			written = written || n.Kind != token.STRING
			other = other || n.Kind == token.STRING
		case *ast.Ident:
			other = other || n.Name == "iota"
		case *ast.BinaryExpr:
			switch n.Op {
			case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
				other = true
			}
		}
		return true
	})
	return written && !other
}

// cognitive computes the cognitive complexity of a function as SonarSource defines it:
//   - if, for, range, switch, type switch and select add 1, and 1 more for each level of nesting
//     around them;
//   - else and else if add 1, without nesting;
//   - a sequence of equal operators && or || adds 1, and so does each change of the operator;
//     parentheses and ! begin a new sequence;
//   - goto, and break and continue with a label, add 1.
//
// The bodies of all these and of function literals are a level of nesting; a literal itself adds
// nothing. Recursion adds nothing either, unlike in the definition.
type cognitive struct {
	score   *int
	nesting int
	bodies  map[ast.Node]bool // blocks that are a level of nesting
	elses   map[ast.Node]bool // what follows an else: a block or another if
	counted map[ast.Node]bool // operators that are part of a sequence
}

func scoreFunction(f *ast.FuncDecl) int {
	score := 0
	ast.Walk(cognitive{&score, 0, map[ast.Node]bool{}, map[ast.Node]bool{}, map[ast.Node]bool{}}, f)
	return score
}

// Visit adds what node counts, and returns the visitor with the nesting inside it.
func (c cognitive) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.IfStmt:
		*c.score++
		if !c.elses[n] {
			*c.score += c.nesting
		}
		c.bodies[n.Body] = true
		if n.Else != nil {
			c.elses[n.Else] = true
		}
	case *ast.ForStmt:
		c.addNested(n.Body)
	case *ast.RangeStmt:
		c.addNested(n.Body)
	case *ast.SwitchStmt:
		c.addNested(n.Body)
	case *ast.TypeSwitchStmt:
		c.addNested(n.Body)
	case *ast.SelectStmt:
		c.addNested(n.Body)
	case *ast.FuncLit:
		c.bodies[n.Body] = true
	case *ast.BlockStmt:
		if c.elses[n] {
			*c.score++
		}
		if c.elses[n] || c.bodies[n] {
			c.nesting++
		}
	case *ast.BranchStmt:
		if n.Label != nil {
			*c.score++
		}
	case *ast.BinaryExpr:
		if !c.counted[n] {
			last := token.ILLEGAL
			c.addSequences(n, &last)
		}
	}
	return c
}

func (c cognitive) addNested(body *ast.BlockStmt) {
	*c.score += 1 + c.nesting
	c.bodies[body] = true
}

// addSequences adds 1 for each operator && or || in e that differs from the one before it, which is
// *last.
func (c cognitive) addSequences(e ast.Expr, last *token.Token) {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	c.counted[b] = true
	c.addSequences(b.X, last)
	if b.Op != *last {
		*c.score++
		*last = b.Op
	}
	c.addSequences(b.Y, last)
}

// writeTable prints one row per measure and one column per report.
func writeTable(out io.Writer, reports []report) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	writeRow := func(label string, cell func(r report) string) {
		fmt.Fprint(table, label)
		for _, r := range reports {
			fmt.Fprint(table, "\t", cell(r))
		}
		fmt.Fprintln(table)
	}
	writeCount := func(label string, count func(r report) int) {
		writeRow(label, func(r report) string { return strconv.Itoa(count(r)) })
	}
	writeRow("", func(r report) string { return r.name })
	writeCount("Go files without tests", func(r report) int { return r.files })
	writeRow("lines per file (mean)", func(r report) string { return formatRatio(r.lines, r.files) })
	writeCount("functions and methods", func(r report) int { return r.functions })
	writeRow("names of a single lower-case word", func(r report) string { return formatRatio(100*r.singleWords, r.functions) + " %" })
	writeCount("distinct first words of function names", func(r report) int { return len(r.firstWords) })
	writeCount("private numeric constants", func(r report) int { return r.constants })
	writeCount(fmt.Sprintf("functions over %d lines", lineLimit), func(r report) int { return r.long })
	writeCount(fmt.Sprintf("functions with cognitive complexity over %d", cognitiveLimit), func(r report) int { return r.complex })
	writeRow("siblings per folder under internal (maximum)", func(r report) string {
		if r.siblings == 0 {
			return "0"
		}
		return fmt.Sprintf("%d in %s", r.siblings, r.siblingsFolder)
	})
	for i := range listedPackages {
		label := "calls between files against the layering"
		if i > 0 {
			label = fmt.Sprintf("  number %d", i+1)
		}
		writeRow(label, func(r report) string {
			if i >= len(r.layerings) {
				return "-"
			}
			return formatLayering(r.layerings[i])
		})
	}
	return table.Flush()
}

func formatLayering(l layering) string {
	return fmt.Sprintf("%s %% %s (%d of %d)", formatRatio(100*l.backward, l.calls), l.folder, l.backward, l.calls)
}

// formatRatio returns a/b rounded to an integer, and 0 if b is 0.
func formatRatio(a, b int) string {
	if b == 0 {
		return "0"
	}
	return strconv.Itoa((2*a + b) / (2 * b))
}
