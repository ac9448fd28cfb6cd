package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/api"
)

// A verdict follows from what is wrong, and says what to do.
func TestVerdicts(t *testing.T) {
	l := small(t)
	l.fill(100)
	set := func(name, value string) {
		t.Helper()
		if _, err := l.client.Act(ctx, api.PathSetConfig, api.SetConfig{Settings: map[string]string{name: value}}, false); err != nil {
			t.Fatal(err)
		}
	}
	verdict := func(want, finding string) {
		t.Helper()
		s, err := l.client.Status(ctx)
		if err != nil || s.Verdict != want || finding != "" && (len(s.Findings) == 0 || !strings.Contains(s.Findings[0].Message, finding) || s.Findings[0].Fix == "") {
			t.Errorf("the verdict is %s because of %+v, %v; want %s", s.Verdict, s.Findings, err, want)
		}
	}
	verdict(api.Healthy, "")
	set("maxmemory", "1kb")
	verdict(api.Unhealthy, "writes are refused")
	used, limit := l.serve.Memory()
	if limit != 1024 || used <= limit {
		t.Errorf("%d of %d", used, limit)
	}
	set("maxmemory", fmt.Sprint(used+used/20))
	verdict(api.Degraded, "soon writes are refused")
	set("maxmemory", "0")
	verdict(api.Healthy, "")
	for _, bad := range []string{"-1", "lots", "1tb", "", "1e9"} {
		if _, err := l.client.Act(ctx, api.PathSetConfig, api.SetConfig{Settings: map[string]string{"maxmemory": bad}}, false); err == nil {
			t.Errorf("maxmemory %q is taken", bad)
		}
	}
}
