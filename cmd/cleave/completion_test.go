package main

import (
	"strings"
	"testing"

	"github.com/cleavekv/cleave/route"
)

// completeLine returns what a shell would offer for the last of args, without the
// descriptions, and fails if it would offer names of files.
func completeLine(t *testing.T, args ...string) string {
	t.Helper()
	_, stdout, _ := runCommand(append([]string{"__complete"}, args...)...)
	var words []string
	for line := range strings.Lines(stdout) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		words = append(words, word)
	}
	// The last line is a set of bits, of which 4 means no files.
	last := len(words) - 1
	if last < 0 || words[last] != ":4" && words[last] != ":36" {
		t.Errorf("%q: the shell completes files: %q", args, stdout)
		return ""
	}
	return strings.Join(words[:last], " ")
}

func TestShellsCompleteValuesAndNoFiles(t *testing.T) {
	var kinds []string
	for _, k := range route.Kinds() {
		kinds = append(kinds, k.Name)
	}
	for _, c := range []struct{ args, want string }{
		{"ro", "route"},
		{"wheel ", ""},
		{"route ", ""},
		{"hash ", ""},
		{"version ", ""},
		{"route --nodes ", ""},
		{"route --weights ", ""},
		{"hash --seed ", ""},
		{"route -o ", "table json jsonl"},
		{"hash --output ", "table json jsonl"},
		{"route --kind ", strings.Join(kinds, " ")},
		{"route --kind bo", "bounded-ring"},
		{"route --kind ring,jump,r", "ring,jump,rendezvous"},
	} {
		if got := completeLine(t, strings.Split(c.args, " ")...); got != c.want {
			t.Errorf("cleave %s<TAB> offers %q, want %q", c.args, got, c.want)
		}
	}
}
