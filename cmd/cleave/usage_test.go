package main

import (
	"strings"
	"testing"
)

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
		code, _, stderr := exec(strings.Fields(args)...)
		if code != exitUsage || !strings.HasPrefix(stderr, "cleave: "+want+"\nSee 'cleave") {
			t.Errorf("cleave %s: exit %d, stderr\n%swant\ncleave: %s", args, code, stderr, want)
		}
	}
}

func TestAnUnknownKindIsAnsweredWithThoseThereAre(t *testing.T) {
	_, _, stderr := exec("route", "--kind", "wheel")
	if !strings.HasPrefix(stderr, `cleave: --kind "wheel", want one of modulo, `) {
		t.Errorf("got %q", stderr)
	}
}

func TestFlagsAreListedInTheOrderOfReading(t *testing.T) {
	for name, flags := range map[string]string{
		"route": "nodes add remove last multiply weights kind keys output help",
		"hash":  "samples key-bytes buckets keys seed output help",
	} {
		_, stdout, _ := exec(name, "--help")
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
