package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/api"
)

// TestTheDocumentIsThatOfTheRoutes holds openapi.json against the table that the handlers
// are made of. CLEAVE_WRITE=1 writes it anew.
func TestTheDocumentIsThatOfTheRoutes(t *testing.T) {
	want, err := describe((&Admin{}).routes())
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CLEAVE_WRITE") != "" {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(document, want) {
		t.Error("openapi.json is not what the routes are: run this test with CLEAVE_WRITE=1, and look at the difference")
	}
}

// answers says which schema an answer of a path has.
func answers(paths map[string]any, path, method string, status int) (map[string]any, bool) {
	op, ok := paths[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
	if !ok {
		return nil, false
	}
	responses := op["responses"].(map[string]any)
	is, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok {
		is = responses["default"].(map[string]any)
	}
	content, ok := is["content"].(map[string]any)["application/json"].(map[string]any)
	if !ok {
		return nil, false
	}
	s, ok := content["schema"].(map[string]any)
	return s, ok
}

// fits checks an answer against the document.
func fits(t *testing.T, path, method string, status int, body string) {
	t.Helper()
	s, paths, err := documented()
	if err != nil {
		t.Fatal(err)
	}
	is, ok := answers(paths, path, method, status)
	if !ok {
		return // text
	}
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Errorf("%s %s: %v: %s", method, path, err, body)
		return
	}
	for _, wrong := range s.check(is, value, "answer") {
		t.Errorf("%s %s: %s: %s", method, path, wrong, body)
	}
}

// What the server answers is what the document says, for every path and method, on a
// store that has something of everything.
func TestAnswersAreAsDocumented(t *testing.T) {
	both(t, func(t *testing.T, l *lab) {
		shard, job := l.everything()
		_, paths, err := documented()
		if err != nil {
			t.Fatal(err)
		}
		bodies := map[string]string{
			api.PathSplit: `{"slots":[77]}`, api.PathPresplit: `{"into":32}`, api.PathMerge: fmt.Sprintf(`{"left":%d,"right":%d}`, shard, shard+1),
			api.PathMove: fmt.Sprintf(`{"shard":%d,"to":4}`, shard), api.PathDrain: `{"group":4}`, api.PathUndrain: `{"group":4}`, api.PathRegroup: `{"groups":5}`,
			api.PathCreateKeyspace: `{"name":"more","kind":"range"}`, api.PathDropKeyspace: `{"name":"ordered"}`, api.PathDropIndex: `{"keyspace":"people","name":"by-country"}`,
			api.PathSetConfig: `{"settings":{"timeout":"0"}}`, api.PathCreateBackup: `{}`, api.PathVerifyBackup: `{"name":"first"}`,
			api.PathRestoreBackup: `{"name":"first","to":"again"}`, api.PathThrottleJob: `{"bytes_per_second":0}`,
		}
		queries := map[string]string{api.PathExplain: "?key=key1", api.PathReady: "?verbose"}
		for path, methods := range paths {
			for method := range methods.(map[string]any) {
				method = strings.ToUpper(method)
				id := job
				if strings.HasPrefix(path, api.PathShards) {
					id = fmt.Sprint(shard)
				}
				target, body := strings.Replace(path, "{id}", id, 1)+queries[path], ""
				if method == "POST" {
					target += "?dry_run=true"
					if body = bodies[path]; body == "" {
						body = "{}"
					}
				}
				status, answer, _ := l.ask(method, target, body, signed...)
				if status == 404 && !strings.Contains(target, "/jobs/") || status == 405 || status >= 500 {
					t.Errorf("%s %s is documented, and is answered with %d: %s", method, target, status, answer)
				}
				fits(t, path, method, status, answer)
			}
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				if _, ok := methods.(map[string]any)[strings.ToLower(method)]; ok {
					continue
				}
				status, answer, _ := l.ask(method, strings.Replace(path, "{id}", "1", 1), "{}", signed...)
				refusal(t, method+" "+path, status, answer, api.CodeMethod, http.StatusMethodNotAllowed)
			}
		}
	})
}
