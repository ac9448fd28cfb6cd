package admin

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/page"
)

var fileLink = regexp.MustCompile(`(?:src|href)="(/[^"]*)"`)

// A browser gets the page, whose files need no token either; everything else gets text that says
// where to go. Other answers keep the policy that allows nothing.
func TestFront_IsThePageInABrowser(t *testing.T) {
	l := startSmallServer(t)
	status, text, h := l.sendRequest("GET", "/", "")
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || !strings.Contains(text, api.PathReady) || h.Get("Content-Security-Policy") == page.ContentPolicy {
		t.Errorf("%d, %v, %s", status, h, text)
	}
	for _, s := range frontLinks {
		if status, body, _ := l.sendRequest("GET", s.path, ""); status != 200 {
			t.Errorf("%s: %d, %s", s.path, status, body)
		}
	}
	status, text, h = l.sendRequest("GET", "/", "", "Accept", "text/html,application/xhtml+xml")
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || h.Get("Content-Security-Policy") != page.ContentPolicy || !strings.Contains(h.Get("Vary"), "Accept") {
		t.Fatalf("%d, %v, %s", status, h, text)
	}
	links := fileLink.FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Error("the page names no file")
	}
	for _, link := range links {
		status, _, h := l.sendRequest("GET", link[1], "", "Accept-Encoding", "gzip")
		if status != 200 || !strings.Contains(h.Get("Cache-Control"), "immutable") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", link[1], status, h)
		}
		if status, _, _ := l.sendRequest("GET", link[1], "", "If-None-Match", h.Get("ETag"), "Accept-Encoding", "gzip"); status != 304 {
			t.Errorf("%s: the second time %d", link[1], status)
		}
		status, body, _ := l.sendRequest("POST", link[1], "{}", authHeaders...)
		checkRefusal(t, "a POST to a file", status, body, api.CodeMethod, http.StatusMethodNotAllowed)
	}
	status, text, h = l.sendRequest("GET", page.AssetsPrefix+"0123456789abcdef/app.js", "")
	checkRefusal(t, "a file of another build", status, text, api.CodeNotFound, http.StatusNotFound)
	if h.Get("Cache-Control") != "no-store" {
		t.Errorf("a missing file is kept: %v", h)
	}
	if status, _, _ := l.sendRequest("GET", "/", "", "Host", "evil.example"); status != 421 {
		t.Errorf("by another name: %d", status)
	}
	_, text, _ = l.sendRequest("GET", api.PathMetrics, "")
	for _, want := range []string{`cleave_http_requests_total{method="GET",path="/assets/",status="304"}`, `cleave_http_requests_total{method="GET",path="/{$}",status="200"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the figures have no %s", want)
		}
	}
}
