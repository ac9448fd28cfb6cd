package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// startTraffic serves the API of a server that is asked for orders of customers: evenly, or for one of them mostly. Each
// request for traffic gets so many operations.
func startTraffic(t *testing.T, ops int, celebrity *atomic.Bool) (addr string) {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(path string, answer func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(answer()); err != nil {
				t.Error(err)
			}
		})
	}
	reply(api.PathKeyspaces, func() any {
		return api.Page[api.Keyspace]{Items: []api.Keyspace{{Name: "default", Kind: "hash"}}}
	})
	reply(api.PathTraffic, func() any {
		answer := api.Traffic{Every: 128, Next: "1"}
		for i := range ops {
			customer := i * 7919 % 1013
			if celebrity.Load() && i%4 > 0 {
				customer = 7
			}
			answer.Operations = append(answer.Operations, api.Operation{Keyspace: "default", Key: api.Key(fmt.Sprintf("order:%d:%d", customer, i)), Write: i%2 == 0, Bytes: 50})
		}
		return answer
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A key that fits the load of a server is kept; when the load has become another, the next look says so.
func TestAdvise_LiveTraffic_IsJudgedAndComparedLater(t *testing.T) {
	var celebrity atomic.Bool
	addr := startTraffic(t, 4000, &celebrity)
	saved := filepath.Join(t.TempDir(), "advice.json")
	look := []string{"advise", "--live", "--addr", addr, "--for", "1ms", "--shards", "8", "--layout", "hash", "--candidates", "part2"}
	code, stdout, stderr := runCommand(append(look, "--save", saved)...)
	for _, want := range []string{"4,000 operations", "part2", "ops", "One operation in 128 of keyspace default over"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Fatalf("exit %d, %s\n%swant %s", code, stderr, stdout, want)
		}
	}
	if code, stdout, stderr = runCommand(append(look, "--compare", saved)...); code != exitOK || !strings.Contains(stdout, "part2 is still right: grade A") {
		t.Errorf("unchanged: exit %d, %s\n%s", code, stderr, stdout)
	}
	celebrity.Store(true)
	code, stdout, stderr = runCommand(append(look, "--compare", saved)...)
	if code != exitUnhealthy || !strings.Contains(stdout, "part2 is no longer right") || !strings.Contains(stdout, "share of the most frequent value of part2") {
		t.Errorf("with a celebrity: exit %d, %s\n%s", code, stderr, stdout)
	}
}

func TestAdvise_LiveMistakes_SayWhatToDo(t *testing.T) {
	var celebrity atomic.Bool
	addr := startTraffic(t, 0, &celebrity)
	good := writeOrders(t, "orders.csv", 10, "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--live --for 1ms --addr " + addr, exitFailed, "look longer with --for"},
		{"--live --addr 127.0.0.1:1", exitUnreachable, "--addr"},
		{"--live --keyspace none --addr " + addr, exitUsage, "no such keyspace"},
		{"--live " + good, exitUsage, "--live takes no file"},
		{"--live --ops some", exitUsage, "all, reads or writes"},
		{"--live --for 0s", exitUsage, "--for"},
		{"--live --queries x", exitUsage, "--queries is not for --live"},
		{good + " --keyspace x", exitUsage, "--keyspace is for --live"},
		{"", exitUsage, "--live"},
	} {
		code, stdout, stderr := runCommand(append([]string{"advise"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("advise %s: exit %d, %s%s, want exit %d and %s", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}
