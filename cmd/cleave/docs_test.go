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

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
)

func TestEveryCommandIsInTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.HasAvailableSubCommands() {
			for _, c := range cmd.Commands() {
				look(c)
			}
			return
		}
		path := cmd.CommandPath()
		if !cmd.IsAvailableCommand() || cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || cmd.Flags().HasFlags() && cmd.Flags().Lookup("output") == nil && cmd.Flags().Lookup("addr") != nil {
			t.Errorf("%s: short help %q, or no -o", path, cmd.Short)
		}
		if !strings.Contains(string(doc), "`"+path+"`") && !strings.Contains(string(doc), "`"+path+" ") {
			t.Errorf("docs/cli.md does not have %s", path)
		}
	}
	look(newRootCommand())
}

func TestEveryHelpFitsATerminal(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		_, help, _ := runCommand(append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		checkWidth(t, help)
		for _, c := range cmd.Commands() {
			if c.Name() != "completion" && c.Name() != "help" {
				look(c)
			}
		}
	}
	look(newRootCommand())
}

// What is documented to tell a client its token is what clients look at.
func TestTheDocumentationNamesTheTokensVariables(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{api.EnvToken, api.EnvTokenFile, api.DefaultAddr} {
		if !strings.Contains(string(doc), name) {
			t.Errorf("docs/cli.md does not name %s", name)
		}
	}
}

// The lines of docs/http.md do what it says: all of its blocks are run by one shell.
func TestTheLinesOfTheDocumentationRun(t *testing.T) {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := osexec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data, "--groups", "4")
	script := "set -e\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += block[1]
	}
	if strings.Count(script, "curl") < 8 {
		t.Fatalf("the document has only these lines:\n%s", script)
	}
	script = strings.NewReplacer("127.0.0.1:7380", p.httpAddr, "cleave-data/", data+"/").Replace(script)
	sh := osexec.Command("sh", "-x", "-c", script)
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, want := range []string{`"verdict":"healthy"`, `"dry_run":true`, `"job":{"id":"1"`, `"name":"night"`, `"name":"morning"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing has answered %s:\n%s", want, out)
		}
	}
}

const packagingDir = "../../packaging/"

// findInstructions returns what stands behind a word at the beginning of lines of a file.
func findInstructions(t *testing.T, file, word string) (rest []string) {
	t.Helper()
	text, err := os.ReadFile(packagingDir + file)
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

// checkCommandLine reports whether the binary would take a command line: command, flags, arguments.
func checkCommandLine(t *testing.T, words []string) {
	t.Helper()
	cmd, rest, err := newRootCommand().Find(words)
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
	for _, c := range findInstructions(t, "Dockerfile", "COPY ") {
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
		if err := json.Unmarshal([]byte(exec.FindString(findInstructions(t, "Dockerfile", word)[0])), to); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
	}
	if entry[0] != "cleave" || health[0] != "cleave" {
		t.Errorf("it starts %q, and looks with %q", entry, health)
	}
	checkCommandLine(t, health[1:])
	checkCommandLine(t, append(entry[1:], command...))
	var known []string
	for _, s := range config.Settings() {
		known = append(known, s.EnvName())
	}
	for _, v := range regexp.MustCompile(`CLEAVE_[A-Z_]+`).FindAllString(strings.Join(findInstructions(t, "Dockerfile", "ENV "), " "), -1) {
		if !slices.Contains(known, v) {
			t.Errorf("%s is no setting", v)
		}
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(findInstructions(t, "Dockerfile", "FROM golang:")[0], ""), " ")
	if !strings.Contains(string(module), "\ngo "+version) {
		t.Errorf("it is built with Go %s", version)
	}
}

// With CLEAVE_SOAK the binary is built for real, which takes minutes.
func TestTheLineThatBuildsTheImagesBinaryWorks(t *testing.T) {
	var line string
	for _, r := range findInstructions(t, "Dockerfile", "RUN ") {
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
		words := strings.Fields(findInstructions(t, "cleave.service", word)[0])
		if words[0] != "/usr/bin/cleave" {
			t.Errorf("%s%s", word, words)
		}
		checkCommandLine(t, words[1:])
	}
	if kind := findInstructions(t, "cleave.service", "Type="); kind[0] != "notify" {
		t.Errorf("Type=%s", kind)
	}
	analyze, err := osexec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(packagingDir + "cleave.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := writeTempFile(t, "cleave.service", strings.ReplaceAll(string(text), "/usr/bin/cleave", path))
	if out, err := osexec.Command(analyze, "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "cleave.service") {
		t.Errorf("%v: %s", err, out)
	}
}
