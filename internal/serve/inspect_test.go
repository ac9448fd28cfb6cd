package serve

import (
	"strings"
	"testing"
)

func TestOperatorsSeeConnectionsAndSlowRequestsWithoutValues(t *testing.T) {
	l := start(t, shapes[1], Options{})
	if err := l.s.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	c := l.dial()
	c.script(`
		CLIENT SETNAME worker -> OK
		SET k secret -> OK
		MSET a secret b secret -> OK
	`)
	all := l.s.Connections()
	if len(all) != 1 || all[0].Name != "worker" || all[0].Command != "mset" || all[0].Keyspace != "default" || all[0].Protocol != 2 {
		t.Errorf("the connections are %+v", all)
	}
	told := map[string][]string{}
	for _, e := range l.s.Slowlog() {
		for _, k := range e.Keys {
			told[e.Command] = append(told[e.Command], k.String())
			if strings.Contains(k.String(), "secret") {
				t.Errorf("a value is told: %+v", e)
			}
		}
		if e.Command == "set" && (e.Arguments != 3 || e.Shard == 0 || e.Group == 0 || e.Client == "") {
			t.Errorf("SET: %+v", e)
		}
	}
	if strings.Join(told["set"], " ") != "k" || strings.Join(told["mset"], " ") != "a b" {
		t.Errorf("the slow requests are of %v", told)
	}
	if n := l.s.Counts(); n.Clients != 1 || n.Connections != 1 || len(n.Commands) == 0 {
		t.Errorf("the counts are %+v", n)
	}
	if err := l.s.Configure(map[string]string{"timeout": "5", "no-such": "1"}); err == nil || l.s.Setting("timeout") != "0" {
		t.Errorf("a setting that there is not: %v; timeout is %s", err, l.s.Setting("timeout"))
	}
}
