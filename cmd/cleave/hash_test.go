package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestHashShowsEveryFunctionAndTellsTheWeakOnes(t *testing.T) {
	code, stdout, stderr := runCommand("hash", "-o", "json")
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	var rows []struct{ Name, Kind, Verdict string }
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, r := range rows {
		verdicts[r.Name] = r.Verdict
	}
	for _, f := range hash.Functions() {
		if _, ok := verdicts[f.Name]; !ok {
			t.Errorf("%s is missing", f.Name)
		}
	}
	if verdicts["xxh3"] != "good" || verdicts["fx"] != "bad" || verdicts["fnv1a"] != "bad" {
		t.Errorf("verdicts are %v", verdicts)
	}
}

func TestHashTableHasAColumnForEachKindOfKeys(t *testing.T) {
	code, stdout, _ := runCommand("hash", "--samples", "64", "--keys", "8192")
	checkWidth(t, stdout)
	head, _, _ := strings.Cut(stdout, "\n")
	for _, c := range hash.Corpora(0) {
		if code != exitOK || !strings.Contains(head, c.Name) {
			t.Errorf("exit %d, no column %q in %q", code, c.Name, head)
		}
	}
}

func TestHashRefusesBadFlags(t *testing.T) {
	for _, args := range []string{"--buckets 1000", "--samples -1", "--keys 10", "--key-bytes 1000", "-o xml", "xxh3"} {
		code, stdout, stderr := runCommand(strings.Fields("hash " + args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "cleave hash --help") {
			t.Errorf("cleave hash %s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestHashNamesTheFlagThatAFunctionCannotHave(t *testing.T) {
	for _, f := range hash.Functions() {
		if f.Name != "crc16-slot" {
			continue
		}
		// Measured alone, since the whole command measures others before it.
		_, err := hash.Measure(f, hash.MeasureOptions{Buckets: 32768})
		if got, want := toHashOptionError(err).Error(), `--buckets 32768: "crc16-slot" has 14 bits only`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return
	}
	t.Error("there is no crc16-slot")
}
