package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// function wraps statements into a file with mutants.
func function(body string) string {
	return "package sample\n\nimport (\n\t\"" + SwitchPath + "\"\n)\n\nfunc f(a, b bool, n int) int {\n" + body + "\treturn n\n}\n"
}

// Taking a mutant out leaves what the code does without it, as a person would have written it; the patch
// makes the same file again (Extract fails if not).
func TestExtract_LeavesWhatTheCodeDoes(t *testing.T) {
	for name, c := range map[string]struct{ planted, want string }{
		"if":                  {"\tif plant.Bug(\"x\") {\n\t\tn++\n\t}\n", ""},
		"if with comment":     {"\tn--\n\t// It forgets.\n\tif plant.Bug(\"x\") { // now\n\t\tn++\n\t}\n", "\tn--\n"},
		"if and":              {"\tif a && plant.Bug(\"x\") {\n\t\tn++\n\t}\n", ""},
		"and not":             {"\tif a && !plant.Bug(\"x\") {\n\t\tn++\n\t}\n", "\tif a {\n\t\tn++\n\t}\n"},
		"not and":             {"\tif !plant.Bug(\"x\") && a {\n\t\tn++\n\t}\n", "\tif a {\n\t\tn++\n\t}\n"},
		"or":                  {"\tif a || plant.Bug(\"x\") {\n\t\tn++\n\t}\n", "\tif a {\n\t\tn++\n\t}\n"},
		"or first":            {"\tif plant.Bug(\"x\") || a && b {\n\t\tn++\n\t}\n", "\tif a && b {\n\t\tn++\n\t}\n"},
		"parentheses go":      {"\tif (a || b) && !plant.Bug(\"x\") {\n\t\tn++\n\t}\n", "\tif a || b {\n\t\tn++\n\t}\n"},
		"inner ones go":       {"\tif a && (b || plant.Bug(\"x\")) {\n\t\tn++\n\t}\n", "\tif a && b {\n\t\tn++\n\t}\n"},
		"needed ones stay":    {"\tif a && (b || n > 1 || plant.Bug(\"x\")) {\n\t\tn++\n\t}\n", "\tif a && (b || n > 1) {\n\t\tn++\n\t}\n"},
		"others stay":         {"\tif (a || b) && n > 1 && !plant.Bug(\"x\") {\n\t\tn++\n\t}\n", "\tif (a || b) && n > 1 {\n\t\tn++\n\t}\n"},
		"negated":             {"\tif !(plant.Bug(\"x\") && a) && b {\n\t\tn++\n\t}\n", "\tif b {\n\t\tn++\n\t}\n"},
		"over lines":          {"\ta = b &&\n\t\t!plant.Bug(\"x\")\n", "\ta = b\n"},
		"value":               {"\ta = !plant.Bug(\"x\")\n", "\ta = true\n"},
		"not":                 {"\tif !plant.Bug(\"x\") {\n\t\t// why\n\t\tn++ // how\n\t}\n", "\t// why\n\tn++ // how\n"},
		"not else":            {"\tif !plant.Bug(\"x\") {\n\t\tn++\n\t} else {\n\t\tn--\n\t}\n", "\tn++\n"},
		"else":                {"\tif plant.Bug(\"x\") {\n\t\tn++\n\t} else {\n\t\tn--\n\t}\n", "\tn--\n"},
		"else if":             {"\tif plant.Bug(\"x\") {\n\t\tn++\n\t} else if a {\n\t\tn--\n\t}\n", "\tif a {\n\t\tn--\n\t}\n"},
		"in an else":          {"\tif a {\n\t\tn++\n\t} else if plant.Bug(\"x\") {\n\t\tn--\n\t}\n", "\tif a {\n\t\tn++\n\t}\n"},
		"between":             {"\tif a {\n\t\tn++\n\t} else if plant.Bug(\"x\") {\n\t\tn--\n\t} else if b {\n\t\tn = 0\n\t}\n", "\tif a {\n\t\tn++\n\t} else if b {\n\t\tn = 0\n\t}\n"},
		"else if not":         {"\tif a {\n\t\tn++\n\t} else if !plant.Bug(\"x\") {\n\t\tn--\n\t}\n", "\tif a {\n\t\tn++\n\t} else {\n\t\tn--\n\t}\n"},
		"statement before":    {"\tif n = 1; plant.Bug(\"x\") {\n\t\tn++\n\t}\n", "\tn = 1\n"},
		"definition before":   {"\tif m := n; !plant.Bug(\"x\") {\n\t\tn += m\n\t}\n", "\tm := n\n\tn += m\n"},
		"name of two":         {"\tm := 1\n\tif !plant.Bug(\"x\") {\n\t\tm := n\n\t\tn += m\n\t}\n\tn += m\n", "\tm := 1\n\t{\n\t\tm := n\n\t\tn += m\n\t}\n\tn += m\n"},
		"unreachable":         {"\tif !plant.Bug(\"x\") {\n\t\treturn 1\n\t}\n\tn++\n", "\treturn 1\n"},
		"clause":              {"\tswitch {\n\tcase a:\n\t\tn++\n\tcase plant.Bug(\"x\"):\n\t\tn--\n\tdefault:\n\t\tn = 0\n\t}\n", "\tswitch {\n\tcase a:\n\t\tn++\n\tdefault:\n\t\tn = 0\n\t}\n"},
		"clause and":          {"\tswitch {\n\tcase a && !plant.Bug(\"x\"): // so\n\t\tn++\n\t}\n", "\tswitch {\n\tcase a: // so\n\t\tn++\n\t}\n"},
		"last clause":         {"\tswitch {\n\tcase a:\n\t\tn++\n\tcase !plant.Bug(\"x\"):\n\t\tn--\n\t}\n", "\tswitch {\n\tcase a:\n\t\tn++\n\tdefault:\n\t\tn--\n\t}\n"},
		"two of two mutants":  {"\tif plant.Bug(\"x\") {\n\t\tn++\n\t}\n\tif plant.Bug(\"y\") {\n\t\tn--\n\t}\n", ""},
		"loop":                {"\tfor ; n > 0 && !plant.Bug(\"x\"); n-- {\n\t\ta = b\n\t}\n", "\tfor ; n > 0; n-- {\n\t\ta = b\n\t}\n"},
		"within another if":   {"\tif !plant.Bug(\"x\") {\n\t\tif a && !plant.Bug(\"y\") {\n\t\t\tn++\n\t\t}\n\t}\n", "\tif a {\n\t\tn++\n\t}\n"},
		"lines between":       {"\tn++\n\n\tif plant.Bug(\"x\") {\n\t\tn = 0\n\t}\n\n\tn--\n", "\tn++\n\n\tn--\n"},
		"in a function value": {"\tg := func() bool { return a && !plant.Bug(\"x\") }\n\ta = g()\n", "\tg := func() bool { return a }\n\ta = g()\n"},
	} {
		planted := function(c.planted)
		clean, patches, err := Extract(map[string][]byte{"sample.go": []byte(planted)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.Replace(function(c.want), "import (\n\t\""+SwitchPath+"\"\n)\n\n", "", 1)
		if name == "unreachable" {
			want = strings.Replace(want, "\treturn n\n", "", 1)
		}
		if got := string(clean["sample.go"]); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if len(patches) != 1 || len(patches[0].Mutants()) == 0 {
			t.Errorf("%s: patches %v", name, patches)
		}
	}
}

// What only a mutant uses goes with it: imports, and what is declared outside of functions.
func TestExtract_TakesWhatOnlyMutantsUse(t *testing.T) {
	const planted = `package sample

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave/internal/testkit/mutants/plant"
	"github.com/cleavekv/cleave/key"
)

func f(x key.Range) {
	if plant.Bug("x") {
		forget(context.Background())
	}
	fmt.Println(x)
}

// forget is what goes wrong.
func forget(ctx context.Context) { fmt.Println(ctx) }

func other() {}
`
	const want = `package sample

import (
	"fmt"

	"github.com/cleavekv/cleave/key"
)

func f(x key.Range) {
	fmt.Println(x)
}

func other() {}
`
	clean, patches, err := Extract(map[string][]byte{"sample.go": []byte(planted)})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(clean["sample.go"]); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if p := patches[0].String(); !strings.Contains(p, "@@ imports @@\n+\t\"context\"\n") || !strings.Contains(p, "+func forget(") || strings.Count(p, "@@ x @@") != 2 {
		t.Error(p)
	}
}

func TestExtract_RefusesWhatItCannotFold(t *testing.T) {
	for _, body := range []string{
		"\tfor plant.Bug(\"x\") {\n\t\tn++\n\t}\n",
		"\tif plant.Bug(name) {\n\t\tn++\n\t}\n",
		"\tif m := n; plant.Bug(\"x\") {\n\t\tn += m\n\t}\n",
		"\tswitch {\n\tcase !plant.Bug(\"x\"):\n\t\tn--\n\tcase a:\n\t\tn++\n\t}\n",
	} {
		if clean, _, err := Extract(map[string][]byte{"sample.go": []byte(function(body))}); err == nil {
			t.Errorf("got\n%s\nof\n%s", clean["sample.go"], body)
		} else if !strings.Contains(err.Error(), "sample.go:") {
			t.Errorf("%v does not say where", err)
		}
	}
}

// newTree makes a module of one file.
func newTree(t *testing.T, text string) (tree *Tree, source string) {
	root := t.TempDir()
	source = filepath.Join(root, "sample.go")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := OpenTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree, source
}

func reopen(t *testing.T, tree *Tree) *Tree {
	again, err := OpenTree(tree.root)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func readText(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTree_PlantsWhatItHasExtracted(t *testing.T) {
	planted := function("\tif a && !plant.Bug(\"x\") {\n\t\tn++\n\t}\n\tn--\n")
	tree, source := newTree(t, planted)
	if _, err := tree.Extract(); err != nil {
		t.Fatal(err)
	}
	clean := readText(t, source)
	if strings.Contains(clean, "plant") {
		t.Errorf("extracted\n%s", clean)
	}
	// A mutant that is added to code without the others is added to their patch.
	more := strings.Replace(clean, "\tn--\n", "\tif plant.Bug(\"y\") {\n\t\tn = 0\n\t}\n\tn--\n", 1)
	more = strings.Replace(more, "package sample\n", "package sample\n\nimport \""+SwitchPath+"\"\n", 1)
	if err := os.WriteFile(source, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	tree = reopen(t, tree)
	if _, err := tree.Extract(); err != nil {
		t.Fatal(err)
	}
	if got := readText(t, source); got != clean {
		t.Errorf("extracted\n%s\nwant\n%s", got, clean)
	}
	tree = reopen(t, tree)
	if names := tree.Patches["sample.go"].Mutants(); strings.Join(names, " ") != "x y" {
		t.Errorf("the patch has %q", names)
	}
	if report, err := tree.Plant(); err != nil || len(report) > 0 {
		t.Fatal(report, err)
	}
	if want := strings.Replace(planted, "\tn--\n", "\tif plant.Bug(\"y\") {\n\t\tn = 0\n\t}\n\tn--\n", 1); readText(t, source) != want {
		t.Errorf("planted\n%s\nwant\n%s", readText(t, source), want)
	}
	if tree = reopen(t, tree); len(tree.Patches) > 0 {
		t.Error("a mutant is in the code and in a patch")
	}
}

// A hunk that does not fit stays in its patch, until the code has its mutant by hand.
func TestTree_LosesNoMutant(t *testing.T) {
	tree, source := newTree(t, function("\tif a && !plant.Bug(\"x\") {\n\t\tn++\n\t}\n\tn--\n\tif plant.Bug(\"y\") {\n\t\tn = 0\n\t}\n\tn += 2\n"))
	if _, err := tree.Extract(); err != nil {
		t.Fatal(err)
	}
	replace := func(old, with string) {
		text := readText(t, source)
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is not once in\n%s", old, text)
		}
		if err := os.WriteFile(source, []byte(strings.Replace(text, old, with, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("if a {", "if a || b {")
	report, err := reopen(t, tree).Plant()
	if err != nil || len(report) != 1 || !strings.Contains(report[0], "hunk of x") || !strings.Contains(report[0], "make extract") {
		t.Fatalf("%q, %v", report, err)
	}
	tree = reopen(t, tree)
	if names := tree.Patches["sample.go"].Mutants(); strings.Join(names, " ") != "x" {
		t.Errorf("the patch still has %q", names)
	}
	before := readText(t, source)
	if _, err := tree.Extract(); err == nil || !strings.Contains(err.Error(), "hunk of x") {
		t.Errorf("extracted without x: %v", err)
	}
	if readText(t, source) != before {
		t.Error("what failed has changed the code")
	}
	replace("if a || b {", "if (a || b) && !plant.Bug(\"x\") {")
	tree = reopen(t, tree)
	if report, err := tree.Extract(); err != nil || len(report) != 2 {
		t.Fatalf("%q, %v", report, err)
	}
	tree = reopen(t, tree)
	if names := tree.Patches["sample.go"].Mutants(); strings.Join(names, " ") != "x y" {
		t.Errorf("the patch has %q", names)
	}
	if text := readText(t, source); !strings.Contains(text, "if a || b {") || strings.Contains(text, "plant") {
		t.Errorf("extracted\n%s", text)
	}
}
