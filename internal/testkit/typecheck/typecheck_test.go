package typecheck

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckReportsEveryDifference(t *testing.T) {
	const head = "package p\n\nimport \"strings\"\n\nvar _ = strings.ToUpper\n\n"
	for _, c := range []struct {
		name, src string
		want      []string // parts of the error; none means no error
	}{
		{"a program that compiles", head + "var x int = 1\n", nil},
		{"an announced error", head + "var x int = \"a\" // want \"cannot use\"\n", nil},
		{"an error through an import", head + "var x int = strings.ToUpper(\"\") // want \"cannot use strings.ToUpper\"\n", nil},
		{"an error that nobody announced", head + "var x int = \"a\"\n", []string{"p.go:7: must compile, but: cannot use"}},
		{"two errors and one announcement", head + "var x, y int = \"a\", \"b\" // want \"cannot use\"\n", []string{"p.go:7: must compile, but: cannot use"}},
		{"an announcement that does not come true", head + "var x int = 1 // want \"cannot use\"\n", []string{"p.go:7: must not compile"}},
		{"an error for another reason", head + "var x int = y // want \"cannot use\"\n", []string{"must not compile", "undefined: y"}},
		{"an announcement on the wrong line", head + "// want \"cannot use\"\nvar x int = \"a\"\n", []string{"p.go:7", "p.go:8"}},
		{"an announcement without text", head + "var x int = \"a\" // want cannot\n", []string{"one quoted text"}},
		{"an announcement without a blank", head + "var x int = 1 //want \"cannot use\"\n", []string{"one quoted text"}},
		{"an announcement with a colon", head + "var x int = 1 // want: \"cannot use\"\n", []string{"one quoted text"}},
		{"an announcement in a block", head + "var x int = 1 /* want \"cannot use\" */\n", []string{"one quoted text"}},
		{"a syntax error", "package\n", []string{"expected 'IDENT'"}},
		{"an import that does not exist", "package p\n\nimport _ \"no/such/package\"\n", []string{"no/such/package"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkSource(filepath.Join(".", "p.go"), []byte(c.src))
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestCheckSaysWhichFileIsMissing(t *testing.T) {
	if err := Check("testdata/absent.go"); err == nil || !strings.Contains(err.Error(), "absent.go") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
