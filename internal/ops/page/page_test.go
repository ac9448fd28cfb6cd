package page

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// get asks for a path as the server would.
func get(path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	switch {
	case path == "/":
		ServeIndex(w, r)
	case !ServeAsset(w, r):
		w.WriteHeader(http.StatusNotFound)
	}
	return w
}

var linked = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

// The index names files that there are, by the digest, and nothing that is not of this server.
func TestIndex_NamesOwnFilesAlone(t *testing.T) {
	w := get("/")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Content-Security-Policy") != ContentPolicy || w.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("%d, %v", w.Code, w.Header())
	}
	if strings.Contains(w.Body.String(), digestMark) {
		t.Error("the digest is not filled in")
	}
	links := linked.FindAllStringSubmatch(w.Body.String(), -1)
	if len(links) == 0 {
		t.Fatal("the index names no file")
	}
	for _, link := range links {
		if strings.HasPrefix(link[1], "data:") || strings.HasPrefix(link[1], "#") {
			continue
		}
		if a := get(link[1]); a.Code != 200 {
			t.Errorf("%s: %d", link[1], a.Code)
		}
	}
	// The policy of the page would refuse these.
	for _, inline := range []string{"<style", " style=", "onclick=", "onload=", "<script>"} {
		if strings.Contains(w.Body.String(), inline) {
			t.Errorf("the index has %s", inline)
		}
	}
}

func TestAssets_AreKeptAndCompressed(t *testing.T) {
	set := loadEmbedded()
	for name, a := range set.byPath {
		path := AssetsPrefix + set.digest + "/" + name
		w := get(path)
		tag := w.Header().Get("ETag")
		if w.Code != 200 || w.Body.String() != string(a.plain) || w.Header().Get("Content-Encoding") != "" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
		if w := get(path, "If-None-Match", "W/\"x\", "+tag); w.Code != 304 || w.Body.Len() > 0 {
			t.Errorf("%s: again %d with %d bytes", name, w.Code, w.Body.Len())
		}
		if a.zipped == nil {
			continue
		}
		w = get(path, "Accept-Encoding", "br, gzip")
		z, err := gzip.NewReader(w.Body)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("ETag") == tag || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Fatalf("%s: %v, %v", name, err, w.Header())
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != string(a.plain) {
			t.Errorf("%s: compressed it is another file: %v", name, err)
		}
		if w := get(path, "Accept-Encoding", "gzip;q=0, br"); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: compressed for a client that refuses that", name)
		}
		r := httptest.NewRequest(http.MethodHead, path, nil)
		head := httptest.NewRecorder()
		if !ServeAsset(head, r) || head.Body.Len() > 0 || head.Header().Get("Content-Length") == "" {
			t.Errorf("%s: HEAD answers %v", name, head.Header())
		}
	}
	for _, path := range []string{"/assets/", "/assets/app.js", "/assets/0123456789abcdef/app.js", AssetsPrefix + set.digest, AssetsPrefix + set.digest + "/", AssetsPrefix + set.digest + "/index.html", AssetsPrefix + set.digest + "/nothing.js"} {
		if w := get(path); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestAssets_WeighLittle(t *testing.T) {
	if set := loadEmbedded(); set.bytes > MaxBytes {
		t.Errorf("the page takes %d bytes, of %d", set.bytes, MaxBytes)
	}
}

// Any change of any file changes the digest, so that no browser mixes files of two builds.
func TestDigest_IsOfAllFiles(t *testing.T) {
	digests := map[string]bool{}
	for _, files := range []fstest.MapFS{
		{indexFile: {Data: []byte("a")}, "x.js": {Data: []byte("b")}},
		{indexFile: {Data: []byte("ab")}, "x.js": {Data: []byte("")}},
		{indexFile: {Data: []byte("a")}, "y.js": {Data: []byte("b")}},
		{indexFile: {Data: []byte("a")}, "x.js": {Data: []byte("c")}},
	} {
		set, err := loadAssets(files)
		if err != nil {
			t.Fatal(err)
		}
		digests[set.digest] = true
	}
	if len(digests) != 4 {
		t.Errorf("four pages have %d digests", len(digests))
	}
	for _, files := range []fstest.MapFS{{"x.js": {}}, {indexFile: {}, "x.exe": {}}} {
		if _, err := loadAssets(files); err == nil {
			t.Errorf("%v is taken for a page", files)
		}
	}
}
