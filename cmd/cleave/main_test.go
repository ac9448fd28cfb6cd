package main

import (
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavekv/cleave/internal/ops/output"
)

// TestMain keeps the tests apart from the user: servers that keep nothing leave their
// tokens in a directory of the user, and variables change what commands do.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "CLEAVE_") && name != "CLEAVE_SOAK" && name != "CLEAVE_TALLY" {
			os.Unsetenv(name)
		}
	}
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		panic(err)
	}
	if cache, err := osexec.Command("go", "env", "GOCACHE").Output(); err == nil {
		os.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // it would move with the next line but one
	}
	os.Setenv("TMPDIR", dir) // the binary that is built goes with the rest
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// runCommand runs a command line and returns what a shell would see of it.
func runCommand(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	code = run(root)
	return code, out.String(), errOut.String()
}

// checkWidth finds lines of a text that a terminal would break.
func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > output.MaxWidth {
			t.Errorf("%d columns in %q", n, line)
		}
	}
}

func TestMistakesInUsageExit2AndPointAtTheHelp(t *testing.T) {
	for _, args := range [][]string{
		{"rout"},
		{"--colour"},
		{"version", "now"},
		{"version", "--long"},
		{"help", "rout"},
		{"help", "route", "more"},
		{"completion", "tcl"},
		{"completion", "bash", "more"},
	} {
		code, stdout, stderr := runCommand(args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--help'") {
			t.Errorf("cleave %v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAFailureExits1WithoutTheHelp(t *testing.T) {
	var stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs([]string{"version"})
	root.SetOut(brokenPipe{})
	root.SetErr(&stderr)
	if code := run(root); code != exitFailed || strings.Contains(stderr.String(), "--help") {
		t.Errorf("exit %d, stderr %q", code, stderr.String())
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, cmd := range newRootCommand().Commands() {
		if cmd.Short == "" {
			t.Errorf("%s has no short help", cmd.CommandPath())
		}
		if code, stdout, _ := runCommand(cmd.Name(), "--help"); code != exitOK || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%s --help: exit %d, %q", cmd.CommandPath(), code, stdout)
		}
	}
}

func TestTheHelpClaimsNoMoreThanThereIs(t *testing.T) {
	code, stdout, _ := runCommand("--help")
	if code != exitOK || !strings.HasPrefix(stdout, "A sharded, ordered, transactional store for Redis clients, and its toolkit\n") {
		t.Errorf("exit %d, the help begins with %.80q", code, stdout)
	}
	if strings.Contains(stdout, "cleave [flags]") || !strings.Contains(stdout, "Usage:\n  cleave [command]\n") {
		t.Errorf("the usage is not that of a command with commands:\n%s", stdout)
	}
}

func TestVersionIsAFlagAndACommand(t *testing.T) {
	_, command, _ := runCommand("version")
	code, flag, stderr := runCommand("--version")
	if code != exitOK || flag != command || !strings.HasPrefix(flag, "cleave ") || stderr != "" {
		t.Errorf("exit %d, --version %q, version %q, stderr %q", code, flag, command, stderr)
	}
}

func TestRoute_PrintsWhatTheDocumentationShows(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCommand("route")
	if code != exitOK || !strings.Contains(string(doc), stdout) {
		t.Errorf("exit %d, stderr %q; docs/cli.md does not show this:\n%s", code, stderr, stdout)
	}
}

func TestMistakesSayWhatIsWantedInTheWordsOfTheCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"rout":                               `unknown command "rout": did you mean "route"?`,
		"help hsh":                           `unknown command "hsh": did you mean "hash"?`,
		"completion bash2":                   `unknown command "bash2": did you mean "bash"?`,
		"wheel":                              `unknown command "wheel"`,
		"shard lst":                          `unknown command "lst": did you mean "list"?`,
		"route more":                         `route takes no arguments, got ["more"]`,
		"completion fish more":               `completion fish takes no arguments, got ["more"]`,
		"route --nods 3":                     `unknown flag: --nods: did you mean --nodes?`,
		"route --nodes x":                    `--nodes "x": want a whole number`,
		"route --nodes 1.5":                  `--nodes "1.5": want a whole number`,
		"route --nodes 99999999999999999999": `--nodes "99999999999999999999": out of range`,
		"route --weights 1,x":                `--weights "1,x": want numbers such as 1,1,2`,
		"route --last=maybe":                 `--last "maybe": want true or false`,
		"route -o xml":                       `--output "xml": want table, json or jsonl`,
		"route --nodes 0":                    `0 nodes, want 1 to 20000`,
		"route --weights 1,-1":               `bad weight: node "node-1" has -1, want a finite number above 0, or 0, which means 1`,
		"hash --seed -1":                     `--seed "-1": want a whole number that is not negative`,
		"hash --buckets 1000":                `--buckets 1000: want a power of two from 2 to 65536`,
		"hash --keys 10":                     `--keys 10: want 8 x --buckets to 16777216`,
		"hash --key-bytes 999 --samples 1":   "--samples 1: want 64 to 1048576\n--key-bytes 999: want 1 to 256",
	} {
		code, _, stderr := runCommand(strings.Fields(args)...)
		if code != exitUsage || !strings.HasPrefix(stderr, "cleave: "+want+"\nSee 'cleave") {
			t.Errorf("cleave %s: exit %d, stderr\n%swant\ncleave: %s", args, code, stderr, want)
		}
	}
}

func TestAnUnknownKindIsAnsweredWithThoseThereAre(t *testing.T) {
	_, _, stderr := runCommand("route", "--kind", "wheel")
	if !strings.HasPrefix(stderr, `cleave: --kind "wheel", want one of modulo, `) {
		t.Errorf("got %q", stderr)
	}
}

func TestFlagsAreListedInTheOrderOfReading(t *testing.T) {
	for name, flags := range map[string]string{
		"route": "nodes add remove last multiply weights kind keys output help",
		"hash":  "samples key-bytes buckets keys seed output help",
	} {
		_, stdout, _ := runCommand(name, "--help")
		checkWidth(t, stdout)
		_, list, _ := strings.Cut(stdout, "\nFlags:\n")
		var got []string
		for line := range strings.Lines(list) {
			// A flag begins before column 8; a text that mentions one, later.
			if at := strings.Index(line, "--"); at >= 0 && at < 8 {
				got = append(got, strings.Fields(line[at+len("--"):])[0])
			}
		}
		if strings.Join(got, " ") != flags {
			t.Errorf("%s has flags %q, want %q", name, got, flags)
		}
		if strings.Contains(list, "Slice") || strings.Contains(list, "[]") {
			t.Errorf("%s shows the types of Go:\n%s", name, list)
		}
	}
}
