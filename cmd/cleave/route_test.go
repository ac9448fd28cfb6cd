package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// routeJSON runs cleave route with args and returns its rows by name.
func routeJSON(t *testing.T, args ...string) map[string]routeRow {
	t.Helper()
	code, stdout, stderr := runCommand(append([]string{"route", "-o", "json"}, args...)...)
	if code != exitOK {
		t.Fatalf("cleave route %v: exit %d, %s", args, code, stderr)
	}
	var rows []routeRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]routeRow)
	for _, r := range rows {
		byName[r.Name] = r
	}
	return byName
}

func TestRouteComparesGrowthByOneUnlessTold(t *testing.T) {
	rows := routeJSON(t, "--keys", "20000")
	for name, want := range map[string]float64{"modulo": 8.0 / 9, "jump": 1.0 / 9, "interval": 0.5} {
		// Five standard errors of 20,000 keys are below 0.018.
		if r := rows[name]; math.Abs(r.Moved-want) > 0.018 || r.Imbalance < 1 {
			t.Errorf("%s: got %+v, want %v moved", name, r, want)
		}
	}
}

func TestRouteTakesAChange(t *testing.T) {
	for _, c := range []struct {
		args, kind string
		minimum    float64
	}{
		{"--remove 1", "ring", 1.0 / 8},
		{"--remove 4 --last", "jump", 1.0 / 2},
		{"--multiply 2", "mask", 1.0 / 2},
		{"--add 8", "mask", 1.0 / 2},
		{"--weights 1,2,1 --kind ring", "ring", 1.0 / 5},
		{"--weights 1e-300,1e300 --add 0 --kind maglev", "maglev", 0},
	} {
		rows := routeJSON(t, strings.Fields(c.args+" --keys 1000")...)
		if r, ok := rows[c.kind]; !ok || math.Abs(r.Minimum-c.minimum) > 1e-9 {
			t.Errorf("cleave route %s: %+v, want minimum %v", c.args, r, c.minimum)
		}
	}
}

func TestRouteLeavesOutOfJSONWhatCannotMakeTheChangeAndSaysWhy(t *testing.T) {
	code, stdout, stderr := runCommand(strings.Fields("route --remove 1 --keys 1000 -o jsonl")...)
	if code != exitOK || strings.Contains(stdout, `"jump"`) || !strings.Contains(stdout, `"ring"`) || !strings.Contains(stderr, "left out mask, jump, binomial: node cannot be removed here") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRouteFailsIfNothingCanMakeTheChange(t *testing.T) {
	code, stdout, stderr := runCommand("route", "--kind", "mask", "--keys", "1000")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "mask: impossible number of nodes: 9") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRouteTableSaysHowToReadItAndWhatCannotBe(t *testing.T) {
	code, stdout, _ := runCommand("route", "--keys", "1000")
	for _, want := range []string{"rendezvous", "█", "No mask: impossible number of nodes: 9", "At least 11.11 %", "1 is even"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s", code, want, stdout)
		}
	}
}

func TestRouteSaysFirstWhatIsCompared(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "8 nodes, then 1 joins:",
		"--nodes 1 --add 2":            "1 node, then 2 join:",
		"--remove 1":                   "8 nodes, then 1 leaves:",
		"--remove 2 --last --add 1":    "8 nodes, then 2 leave from the end of the list, then 1 joins:",
		"--multiply 2":                 "8 nodes, then 8 grow to 16:",
		"--nodes 1 --multiply 4":       "1 node, then 1 grows to 4:",
		"--add 0":                      "8 nodes, and nothing changes:",
		"--weights 1,1.5,2":            "3 nodes of weights 1, 1.5, 2, then 1 joins:",
		"--weights 2":                  "1 node of weight 2, then 1 joins:",
		"--weights 1,2,3,4,5,6,7,8,99": "9 nodes with weights, then 1 joins:",
	} {
		_, stdout, stderr := runCommand(strings.Fields("route --keys 100 --kind ring " + args)...)
		if got, _, _ := strings.Cut(stdout, "\n"); got != want {
			t.Errorf("cleave route %s begins with %q, want %q; stderr %q", args, got, want, stderr)
		}
	}
}

func TestRouteRowsTellHowManyNodesThereAre(t *testing.T) {
	r := routeJSON(t, strings.Fields("--keys 100 --nodes 5 --remove 2 --add 1 --multiply 3")...)["ring"]
	if r.NodesBefore != 5 || r.NodesAfter != 12 {
		t.Errorf("%d nodes before and %d after, want 5 and 12", r.NodesBefore, r.NodesAfter)
	}
}

func TestRouteKeepsToTheWidthAndShowsNoNegativeNothing(t *testing.T) {
	for _, args := range []string{"", "--weights 1,1,2", "--remove 1", "--remove 4 --last", "--multiply 2", "--add 0"} {
		_, stdout, stderr := runCommand(strings.Fields("route --keys 20000 " + args)...)
		if stdout == "" || strings.Contains(stdout, "-0.00") || strings.Contains(stdout, "+0.00") {
			t.Errorf("cleave route %s: stderr %q, stdout\n%s", args, stderr, stdout)
		}
		checkWidth(t, stdout)
	}
}

func TestRouteNamesAReasonOnceForAllWhoShareIt(t *testing.T) {
	_, stdout, _ := runCommand(strings.Fields("route --keys 100 --weights 1,2,2")...)
	if !strings.Contains(stdout, "\nNo modulo, mask, interval, interval-relabelled, jump, binomial, anchor: this router has no weights.\n") || strings.Contains(stdout, "more)") {
		t.Errorf("got\n%s", stdout)
	}
	_, _, stderr := runCommand(strings.Fields("route --keys 100 --remove 1 --kind ring,mask,jump -o json")...)
	if !strings.Contains(stderr, "left out mask, jump: node cannot be removed here") || strings.Count(stderr, "left out") != 1 {
		t.Errorf("got %q", stderr)
	}
}

func TestRouteShowsAKindOnce(t *testing.T) {
	if _, stdout, stderr := runCommand(strings.Fields("route --keys 100 --kind ring,ring --kind ring")...); strings.Count(stdout, "\nring ") != 1 {
		t.Errorf("stderr %q, stdout\n%s", stderr, stdout)
	}
}

func TestRouteRefusesBadFlags(t *testing.T) {
	for _, args := range []string{"--nodes 0", "--nodes x", "--add -1", "--remove 8", "--multiply -1", "--multiply 0", "--last", "--keys -1", "--weights 1,-1", "--weights 1 --nodes 2", "--kind wheel", "--kind=", "--keys 1000000000000", "-o xml", "more"} {
		code, stdout, stderr := runCommand(strings.Fields("route " + args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "cleave route --help") {
			t.Errorf("cleave route %s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
