package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/page"
)

// frontRoute is what people see first, and assetRoute what it is made of. Neither reveals anything
// about the server, and neither needs a token.
var (
	frontRoute = route{method: http.MethodGet, path: "/", name: "front", public: true, handle: serveFront}
	assetRoute = route{method: http.MethodGet, path: page.AssetsPrefix, name: "asset", public: true, handle: serveAsset}
)

// frontLinks are what the front names in plain text.
var frontLinks = []struct{ path, about string }{
	{"/", "in a browser: the page, which shows all of this live"},
	{api.PathStatus, "how the server is, the verdict first"},
	{api.PathOpenAPI, "every path of the API, as an OpenAPI document"},
	{api.PathMetrics, "figures for Prometheus"},
	{api.PathLive, "whether the process answers"},
	{api.PathReady, "whether the server takes requests; ?verbose says why not"},
}

const docsURL = "https://github.com/cleavekv/cleave/blob/main/docs/http.md"

// serveFront answers with the page to a browser, which asks for HTML, and else in plain text.
func serveFront(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		page.ServeIndex(w, r)
		return
	}
	var b strings.Builder
	b.WriteString("Cleave: the HTTP port for operators. Redis clients use another one.\n\n")
	for _, s := range frontLinks {
		fmt.Fprintf(&b, "%-21s %s\n", s.path, s.about)
	}
	b.WriteString("\nOn the command line: cleave status\nDocumentation: " + docsURL + "\n")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

// serveAsset serves a file of the page.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	if !page.ServeAsset(w, r) {
		writeError(w, notFoundError("there is no file at "+strconv.Quote(r.URL.Path), "load / again: it names the files of this build"))
	}
}
