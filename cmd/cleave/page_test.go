package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The address opens the page, and what is behind the # is the token; --no-token leaves it out.
func TestPage_PrintsAnAddressThatSignsIn(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data)
	token, err := os.ReadFile(filepath.Join(data, "http-token"))
	if err != nil {
		t.Fatal(err)
	}
	at := runJSON[pageAddress](t, p, "page", "--data", data)
	u, err := url.Parse(at.URL)
	if err != nil || !at.SignsIn || u.Fragment != "token="+strings.TrimSpace(string(token)) {
		t.Fatalf("%+v, %v", at, err)
	}
	r, _ := http.NewRequest(http.MethodGet, at.URL, nil)
	r.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
	if at := runJSON[pageAddress](t, p, "page", "--no-token"); at.SignsIn || strings.Contains(at.URL, "#") {
		t.Errorf("%+v", at)
	}
}
