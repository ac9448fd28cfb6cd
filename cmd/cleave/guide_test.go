package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/examples/shardkeys/dataset"
)

// adviceBlock is a block of a document with a command and what it prints.
var adviceBlock = regexp.MustCompile("(?s)```\n\\$ (cleave advise [^\n]+)\n(.*?)```\n")

// enterTables makes the tables of the guide, and the working directory theirs.
func enterTables(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, s := range dataset.All() {
		file, err := os.Create(filepath.Join(dir, s.Name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(file, dataset.Rows); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(file.Close(), os.WriteFile(filepath.Join(dir, s.Name+"-queries.jsonl"), []byte(s.Queries), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// runAdviceLine runs a command of a document, as of the day on which its data ends.
func runAdviceLine(t *testing.T, line string) string {
	t.Helper()
	var args []string
	for i, part := range strings.Split(strings.TrimPrefix(line, "cleave "), "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	code, stdout, stderr := runCommand(append(args, "--as-of", dataset.End.Format("2006-01-02"))...)
	if code != exitOK && code != exitUnhealthy || stderr != "" {
		t.Fatalf("%s: exit %d, %s", line, code, stderr)
	}
	return stdout
}

// The guide shows what its commands print. With -update they are written into it.
func TestGuide_Commands_PrintWhatItShows(t *testing.T) {
	path, err := filepath.Abs("../../docs/choosing-a-shard-key.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	enterTables(t)
	blocks := 0
	real := adviceBlock.ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		parts := adviceBlock.FindStringSubmatch(block)
		got := runAdviceLine(t, parts[1])
		if got != parts[2] && !*updateGolden {
			t.Errorf("%s prints\n%s\nthe guide has\n%s", parts[1], got, parts[2])
		}
		return "```\n$ " + parts[1] + "\n" + got + "```\n"
	})
	if blocks < 5 {
		t.Errorf("the guide has %d commands", blocks)
	}
	if *updateGolden {
		if err := os.WriteFile(path, []byte(real), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What README.md shows of a report are lines of the report of the command, in their order; … stands for others, and for
// the rest of a line.
func TestReadme_Advice_IsReal(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := adviceBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d commands that advise", len(blocks))
	}
	enterTables(t)
	rest := runAdviceLine(t, blocks[0][1])
	whole := rest
	for line := range strings.Lines(blocks[0][2]) {
		line, _ = strings.CutSuffix(line, "…\n")
		at := strings.Index(rest, line)
		if at < 0 {
			t.Fatalf("README.md has the line\n%sthe command prints\n%s", line, whole)
		}
		rest = rest[at+len(line):]
	}
}
