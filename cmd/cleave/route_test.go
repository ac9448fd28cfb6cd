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
	code, stdout, stderr := exec(append([]string{"route", "-o", "json"}, args...)...)
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
	code, stdout, stderr := exec(strings.Fields("route --remove 1 --keys 1000 -o jsonl")...)
	if code != exitOK || strings.Contains(stdout, `"jump"`) || !strings.Contains(stdout, `"ring"`) || !strings.Contains(stderr, "left out jump: node cannot be removed here") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRouteFailsIfNothingCanMakeTheChange(t *testing.T) {
	code, stdout, stderr := exec("route", "--kind", "mask", "--keys", "1000")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "mask: impossible number of nodes: 9") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestRouteTableSaysHowToReadItAndWhatCannotBe(t *testing.T) {
	code, stdout, _ := exec("route", "--keys", "1000")
	for _, want := range []string{"rendezvous", "█", "No mask: impossible number of nodes: 9", "At least 11.11 %", "1 is even"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s", code, want, stdout)
		}
	}
}

func TestRouteRefusesBadFlags(t *testing.T) {
	for _, args := range []string{"--nodes 0", "--nodes x", "--add -1", "--remove 8", "--multiply -1", "--multiply 0", "--last", "--keys -1", "--weights 1,-1", "--weights 1 --nodes 2", "--kind wheel", "--kind=", "--keys 1000000000000", "-o xml", "more"} {
		code, stdout, stderr := exec(strings.Fields("route " + args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "cleave route --help") {
			t.Errorf("cleave route %s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
