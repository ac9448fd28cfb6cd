package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cleavekv/cleave/internal/output"
)

// exec runs a command line and returns what a shell would see of it.
func exec(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	root := rootCommand()
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
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > output.Width {
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
		code, stdout, stderr := exec(args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--help'") {
			t.Errorf("cleave %v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAFailureExits1WithoutTheHelp(t *testing.T) {
	var stderr bytes.Buffer
	root := rootCommand()
	root.SetArgs([]string{"version"})
	root.SetOut(brokenPipe{})
	root.SetErr(&stderr)
	if code := run(root); code != exitFailed || strings.Contains(stderr.String(), "--help") {
		t.Errorf("exit %d, stderr %q", code, stderr.String())
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, cmd := range rootCommand().Commands() {
		if cmd.Short == "" {
			t.Errorf("%s has no short help", cmd.CommandPath())
		}
		if code, stdout, _ := exec(cmd.Name(), "--help"); code != exitOK || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%s --help: exit %d, %q", cmd.CommandPath(), code, stdout)
		}
	}
}

func TestTheHelpClaimsNoMoreThanThereIs(t *testing.T) {
	code, stdout, _ := exec("--help")
	if code != exitOK || !strings.HasPrefix(stdout, "A sharded, ordered, transactional store for Redis clients, and its toolkit\n") {
		t.Errorf("exit %d, the help begins with %.80q", code, stdout)
	}
	if strings.Contains(stdout, "cleave [flags]") || !strings.Contains(stdout, "Usage:\n  cleave [command]\n") {
		t.Errorf("the usage is not that of a command with commands:\n%s", stdout)
	}
}

func TestVersionIsAFlagAndACommand(t *testing.T) {
	_, command, _ := exec("version")
	code, flag, stderr := exec("--version")
	if code != exitOK || flag != command || !strings.HasPrefix(flag, "cleave ") || stderr != "" {
		t.Errorf("exit %d, --version %q, version %q, stderr %q", code, flag, command, stderr)
	}
}

func TestTheReadmeShowsWhatRoutePrints(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := exec("route")
	if code != exitOK || !strings.Contains(string(readme), stdout) {
		t.Errorf("exit %d, stderr %q; the README does not show this:\n%s", code, stderr, stdout)
	}
}
