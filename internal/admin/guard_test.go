package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

const split = `{"slots":[7]}`

// Whatever is refused has changed nothing: the map is as it was.
func TestWhatIsRefused(t *testing.T) {
	l := small(t)
	before := l.db.Map().Version()
	with := func(more ...string) []string { return append(append([]string{}, signed...), more...) }
	huge := `{"slots":[` + strings.Repeat("1,", maxBody) + `1]}`
	for _, c := range []struct {
		what, method, target, body string
		header                     []string
		status                     int
		code                       string
	}{
		{"no token", "POST", api.PathSplit, split, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"wrong token", "POST", api.PathSplit, split, []string{"Content-Type", "application/json", "Authorization", "Bearer " + testToken + "x"}, 401, api.CodeUnauthorized},
		{"another scheme", "POST", api.PathSplit, split, []string{"Content-Type", "application/json", "Authorization", "Basic " + testToken}, 401, api.CodeUnauthorized},
		{"the token in the query", "POST", api.PathSplit + "?token=" + testToken, split, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"a dry run without a token", "POST", api.PathSplit + "?dry_run=true", split, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"a name that is not ours", "POST", api.PathSplit, split, with("Host", "evil.example"), 421, api.CodeForbidden},
		{"one that looks like it", "GET", api.PathStatus, "", []string{"Host", "127.0.0.1.evil.example"}, 421, api.CodeForbidden},
		{"an address that is not ours", "GET", api.PathStatus, "", []string{"Host", "10.1.2.3"}, 421, api.CodeForbidden},
		{"health by another name", "GET", api.PathLive, "", []string{"Host", "evil.example"}, 421, api.CodeForbidden},
		{"a page of another site", "POST", api.PathSplit, split, with("Origin", "http://evil.example"), 403, api.CodeForbidden},
		{"a page of another site, as new browsers say it", "POST", api.PathSplit, split, with("Sec-Fetch-Site", "cross-site"), 403, api.CodeForbidden},
		{"a page of another port", "POST", api.PathSplit, split, with("Origin", "http://127.0.0.1:1"), 403, api.CodeForbidden},
		{"a form", "POST", api.PathSplit, split, []string{"Authorization", "Bearer " + testToken, "Content-Type", "text/plain"}, 415, api.CodeInvalid},
		{"no type", "POST", api.PathSplit, split, []string{"Authorization", "Bearer " + testToken}, 415, api.CodeInvalid},
		{"a huge body", "POST", api.PathSplit, huge, signed, 413, api.CodeTooLarge},
		{"no body", "POST", api.PathSplit, "", signed, 400, api.CodeInvalid},
		{"half a body", "POST", api.PathSplit, `{"slots":[`, signed, 400, api.CodeInvalid},
		{"two bodies", "POST", api.PathSplit, split + split, signed, 400, api.CodeInvalid},
		{"a list", "POST", api.PathSplit, `[]`, signed, 400, api.CodeInvalid},
		{"an unknown field", "POST", api.PathSplit, `{"slots":[7],"dry_run":true}`, signed, 400, api.CodeInvalid},
		{"a wrong type", "POST", api.PathSplit, `{"slots":"7"}`, signed, 400, api.CodeInvalid},
		{"a number with a fraction", "POST", api.PathSplit, `{"slots":[7.5]}`, signed, 400, api.CodeInvalid},
		{"a negative id", "POST", api.PathMerge, `{"left":-1,"right":2}`, signed, 400, api.CodeInvalid},
		{"a key that is none", "POST", api.PathSplit, `{"keys":["\\q"]}`, signed, 400, api.CodeInvalid},
		{"a misspelt dry run", "POST", api.PathSplit + "?dryrun=true", split, signed, 400, api.CodeInvalid},
		{"a dry run that is neither", "POST", api.PathSplit + "?dry_run=maybe", split, signed, 400, api.CodeInvalid},
		{"two dry runs", "POST", api.PathSplit + "?dry_run=true&dry_run=false", split, signed, 400, api.CodeInvalid},
		{"a query that is none", "GET", api.PathShards + "?limit=%zz", "", nil, 400, api.CodeInvalid},
		{"a page of nothing", "GET", api.PathShards + "?limit=0", "", nil, 400, api.CodeInvalid},
		{"a page of all", "GET", api.PathShards + "?limit=1001", "", nil, 400, api.CodeInvalid},
		{"a place that is none", "GET", api.PathShards + "?after=x", "", nil, 400, api.CodeInvalid},
		{"an action by GET", "GET", api.PathSplit, "", signed, 405, api.CodeMethod},
		{"a read by POST", "POST", api.PathStatus, "{}", signed, 405, api.CodeMethod},
		{"another method", "DELETE", api.PathKeyspaces, "", signed, 405, api.CodeMethod},
		{"no path", "GET", "/", "", signed, 404, api.CodeNotFound},
		{"a slash more", "GET", api.PathStatus + "/", "", signed, 404, api.CodeNotFound},
		{"dots", "GET", "/api/v1/../../metrics", "", signed, 404, api.CodeNotFound},
		{"written dots", "GET", "/api/v1/shards/%2e%2e/status", "", signed, 404, api.CodeNotFound},
		{"two slashes", "GET", "//api/v1/status", "", signed, 404, api.CodeNotFound},
		{"an id that is none", "GET", "/api/v1/shards/%2e%2e%2fx", "", signed, 404, api.CodeNotFound},
		{"profiles that nobody asked for", "GET", "/debug/pprof/", "", signed, 404, api.CodeNotFound},
	} {
		status, body, _ := l.ask(c.method, c.target, c.body, c.header...)
		refusal(t, c.what, status, body, c.code, c.status)
		if strings.Contains(body, testToken) {
			t.Errorf("%s: the token is told: %s", c.what, body)
		}
	}
	if after := l.db.Map().Version(); after != before {
		t.Errorf("the map was changed: version %d, then %d", before, after)
	}
}

