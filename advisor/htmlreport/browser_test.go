package htmlreport

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/browser"
)

// probePage shows the report in a frame of so many pixels, and writes down what a reader would see of it.
const probePage = `<!doctype html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;display:block}</style>
<iframe id="f" width="%d" height="4000" src="/report.html"></iframe><pre id="seen">nothing</pre>
<script>
const frame = document.getElementById("f");
frame.onload = () => {
  const d = frame.contentDocument, w = frame.contentWindow, seen = {problems: []};
  const luminance = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parse = s => { const n = s.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(w.getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
  seen.overflow = d.documentElement.scrollWidth - frame.clientWidth;
  seen.background = w.getComputedStyle(d.body).backgroundColor;
  seen.elements = [...d.querySelectorAll("script, img, iframe, object, embed, link")].map(e => e.outerHTML);
  seen.text = d.body.innerText;
  seen.maps = [...d.querySelectorAll("svg.heat")].map(s => { const b = s.getBoundingClientRect(), n = s.getBBox(); return [b.width, b.height, n.width, n.height]; });
  seen.plots = [...d.querySelectorAll("svg.plot")].map(s => { const n = s.getBBox(); return [n.width, n.height]; });
  for (const e of d.querySelectorAll("body *")) {
    if (e.closest("svg") || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const s = w.getComputedStyle(e), a = luminance(parse(s.color)), b = luminance(behind(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) seen.problems.push(e.tagName + " " + e.className + " has contrast " + contrast.toFixed(2) + ": " + e.textContent.slice(0, 40));
    if (parseFloat(s.fontSize) < 11) seen.problems.push(e.tagName + " " + e.className + " has " + s.fontSize);
    const r = e.getBoundingClientRect();
    if (r.right > frame.clientWidth + 1 && !e.closest(".scroll, pre")) seen.problems.push(e.tagName + " " + e.className + " ends at " + r.right);
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
};
</script>`

// seenPage is what a browser has shown.
type seenPage struct {
	Overflow   float64
	Background string
	Elements   []string
	Text       string
	Maps       [][4]float64 // shown width and height, then those of what was drawn, in its own units
	Plots      [][2]float64
	Problems   []string
}

var seenText = regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`)

// runBrowser runs it on a page and returns what it prints, and what the console of the page got.
func runBrowser(t *testing.T, path string, dark bool, args ...string) (stdout, console string) {
	t.Helper()
	scheme := 1
	if dark {
		scheme = 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := []string{"--enable-logging=stderr", "--user-data-dir=" + t.TempDir(), fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--virtual-time-budget=20000"}
	for _, flag := range browser.Flags {
		all = append(all, "--"+flag)
	}
	cmd := exec.CommandContext(ctx, path, append(all, args...)...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, errors.String())
	}
	for line := range strings.Lines(errors.String()) {
		if strings.Contains(line, "CONSOLE") {
			console += line
		}
	}
	return string(out), console
}

// The page is what it is made to be in a browser: on a phone and on a large screen, light and dark, with names that try to
// be more than text. With CLEAVE_SCREENSHOTS it leaves pictures in that directory.
func TestPage_InABrowser_IsReadable(t *testing.T) {
	path := browser.Find(t)
	page := write(t, newReport(t, 40_000))
	width := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/report.html":
			fmt.Fprint(w, page)
		case "/probe":
			fmt.Fprintf(w, probePage, width)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, width = range []int{390, 1280} {
		for _, dark := range []bool{false, true} {
			stdout, console := runBrowser(t, path, dark, fmt.Sprintf("--window-size=%d,4200", max(width, 500)), "--dump-dom", s.URL+"/probe")
			name := fmt.Sprintf("%d pixels, dark %t", width, dark)
			if strings.Contains(strings.ReplaceAll(console, "/favicon.ico", ""), "report.html") || strings.Contains(console, "Content Security Policy") {
				t.Errorf("%s: the console has\n%s", name, console)
			}
			found := seenText.FindStringSubmatch(stdout)
			var seen seenPage
			if found == nil {
				t.Fatalf("%s: the page was not looked at:\n%s", name, stdout)
			}
			if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &seen); err != nil {
				t.Fatalf("%s: %v: %s", name, err, found[1])
			}
			checkSeen(t, name, dark, &seen)
			if dir := os.Getenv("CLEAVE_SCREENSHOTS"); dir != "" {
				runBrowser(t, path, dark, fmt.Sprintf("--window-size=%d,4000", width), fmt.Sprintf("--screenshot=%s", filepath.Join(dir, fmt.Sprintf("report-%d-%t.png", width, dark))), s.URL+"/report.html")
			}
		}
	}
}

func checkSeen(t *testing.T, name string, dark bool, seen *seenPage) {
	t.Helper()
	if seen.Overflow > 0 {
		t.Errorf("%s: the page is %v pixels too wide", name, seen.Overflow)
	}
	for _, p := range seen.Problems {
		t.Errorf("%s: %s", name, p)
	}
	if len(seen.Elements) > 0 {
		t.Errorf("%s: a name has become %q", name, seen.Elements)
	}
	for _, want := range []string{"<img src=x onerror=alert(1)>", "What grades mean", "Shard by"} {
		if !strings.Contains(seen.Text, want) {
			t.Errorf("%s: %q is not shown", name, want)
		}
	}
	if (seen.Background == "rgb(255, 255, 255)") == dark {
		t.Errorf("%s: the background is %s", name, seen.Background)
	}
	if len(seen.Maps) < 5 || len(seen.Plots) != 12 {
		t.Errorf("%s: %d heat maps and %d plots", name, len(seen.Maps), len(seen.Plots))
	}
	for _, m := range seen.Maps {
		if m[0] < 200 || m[1] < 100 || m[2] < 30 || m[3] < 16 {
			t.Errorf("%s: a heat map is %v by %v pixels, of %v moments and %v shards", name, m[0], m[1], m[2], m[3])
		}
	}
	drawn := 0
	for _, p := range seen.Plots {
		if p[0] >= 100 && p[1] >= 10 {
			drawn++
		}
	}
	if drawn != 10 { // of two columns no value comes twice
		t.Errorf("%s: the plots are %v", name, seen.Plots)
	}
}
