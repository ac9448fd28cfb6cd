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

// The guide and the list of commands show what their commands print. With -update they are written into them.
func TestGuide_Commands_PrintWhatItShows(t *testing.T) {
	documents := map[string]int{"choosing-a-shard-key.md": 5, "cli.md": 1}
	paths := map[string]string{}
	for name := range documents {
		path, err := filepath.Abs(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		paths[name] = path
	}
	enterTables(t)
	for name, least := range documents {
		text, err := os.ReadFile(paths[name])
		if err != nil {
			t.Fatal(err)
		}
		blocks := 0
		real := adviceBlock.ReplaceAllStringFunc(string(text), func(block string) string {
			blocks++
			parts := adviceBlock.FindStringSubmatch(block)
			got := runAdviceLine(t, parts[1])
			if got != parts[2] && !*updateGolden {
				t.Errorf("%s prints\n%s\n%s has\n%s", parts[1], got, name, parts[2])
			}
			return "```\n$ " + parts[1] + "\n" + got + "```\n"
		})
		if blocks < least {
			t.Errorf("%s has %d commands", name, blocks)
		}
		if *updateGolden {
			if err := os.WriteFile(paths[name], []byte(real), 0o644); err != nil {
				t.Fatal(err)
			}
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
