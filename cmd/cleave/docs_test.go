package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
	p := serving(t, "--data", data, "--groups", "4")
	script := "set -e\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += block[1]
	}
	if strings.Count(script, "curl") < 8 {
		t.Fatalf("the document has only these lines:\n%s", script)
	}
	script = strings.NewReplacer("127.0.0.1:7380", p.http, "cleave-data/", data+"/").Replace(script)
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
