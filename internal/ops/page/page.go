// Package page answers one question: what does an operator's browser show of a server?
//
// It has the files of the page, embedded into the binary, and serves them: the index, and all else
// below /assets/ and the digest of all files. The page has no data of its own. It reads the HTTP API
// that package api describes, so what it may see and change is decided there.
//
// # Promises
//
//   - Nothing is loaded from elsewhere and no script or style is inline: ContentPolicy allows neither.
//   - A file below a digest never changes, so browsers keep it. Another build has another digest.
//   - The files take at most MaxBytes together.
//   - It never needs a token: it reveals nothing about the server.
//
// # Limits
//
// A browser that does not know ES modules shows a line of text. A page that stays open while its
// server is replaced works with the files that it has, and asks for a reload when the API of the
// other one does not suit it.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// AssetsPrefix is where all files but the index are served.
const AssetsPrefix = "/assets/"

// MaxBytes is how much the files may take together, uncompressed: they load at once over the slow
// link of a person who is on call.
const MaxBytes = 300 << 10

// ContentPolicy is what the page may do: its own scripts, styles and requests, and nothing else. A
// picture of the heat map is saved from memory, hence data: and blob:.
const ContentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	indexFile = "index.html"
	// digestMark is what the index has in place of the digest.
	digestMark = "{digest}"
	// digestChars is enough to tell builds apart: 64 bits.
	digestChars = 16
)

//go:embed assets
var embedded embed.FS

// contentTypes are those of the files that there may be, by the end of their names.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8", ".json": "application/json",
	"": "text/plain; charset=utf-8", // LICENSE
}

// asset is a file, ready to be sent.
type asset struct {
	contentType   string
	plain, zipped []byte // zipped is nil if it is not smaller
	tag           string
}

// assetSet is all files of a page.
type assetSet struct {
	digest string
	index  *asset
	byPath map[string]*asset // by the path below the digest
	bytes  int               // of all files together, uncompressed
}

// loadEmbedded loads the files when the first of them is asked for: most commands never do.
var loadEmbedded = sync.OnceValue(func() *assetSet {
	files, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // it is embedded above
	}
	set, err := loadAssets(files)
	if err != nil {
		panic(err) // a test loads them too
	}
	return set
})

// loadAssets reads, digests and compresses all files of a folder.
func loadAssets(files fs.FS) (*assetSet, error) {
	set := &assetSet{byPath: map[string]*asset{}}
	contents := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		contents[name], err = fs.ReadFile(files, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(contents))
	for name := range contents {
		names = append(names, name)
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		fmt.Fprintf(all, "%s\x00%d\x00", name, len(contents[name]))
		all.Write(contents[name])
		set.bytes += len(contents[name])
	}
	set.digest = hex.EncodeToString(all.Sum(nil))[:digestChars]
	for _, name := range names {
		content := contents[name]
		if name == indexFile {
			content = bytes.ReplaceAll(content, []byte(digestMark), []byte(set.digest))
		}
		a, err := newAsset(name, content)
		if err != nil {
			return nil, err
		}
		if name == indexFile {
			set.index = a
		} else {
			set.byPath[name] = a
		}
	}
	if set.index == nil {
		return nil, fmt.Errorf("page: %s is missing", indexFile)
	}
	return set, nil
}

func newAsset(name string, content []byte) (*asset, error) {
	a := &asset{contentType: contentTypes[path.Ext(name)], plain: content}
	if a.contentType == "" {
		return nil, fmt.Errorf("page: no content type for %s: add it to contentTypes, or leave the file out", name)
	}
	sum := sha256.Sum256(content)
	a.tag = hex.EncodeToString(sum[:])[:digestChars]
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = z.Write(content); err == nil {
		err = z.Close()
	}
	if err == nil && zipped.Len() < len(content) {
		a.zipped = zipped.Bytes()
	}
	return a, err
}

// ServeIndex serves the page itself. Browsers ask each time whether it is still the same.
func ServeIndex(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", ContentPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	loadEmbedded().index.serve(w, r)
}

// ServeAsset serves a file below AssetsPrefix, and reports false if there is none: nothing is
// written then.
func ServeAsset(w http.ResponseWriter, r *http.Request) bool {
	set := loadEmbedded()
	digest, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, AssetsPrefix), "/")
	a := set.byPath[name]
	if digest != set.digest || a == nil {
		return false
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	a.serve(w, r)
	return true
}

// serve sends a file, unless the client has it.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	body, tag := a.plain, strconv.Quote(a.tag)
	h.Add("Vary", "Accept-Encoding")
	if a.zipped != nil && acceptsGzip(r) {
		body, tag = a.zipped, strconv.Quote(a.tag+"-gzip")
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	h.Set("Content-Type", a.contentType)
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// acceptsGzip reports whether a client names gzip, and not to refuse it.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, _ := strings.Cut(quality, "=")
			f, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return err != nil || f > 0
		}
	}
	return false
}