func TestTheServerIsKnownByItsNames(t *testing.T) {
	l := small(t, func(o *Options) { o.Hosts = []string{"Store.Example."} })
	for _, host := range []string{l.addr, "localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "127.9.9.9", "store.example", "store.example.:80"} {
		if status, body, _ := l.ask("GET", api.PathLive, "", "Host", host); status != 200 {
			t.Errorf("%s: %d, %s", host, status, body)
		}
	}
}

// Elsewhere than on loopback who only looks needs the token too, but for what those need
// who start and stop servers.
func TestReadsNeedTheTokenUnlessTheListenerIsOnLoopback(t *testing.T) {
	l := small(t, func(o *Options) {
		o.Listener.Close()
		wide, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Listener = wide
	})
	_, port, _ := net.SplitHostPort(l.addr)
	l.addr = "127.0.0.1:" + port
	l.client.Addr = l.addr
	for path, want := range map[string]int{api.PathStatus: 401, api.PathMetrics: 401, api.PathOpenAPI: 401, api.PathLive: 200, api.PathReady: 200} {
		if status, body, _ := l.ask("GET", path, ""); status != want {
			t.Errorf("%s: %d, %s", path, status, body)
		}
		if status, _, _ := l.ask("GET", path, "", signed...); status != 200 {
			t.Errorf("%s with the token: %d", path, status)
		}
	}
}

func TestProfilesNeedTheToken(t *testing.T) {
	l := small(t, func(o *Options) { o.Pprof = true })
	if status, _, _ := l.ask("GET", "/debug/pprof/cmdline", ""); status != 401 {
		t.Errorf("without it: %d", status)
	}
	if status, _, _ := l.ask("GET", "/debug/pprof/cmdline", "", signed...); status != 200 {
		t.Errorf("with it: %d", status)
	}
}

func TestEveryAnswerHasItsHeaders(t *testing.T) {
	l := small(t)
	for _, path := range []string{api.PathStatus, api.PathLive, api.PathMetrics, "/none"} {
		_, _, h := l.ask("GET", path, "")
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control", "Referrer-Policy"} {
			if h.Get(name) == "" {
				t.Errorf("%s has no %s", path, name)
			}
		}
	}
}

// A client that never ends its header is not waited for, and neither is one too many.
func TestSlowAndManyConnections(t *testing.T) {
	l := small(t, func(o *Options) { o.headerTime = 50 * time.Millisecond })
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	if _, err := io.ReadAll(c); err != nil { // until the server closes it
		t.Errorf("it was not closed: %v", err)
	}
	big, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	_ = big.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(big, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 4*maxHeader)+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(big), nil)
	if err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a huge header: %v", resp.Status)
	}
}

func TestConnectionsBeyondTheBoundAreClosedAtOnce(t *testing.T) {
	b := &bounded{Listener: listen(t), most: 2}
	defer b.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := b.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	dial()
	first := <-accepted
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the third is served: %v", err)
	}
	first.Close()
	dial()
	if c := <-accepted; c == nil {
		t.Error("there is no room after one has left")
	}
}
