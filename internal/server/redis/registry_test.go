package redis

import (
	"os"
	"strings"
	"testing"
)

const docsPage = "../../../docs/redis.md"

// With CLEAVE_WRITE=1 the page is written, not compared.
func TestTheDocumentationHasEveryCommandAsItIsDescribed(t *testing.T) {
	text, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- commands: written by go test ./internal/server/redis with CLEAVE_WRITE=1 -->\n", "<!-- end of commands -->\n"
	head, rest, ok1 := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the commands", docsPage)
	}
	want := "\n" + FormatTable()
	if os.Getenv("CLEAVE_WRITE") != "" {
		if err := os.WriteFile(docsPage, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("%s is not what the commands say: CLEAVE_WRITE=1 go test -run Documentation ./internal/server/redis", docsPage)
	}
}

func TestEveryCommandIsInAGroupThatTheDocumentationHas(t *testing.T) {
	known := map[string]bool{}
	for _, g := range docGroups {
		known[g.name] = true
	}
	for _, s := range allSpecs {
		if !known[s.Doc.Group] || s.Doc.Summary == "" || s.Doc.Since == "" {
			t.Errorf("%s: group %q, since %q, %q", s.Name, s.Doc.Group, s.Doc.Since, s.Doc.Summary)
		}
		if s.Flags&Write != 0 && s.Flags&ReadOnly != 0 {
			t.Errorf("%s writes and only reads", s.Name)
		}
	}
}

func TestNamesAreFoundWhateverTheirCaseAndNothingElseIs(t *testing.T) {
	for _, s := range AllSpecs() {
		found := !strings.Contains(s.Name, "|") // those have no name of their own
		for _, name := range []string{s.Name, toUpper(s.Name), toUpper(s.Name[:1]) + s.Name[1:]} {
			if got := findTopLevel([]byte(name)); found && got != s || !found && got != nil {
				t.Errorf("%q is found as %v", name, got)
			}
		}
		for _, name := range []string{"\x00" + s.Name, s.Name + "\x00", s.Name + " ", "\x01" + s.Name, s.Name[:len(s.Name)-1] + "\x00"} {
			if got := findTopLevel([]byte(name)); got != nil {
				t.Errorf("%q is found as %s", name, got.Name)
			}
		}
	}
	for _, name := range []string{"", "\x00", "\x00\x00", strings.Repeat("x", maxNameBytes+1)} {
		if got := findTopLevel([]byte(name)); got != nil {
			t.Errorf("%q is found as %s", name, got.Name)
		}
	}
}
