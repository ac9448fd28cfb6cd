package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each patch fits its file, and taking the conditions out again gives the file as it is: so renewing the
// patches changes no production code.
func TestPatches_FitTheCode(t *testing.T) {
	tree := openTree(t)
	folders := map[string][]string{}
	for _, source := range slices.Sorted(maps.Keys(tree.Patches)) {
		folders[folderOf(source)] = append(folders[folderOf(source)], source)
	}
	for folder, sources := range folders {
		files, err := tree.ReadFolder(folder)
		if err != nil {
			t.Fatal(err)
		}
		original := maps.Clone(files)
		for _, source := range sources {
			if files[source], err = tree.Mutated(source); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			continue
		}
		mutated := maps.Clone(files)
		clean, patches, err := Extract(files)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range patches {
			if got := clean[p.Source]; !bytes.Equal(got, original[p.Source]) {
				t.Errorf("%s: without the mutants of its patch it is not what it was: %s", p.Source, firstDifference(got, original[p.Source]))
			}
			if again, err := p.Apply(original[p.Source]); err != nil || !bytes.Equal(again, mutated[p.Source]) {
				t.Errorf("%s: a renewed patch does something else: %v", p.Source, err)
			}
		}
	}
}

// Code with all mutants compiles. That it fits does not say so: a name that only a mutant uses may have
// changed elsewhere.
func TestPatches_MakeCodeThatCompiles(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to find compiled packages with")
	}
	tree := openTree(t)
	folders := map[string]bool{}
	for source := range tree.Patches {
		folders["./"+folderOf(source)] = true
	}
	if len(folders) == 0 {
		t.Skip("all mutants are in the code")
	}
	list := exec.Command(goTool, append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{.GoFiles}}", SwitchPath}, slices.Sorted(maps.Keys(folders))...)...)
	list.Dir = moduleRoot
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{} // compiled packages by path
	fset := token.NewFileSet()
	packages := map[string][]*ast.File{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue
		}
		exports[fields[0]] = fields[1]
		folder := strings.Trim(strings.TrimPrefix(fields[0], modulePath), "/")
		if folder == "" {
			folder = "."
		}
		if !folders["./"+folder] || !strings.HasPrefix(fields[0], modulePath) {
			continue
		}
		for _, name := range strings.Fields(strings.Trim(fields[3], "[]")) {
			source := strings.TrimPrefix(folder+"/"+name, "./")
			text, err := os.ReadFile(filepath.Join(fields[2], name))
			if err == nil && tree.Patches[source] != nil {
				text, err = tree.Mutated(source)
			}
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(fset, source, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			packages[fields[0]] = append(packages[fields[0]], file)
		}
	}
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})
	for path, files := range packages {
		config := types.Config{Importer: imports, Error: func(err error) { t.Errorf("with its mutants: %v", err) }}
		_, _ = config.Check(path, fset, files, nil) // errors are reported one by one
	}
	if len(packages) != len(folders) {
		t.Errorf("checked %d packages of %d", len(packages), len(folders))
	}
}

func TestPatch_ParsesWhatItWrites(t *testing.T) {
	for _, p := range openTree(t).Patches {
		again, err := ParsePatch(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("%s: %v\n%s", p.Source, err, again)
		}
	}
}

const sampleClean = `package sample

// accept reports whether n is small.
func accept(n int) bool {
	if n > limit {
		return false
	}
	return true
}

func reject(n int) bool {
	if n > limit {
		return true
	}
	return false
}
`

const samplePatch = `--- a/sample.go
+++ b/sample.go
@@ large-accepted @@ accept
 // accept reports whether n is small.
 func accept(n int) bool {
-	if n > limit {
+	if n > limit && !plant.Bug("large-accepted") {
 		return false
 	}
`

// A patch finds its place by the lines around it, not by their numbers.
func TestPatch_FitsAfterUnrelatedEdits(t *testing.T) {
	patch, err := ParsePatch(samplePatch)
	if err != nil {
		t.Fatal(err)
	}
	for name, replacements := range map[string][]string{
		"as it was":         nil,
		"lines before it":   {"package sample\n", "package sample\n\nconst limit = 3\n\nvar x = 1\n"},
		"another comment":   {"// accept reports", "// Whether it is small is what accept reports"},
		"another parameter": {"accept(n int)", "accept(n int, x string)"},
		"an outer line":     {"n > limit {\n\t\treturn false\n\t}", "n > limit {\n\t\treturn false\n\t} // not so"},
		"another function":  {"func accept", "func admit"},
		"deeper":            {"\tif n > limit {\n\t\treturn false\n\t}\n", "\tfor range 1 {\n\t\tif n > limit {\n\t\t\treturn false\n\t\t}\n\t}\n"},
	} {
		text := strings.NewReplacer(replacements...).Replace(sampleClean)
		got, err := patch.Apply([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := `if n > limit && !plant.Bug("large-accepted") {`; strings.Count(string(got), want) != 1 || !strings.Contains(string(got), want+"\n") || !strings.Contains(string(got), SwitchPath) {
			t.Errorf("%s:\n%s", name, got)
		}
		if reject := got[bytes.Index(got, []byte("func reject")):]; bytes.Contains(reject, []byte("plant")) {
			t.Errorf("%s: planted in another function:\n%s", name, got)
		}
	}
}

// A patch whose code has changed is refused, not put somewhere else.
func TestPatch_OfChangedCode_IsRefused(t *testing.T) {
	patch, err := ParsePatch(samplePatch)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, instead, want string }{
		"another condition": {"if n > limit {\n\t\treturn false", "if n >= limit {\n\t\treturn false", "not found"},
		"twice":             {"\treturn true\n}\n\nfunc reject", "\tif n > limit {\n\t\treturn false\n\t}\n\treturn true\n}\n\nfunc reject", ""},
		"gone":              {"\tif n > limit {\n\t\treturn false\n\t}\n", "", "not found"},
	} {
		text := strings.Replace(sampleClean, c.old, c.instead, 1)
		if text == sampleClean {
			t.Fatalf("%s: the sample has no such text", name)
		}
		got, err := patch.Apply([]byte(text))
		if c.want == "" {
			if err != nil || strings.Count(string(got), "plant.Bug") != 1 {
				t.Errorf("%s: %v\n%s", name, err, got)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "large-accepted") {
			t.Errorf("%s: %v, want %q and the mutant's name\n%s", name, err, c.want, got)
		}
	}
}
