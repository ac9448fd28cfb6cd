package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// TestTheDocumentIsThatOfTheRoutes holds openapi.json against the table that the handlers
// are made of. CLEAVE_WRITE=1 writes it anew.
func TestTheDocumentIsThatOfTheRoutes(t *testing.T) {
	want, err := makeOpenAPI((&Admin{}).allRoutes())
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CLEAVE_WRITE") != "" {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(openAPIDocument, want) {
		t.Error("openapi.json is not what the routes are: run this test with CLEAVE_WRITE=1, and look at the difference")
	}
}

// responseSchema returns which schema an answer of a path has.
func responseSchema(paths map[string]any, path, method string, status int) (map[string]any, bool) {
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

// checkDocumented checks an answer against the document.
func checkDocumented(t *testing.T, path, method string, status int, body string) {
	t.Helper()
	s, paths, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	is, ok := responseSchema(paths, path, method, status)
	if !ok {
		return // text
	}
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Errorf("%s %s: %v: %s", method, path, err, body)
		return
	}
	for _, wrong := range s.checkValue(is, value, "answer") {
		t.Errorf("%s %s: %s: %s", method, path, wrong, body)
	}
}

// What the server answers is what the document says, for every path and method, on a
// store that has something of everything.
func TestAnswersAreAsDocumented(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		shard, job := l.createEverything()
		if _, err := l.client.Post(ctx, api.PathSetCap, api.SetCap{Keyspace: "ordered", Prefix: api.KeyOrNil([]byte("z")), Seconds: 600}, false); err != nil {
			t.Fatal(err)
		}
		_, paths, err := loadDocument()
		if err != nil {
			t.Fatal(err)
		}
		bodies := map[string]string{
			api.PathSplit: `{"slots":[77]}`, api.PathPresplit: `{"into":32}`, api.PathMerge: fmt.Sprintf(`{"left":%d,"right":%d}`, shard, shard+1),
			api.PathMove: fmt.Sprintf(`{"shard":%d,"to":4}`, shard), api.PathDrain: `{"group":4}`, api.PathUndrain: `{"group":4}`, api.PathRegroup: `{"groups":5}`,
			api.PathCreateKeyspace: `{"name":"more","kind":"range"}`, api.PathDropKeyspace: `{"name":"ordered"}`, api.PathDropIndex: `{"keyspace":"people","name":"by-country"}`,
			api.PathSetCap: `{"prefix":"a","writes_per_second":5}`, api.PathRemoveCap: `{"id":1}`,
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
				if method == "DELETE" {
					target += "?name=first&dry_run=true"
				}
				if method == "POST" {
					target += "?dry_run=true"
					if body = bodies[path]; body == "" {
						body = "{}"
					}
				}
				status, answer, _ := l.sendRequest(method, target, body, authHeaders...)
				if status == 404 && !strings.Contains(target, "/jobs/") || status == 405 || status >= 500 {
					t.Errorf("%s %s is documented, and is answered with %d: %s", method, target, status, answer)
				}
				checkDocumented(t, path, method, status, answer)
			}
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
				if _, ok := methods.(map[string]any)[strings.ToLower(method)]; ok {
					continue
				}
				status, answer, _ := l.sendRequest(method, strings.Replace(path, "{id}", "1", 1), "{}", authHeaders...)
				checkRefusal(t, method+" "+path, status, answer, api.CodeMethod, http.StatusMethodNotAllowed)
			}
		}
	})
}

// schemaChecker checks values against the part of JSON Schema that the document uses. It is
// stricter in one thing: an answer has no field that is not described.
type schemaChecker struct{ byName map[string]any }

func loadDocument() (*schemaChecker, map[string]any, error) {
	var d map[string]any
	if err := json.Unmarshal(openAPIDocument, &d); err != nil {
		return nil, nil, err
	}
	return &schemaChecker{d["components"].(map[string]any)["schemas"].(map[string]any)}, d["paths"].(map[string]any), nil
}

// checkValue returns what is wrong with a value.
func (s *schemaChecker) checkValue(is map[string]any, value any, at string) []string {
	if ref, ok := is["$ref"].(string); ok {
		return s.checkValue(s.byName[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any), value, at)
	}
	switch is["type"] {
	case "object":
		return s.checkObject(is, value, at)
	case "array":
		list, ok := value.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %T, no list", at, value)}
		}
		var wrong []string
		for i, v := range list {
			wrong = append(wrong, s.checkValue(is["items"].(map[string]any), v, fmt.Sprint(at, "[", i, "]"))...)
		}
		return wrong
	}
	return checkScalar(is, value, at)
}

