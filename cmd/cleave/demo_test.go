package main

import (
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/demo"
)

func TestDemo_WithoutAName_ListsTheStories(t *testing.T) {
	code, stdout, stderr := runCommand("demo")
	if code != exitOK || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, s := range demo.Stories() {
		if !strings.Contains(stdout, s.Name+" (about ") {
			t.Errorf("%s is not in the list:\n%s", s.Name, stdout)
		}
	}
	checkWidth(t, stdout)
}

func TestDemo_UnknownStory_IsAMistakeInTheRequest(t *testing.T) {
	for _, args := range [][]string{{"demo", "red-friday"}, {"demo", "likes", "booking"}, {"demo", "--kept"}} {
		code, stdout, stderr := runCommand(args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "cleave demo --help") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
