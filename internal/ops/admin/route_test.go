package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server"
)

// FuzzRequests sends anything to the handlers, with the token and only to plan. Whatever it
// is, the answer is of the API, it is no mistake of the server, and the map stays as it is.
func FuzzRequests(f *testing.F) {
	db, err := cleave.OpenMemory(cleave.Options{Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	s := server.New(db, server.Options{})
	server := httptest.NewUnstartedServer(nil)
	a, err := New(Options{DB: db, Server: s, Listener: server.Listener, Token: testToken})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close(); a.Close(); db.Close() })
	for _, rt := range a.allRoutes() {
		f.Add(rt.method, strings.Replace(rt.path, "{id}", "2", 1), "limit=3", "{}")
	}
	f.Add("POST", api.PathSplit, "", `{"slots":[1,2],"keyspace":"default"}`)
	f.Add("POST", api.PathSplit, "", `{"keys":["\\x00","a"]}`)
	f.Add("POST", api.PathMove, "", `{"shard":2,"to":1,"bytes_per_second":1}`)
	f.Add("POST", api.PathSetConfig, "", `{"settings":{"maxmemory":"1gb"}}`)
	f.Add("GET", api.PathExplain, "key=%5Cx00&keyspace=default", "")
	f.Add("GET", api.PathSagas, "after=ended:x&state=stuck", "")
	handler, before := a.newHandler(), db.Map().Version()
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Authorization": {"Bearer " + testToken}, "Content-Type": {"application/json"}}, RemoteAddr: "127.0.0.1:1",
		}
		if method != http.MethodGet {
			r.URL.RawQuery += "&dry_run=true"
			r.Body = http.NoBody
			if body != "" {
				r = r.Clone(r.Context())
				r.Body = httptest.NewRequest("POST", "/", strings.NewReader(body)).Body
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %q?%q %q: %s", method, path, query, body, w.Body)
		}
		if kind := w.Header().Get("Content-Type"); kind == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q: no JSON: %s", method, path, w.Body)
		}
		if now := db.Map().Version(); now != before {
			t.Fatalf("%s %q?%q %q: the map was changed", method, path, query, body)
		}
	})
}