func (s *schemaChecker) checkObject(is map[string]any, value any, at string) (wrong []string) {
	o, ok := value.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s is %T, no object", at, value)}
	}
	properties, _ := is["properties"].(map[string]any)
	if more, ok := is["additionalProperties"].(map[string]any); ok {
		for name, v := range o {
			wrong = append(wrong, s.checkValue(more, v, at+"."+name)...)
		}
		return wrong
	}
	required, _ := is["required"].([]any)
	for _, name := range required {
		if _, ok := o[name.(string)]; !ok {
			wrong = append(wrong, at+" lacks "+name.(string))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if p, ok := properties[name].(map[string]any); ok {
			wrong = append(wrong, s.checkValue(p, o[name], at+"."+name)...)
		} else {
			wrong = append(wrong, at+"."+name+" is not described")
		}
	}
	return wrong
}

func checkScalar(is map[string]any, value any, at string) []string {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	_, isBool := value.(bool)
	bad := func(what string) []string { return []string{fmt.Sprintf("%s is %v, %s", at, value, what)} }
	switch is["type"] {
	case "string":
		if !isText {
			return bad("no text")
		}
		if is["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339, text); err != nil {
				return bad("no time")
			}
		}
		if p, ok := is["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(text) {
			return bad("not of the form " + p)
		}
	case "boolean":
		if !isBool {
			return bad("neither true nor false")
		}
	case "number", "integer":
		if !isNumber || is["type"] == "integer" && number != float64(int64(number)) {
			return bad("no " + is["type"].(string))
		}
		if least, ok := is["minimum"].(float64); ok && number < least {
			return bad("too small")
		}
	default:
		return bad(fmt.Sprintf("of an unknown type %v", is["type"]))
	}
	return nil
}

// createEverything makes something of each kind that there is, and returns a shard and a job.
func (l *testServer) createEverything() (shard uint64, job string) {
	l.t.Helper()
	check := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.writeKeys(3000)
	ordered, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "ordered", Kind: cleave.Range})
	check(err)
	check(ordered.Set(ctx, []byte("m\x00\xff"), []byte("v")))
	people, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "people", Kind: cleave.Range})
	check(err)
	ix, err := l.db.CreateIndex(ctx, cleave.IndexOptions{Name: "by-country", Keyspace: people, Columns: "country", Mode: cleave.Asynchronous})
	check(err)
	_, err = people.HSet(ctx, []byte("anna"), cleave.Field{Name: []byte("country"), Value: []byte("no")})
	check(err)
	check(ix.Wait(ctx))
	l.runSaga()
	a, err := l.client.Post(ctx, api.PathSplit, api.Split{Slots: []int{5, 10}}, false)
	done := l.waitJobDone(a, err)
	l.waitJobDone(l.client.Post(ctx, api.PathSplit, api.Split{Keyspace: "ordered", Keys: []api.Key{api.Key("m\x00\xff")}}, false))
	check(l.server.Configure(map[string]string{"slowlog-log-slower-than": "0"}))
	rdb := redis.NewClient(&redis.Options{Addr: l.redisAddr, ReadTimeout: time.Minute})
	l.t.Cleanup(func() { rdb.Close() })
	check(rdb.Set(ctx, "hello", "secret", 0).Err())
	if l.dataDir != "" {
		l.waitJobDone(l.client.Post(ctx, api.PathCreateBackup, api.CreateBackup{Name: "first"}, false))
	}
	e, err := l.client.ExplainSlot(ctx, "", 5)
	check(err)
	return e.Shard.ID, done.ID
}

// runSaga leaves a saga in the usual journal.
func (l *testServer) runSaga() {
	l.t.Helper()
	j, err := journal.Open(ctx, l.db, journal.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := saga.NewRunner(j, saga.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close()
	type nothing struct{}
	ok := func(*cleave.Txn, *nothing) error { return nil }
	fails := func(*cleave.Txn, *nothing) error { return saga.Permanent(errors.New("no money")) }
	good, err := saga.Register(r, saga.Definition[nothing]{Name: "good", Steps: []saga.Step[nothing]{journal.Step("one", ok, ok)}})
	if err != nil {
		l.t.Fatal(err)
	}
	bad, err := saga.Register(r, saga.Definition[nothing]{Name: "bad", Steps: []saga.Step[nothing]{journal.Step("one", ok, ok), journal.Step("two", fails, ok)}})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := good.Run(ctx, "saga-1", nothing{}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := bad.Run(ctx, "saga-2", nothing{}); err == nil {
		l.t.Fatal("the bad saga completed")
	}
}
