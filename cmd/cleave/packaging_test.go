package main

import (
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/config"
)

const packaging = "../../packaging/"

// instructions returns what stands behind a word at the beginning of lines of a file.
func instructions(t *testing.T, file, word string) (rest []string) {
	t.Helper()
	text, err := os.ReadFile(packaging + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if r, ok := strings.CutPrefix(line, word); ok {
			rest = append(rest, strings.TrimSpace(r))
		}
	}
	if len(rest) == 0 {
		t.Fatalf("%s has no %s", file, word)
	}
	return rest
}

// parses tells whether the binary would take a command line: command, flags, arguments.
func parses(t *testing.T, words []string) {
	t.Helper()
	cmd, rest, err := rootCommand().Find(words)
	if err != nil {
		t.Errorf("%q: %v", words, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
		t.Errorf("%q: %v", words, err)
	}
}

func TestTheImageNamesWhatThereIs(t *testing.T) {
	for _, c := range instructions(t, "Dockerfile", "COPY ") {
		if strings.HasPrefix(c, "--from=build") {
			continue
		}
		names := strings.Fields(c)
		for _, name := range names[:len(names)-1] {
			if _, err := os.Stat("../../" + name); err != nil {
				t.Errorf("COPY %s: %v", c, err)
			}
		}
	}
	var health, entry, command []string
	exec := regexp.MustCompile(`\[.*\]`)
	for word, to := range map[string]*[]string{"HEALTHCHECK ": &health, "ENTRYPOINT ": &entry, "CMD ": &command} {
		if err := json.Unmarshal([]byte(exec.FindString(instructions(t, "Dockerfile", word)[0])), to); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	if entry[0] != "cleave" || health[0] != "cleave" {
		t.Errorf("it starts %q, and looks with %q", entry, health)
	}
	parses(t, health[1:])
	parses(t, append(entry[1:], command...))
	var known []string
	for _, s := range config.Settings() {
		known = append(known, s.Env())
	}
	for _, v := range regexp.MustCompile(`CLEAVE_[A-Z_]+`).FindAllString(strings.Join(instructions(t, "Dockerfile", "ENV "), " "), -1) {
		if !slices.Contains(known, v) {
			t.Errorf("%s is no setting", v)
		}
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(instructions(t, "Dockerfile", "FROM golang:")[0], ""), " ")
	if !strings.Contains(string(module), "\ngo "+version) {
		t.Errorf("it is built with Go %s", version)
	}
}

// With CLEAVE_SOAK the binary is built for real, which takes minutes.
func TestTheLineThatBuildsTheImagesBinaryWorks(t *testing.T) {
	var line string
	for _, r := range instructions(t, "Dockerfile", "RUN ") {
		if strings.Contains(r, "go build") {
			line = r
		}
	}
	out := filepath.Join(t.TempDir(), "cleave")
	line = strings.Replace(line, "/out/cleave", out, 1)
	real := os.Getenv("CLEAVE_SOAK") != ""
	if !real {
		line = strings.Replace(line, "go build", "go build -n", 1)
	}
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	sh := osexec.Command("sh", "-c", line)
	sh.Dir = "../.."
	if text, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, text)
	}
	if real {
		if text, err := osexec.Command(out, "version").Output(); err != nil || !strings.HasPrefix(string(text), "cleave ") {
			t.Errorf("%s, %v", text, err)
		}
	}
}

func TestTheUnitOfSystemdIsOne(t *testing.T) {
	for _, word := range []string{"ExecStartPre=", "ExecStart="} {
		words := strings.Fields(instructions(t, "cleave.service", word)[0])
		if words[0] != "/usr/bin/cleave" {
			t.Errorf("%s%s", word, words)
		}
		parses(t, words[1:])
	}
	if kind := instructions(t, "cleave.service", "Type="); kind[0] != "notify" {
		t.Errorf("Type=%s", kind)
	}
	analyze, err := osexec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(packaging + "cleave.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := write(t, "cleave.service", strings.ReplaceAll(string(text), "/usr/bin/cleave", path))
	if out, err := osexec.Command(analyze, "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "cleave.service") {
		t.Errorf("%v: %s", err, out)
	}
}
