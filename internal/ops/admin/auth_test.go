package admin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

const splitBody = `{"slots":[7]}`

// Whatever is refused has changed nothing: the map is as it was.
func TestWhatIsRefused(t *testing.T) {
	l := startSmallServer(t)
	before := l.db.Map().Version()
	with := func(more ...string) []string { return append(append([]string{}, authHeaders...), more...) }
	huge := `{"slots":[` + strings.Repeat("1,", maxBodyBytes) + `1]}`
	for _, c := range []struct {
		what, method, target, body string
		header                     []string
		status                     int
		code                       string
	}{
		{"no token", "POST", api.PathSplit, splitBody, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"wrong token", "POST", api.PathSplit, splitBody, []string{"Content-Type", "application/json", "Authorization", "Bearer " + testToken + "x"}, 401, api.CodeUnauthorized},
		{"another scheme", "POST", api.PathSplit, splitBody, []string{"Content-Type", "application/json", "Authorization", "Basic " + testToken}, 401, api.CodeUnauthorized},
		{"the token in the query", "POST", api.PathSplit + "?token=" + testToken, splitBody, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"a dry run without a token", "POST", api.PathSplit + "?dry_run=true", splitBody, []string{"Content-Type", "application/json"}, 401, api.CodeUnauthorized},
		{"a name that is not ours", "POST", api.PathSplit, splitBody, with("Host", "evil.example"), 421, api.CodeForbidden},
		{"one that looks like it", "GET", api.PathStatus, "", []string{"Host", "127.0.0.1.evil.example"}, 421, api.CodeForbidden},
		{"an address that is not ours", "GET", api.PathStatus, "", []string{"Host", "10.1.2.3"}, 421, api.CodeForbidden},
		{"health by another name", "GET", api.PathLive, "", []string{"Host", "evil.example"}, 421, api.CodeForbidden},
		{"a page of another site", "POST", api.PathSplit, splitBody, with("Origin", "http://evil.example"), 403, api.CodeForbidden},
		{"a page of another site, as new browsers say it", "POST", api.PathSplit, splitBody, with("Sec-Fetch-Site", "cross-site"), 403, api.CodeForbidden},
		{"a page of another port", "POST", api.PathSplit, splitBody, with("Origin", "http://127.0.0.1:1"), 403, api.CodeForbidden},
		{"a form", "POST", api.PathSplit, splitBody, []string{"Authorization", "Bearer " + testToken, "Content-Type", "text/plain"}, 415, api.CodeInvalid},
		{"no type", "POST", api.PathSplit, splitBody, []string{"Authorization", "Bearer " + testToken}, 415, api.CodeInvalid},
		{"a huge body", "POST", api.PathSplit, huge, authHeaders, 413, api.CodeTooLarge},
		{"no body", "POST", api.PathSplit, "", authHeaders, 400, api.CodeInvalid},
		{"half a body", "POST", api.PathSplit, `{"slots":[`, authHeaders, 400, api.CodeInvalid},
		{"two bodies", "POST", api.PathSplit, splitBody + splitBody, authHeaders, 400, api.CodeInvalid},
		{"a list", "POST", api.PathSplit, `[]`, authHeaders, 400, api.CodeInvalid},
		{"an unknown field", "POST", api.PathSplit, `{"slots":[7],"dry_run":true}`, authHeaders, 400, api.CodeInvalid},
		{"a wrong type", "POST", api.PathSplit, `{"slots":"7"}`, authHeaders, 400, api.CodeInvalid},
		{"a number with a fraction", "POST", api.PathSplit, `{"slots":[7.5]}`, authHeaders, 400, api.CodeInvalid},
		{"a negative id", "POST", api.PathMerge, `{"left":-1,"right":2}`, authHeaders, 400, api.CodeInvalid},
		{"a key that is none", "POST", api.PathSplit, `{"keys":["\\q"]}`, authHeaders, 400, api.CodeInvalid},
		{"a misspelt dry run", "POST", api.PathSplit + "?dryrun=true", splitBody, authHeaders, 400, api.CodeInvalid},
		{"a dry run that is neither", "POST", api.PathSplit + "?dry_run=maybe", splitBody, authHeaders, 400, api.CodeInvalid},
		{"two dry runs", "POST", api.PathSplit + "?dry_run=true&dry_run=false", splitBody, authHeaders, 400, api.CodeInvalid},
		{"a query that is none", "GET", api.PathShards + "?limit=%zz", "", nil, 400, api.CodeInvalid},
		{"a page of nothing", "GET", api.PathShards + "?limit=0", "", nil, 400, api.CodeInvalid},
		{"a page of all", "GET", api.PathShards + "?limit=1001", "", nil, 400, api.CodeInvalid},
		{"a place that is none", "GET", api.PathShards + "?after=x", "", nil, 400, api.CodeInvalid},
		{"an action by GET", "GET", api.PathSplit, "", authHeaders, 405, api.CodeMethod},
		{"a read by POST", "POST", api.PathStatus, "{}", authHeaders, 405, api.CodeMethod},
		{"another method", "DELETE", api.PathKeyspaces, "", authHeaders, 405, api.CodeMethod},
		{"another method for the first page", "POST", "/", "", authHeaders, 405, api.CodeMethod},
		{"no path", "GET", "/nothing", "", authHeaders, 404, api.CodeNotFound},
		{"a slash more", "GET", api.PathStatus + "/", "", authHeaders, 404, api.CodeNotFound},
		{"dots", "GET", "/api/v1/../../metrics", "", authHeaders, 404, api.CodeNotFound},
		{"written dots", "GET", "/api/v1/shards/%2e%2e/status", "", authHeaders, 404, api.CodeNotFound},
		{"two slashes", "GET", "//api/v1/status", "", authHeaders, 404, api.CodeNotFound},
		{"an id that is none", "GET", "/api/v1/shards/%2e%2e%2fx", "", authHeaders, 404, api.CodeNotFound},
		{"profiles that nobody asked for", "GET", "/debug/pprof/", "", authHeaders, 404, api.CodeNotFound},
	} {
		status, body, _ := l.sendRequest(c.method, c.target, c.body, c.header...)
		checkRefusal(t, c.what, status, body, c.code, c.status)
		if strings.Contains(body, testToken) {
			t.Errorf("%s: the token is told: %s", c.what, body)
		}
	}
	if after := l.db.Map().Version(); after != before {
		t.Errorf("the map was changed: version %d, then %d", before, after)
	}
}

func TestTheServerIsKnownByItsNames(t *testing.T) {
	l := startSmallServer(t, func(o *Options) { o.Hosts = []string{"Store.Example."} })
	for _, host := range []string{l.addr, "localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "127.9.9.9", "store.example", "store.example.:80"} {
		if status, body, _ := l.sendRequest("GET", api.PathLive, "", "Host", host); status != 200 {
			t.Errorf("%s: %d, %s", host, status, body)
		}
	}
}

// Elsewhere than on loopback reads need the token too, except those for
// service managers.
func TestReadsNeedTheTokenUnlessTheListenerIsOnLoopback(t *testing.T) {
	l := startSmallServer(t, func(o *Options) {
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
		if status, body, _ := l.sendRequest("GET", path, ""); status != want {
			t.Errorf("%s: %d, %s", path, status, body)
		}
		if status, _, _ := l.sendRequest("GET", path, "", authHeaders...); status != 200 {
			t.Errorf("%s with the token: %d", path, status)
		}
	}
}

func TestProfilesNeedTheToken(t *testing.T) {
	l := startSmallServer(t, func(o *Options) { o.Pprof = true })
	if status, _, _ := l.sendRequest("GET", "/debug/pprof/cmdline", ""); status != 401 {
		t.Errorf("without it: %d", status)
	}
	if status, _, _ := l.sendRequest("GET", "/debug/pprof/cmdline", "", authHeaders...); status != 200 {
		t.Errorf("with it: %d", status)
	}
}

func TestEveryAnswerHasItsHeaders(t *testing.T) {
	l := startSmallServer(t)
	for _, path := range []string{api.PathStatus, api.PathLive, api.PathMetrics, "/none"} {
		_, _, h := l.sendRequest("GET", path, "")
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control", "Referrer-Policy"} {
			if h.Get(name) == "" {
				t.Errorf("%s has no %s", path, name)
			}
		}
	}
}

// A client that never ends its header is not waited for, and neither is one too many.
func TestSlowAndManyConnections(t *testing.T) {
	l := startSmallServer(t, func(o *Options) { o.headerTimeout = 50 * time.Millisecond })
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
	fmt.Fprint(big, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Big: "+strings.Repeat("x", 4*maxHeaderBytes)+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(big), nil)
	if err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a huge header: %v", resp.Status)
	}
}

// startAccepting accepts the connections of a crowd.
func startAccepting(t *testing.T, c *limitListener) (accepted chan net.Conn, dial func() net.Conn) {
	t.Helper()
	c.Listener = listenLoopback(t)
	t.Cleanup(func() { c.Listener.Close() })
	c.onClose = func(string, net.Addr) {}
	accepted = make(chan net.Conn, 8)
	go func() {
		for {
			c, err := c.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	return accepted, func() net.Conn {
		conn, err := net.Dial("tcp", c.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		return conn
	}
}

func TestCrowd_WhenFull_TheLongestAtRestMakesRoom(t *testing.T) {
	c := &limitListener{maxConns: 2, maxHealthConns: 1}
	accepted, dial := startAccepting(t, c)
	var near, far [4]net.Conn
	for i := range 2 {
		near[i] = dial()
		far[i] = <-accepted
	}
	c.recordState(far[0], http.StateActive)
	c.recordState(far[0], http.StateIdle) // so the second has rested for longer
	near[2] = dial()
	far[2] = <-accepted
	if _, err := near[1].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the one at rest is not closed: %v", err)
	}
	c.recordState(far[0], http.StateActive)
	c.recordState(far[2], http.StateActive)
	dial()
	if reserved := (<-accepted).(*limitedConn); !reserved.healthOnly {
		t.Error("while all are served the next one may ask for anything")
	} else {
		c.recordState(reserved, http.StateActive)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many is served: %v", err)
	}
	far[0].Close()
	dial()
	if m := (<-accepted).(*limitedConn); m.healthOnly {
		t.Error("there is no room after one has left")
	}
}

const testReadToken = "a-token-for-scrapers"

func TestReadToken_ReadsEverythingAndChangesNothing(t *testing.T) {
	var said bytes.Buffer
	l := startSmallServer(t, func(o *Options) {
		o.ReadToken, o.Pprof = testReadToken, true
		o.Log = slog.New(slog.NewTextHandler(&said, nil))
		o.Listener.Close()
		wide, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Listener = wide
	})
	_, port, _ := net.SplitHostPort(l.addr)
	l.addr = "127.0.0.1:" + port
	reading := []string{"Authorization", "Bearer " + testReadToken, "Content-Type", "application/json"}
	for _, rt := range l.admin.allRoutes() {
		path := strings.Replace(rt.path, "{id}", "1", 1)
		status, body, _ := l.sendRequest(rt.method, path, "{}", reading...)
		if denied := status == 401 || status == 403; denied != rt.isAction() {
			t.Errorf("%s %s: %d, %s", rt.method, rt.path, status, body)
		}
	}
	before := l.db.Map().Version()
	for _, path := range []string{api.PathSplit, api.PathSplit + "?dry_run=true"} {
		status, body, _ := l.sendRequest("POST", path, splitBody, reading...)
		checkRefusal(t, path, status, body, api.CodeForbidden, 403)
	}
	if status, body, _ := l.sendRequest("GET", "/debug/pprof/cmdline", "", reading...); status != 403 {
		t.Errorf("profiles: %d, %s", status, body)
	}
	if status, _, _ := l.sendRequest("GET", api.PathMetrics, "", "Authorization", "Bearer "+testReadToken+"x"); status != 401 {
		t.Errorf("a wrong token: %d", status)
	}
	if l.db.Map().Version() != before {
		t.Error("the map was changed")
	}
	l.admin.eventLimiter.Close()
	if text := said.String(); strings.Contains(text, testReadToken) || strings.Contains(text, testToken) || !strings.Contains(text, `msg="operator request denied" reason="this token is for reading alone"`) {
		t.Errorf("the log says\n%s", text)
	}
}

func TestReadToken_ThatIsTheOther_IsRefused(t *testing.T) {
	for token, want := range map[string]string{testToken: "two that differ", "short": "at least"} {
		o := Options{Listener: listenLoopback(t), Hosts: nil}
		defer o.Listener.Close()
		if _, err := newGuard(o.Listener.Addr(), nil, testToken, token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", token, err)
		}
	}
	g, err := newGuard(&net.TCPAddr{}, nil, testToken, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic " + testToken} {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if got := g.authenticateRequest(r); got != noAccess {
			t.Errorf("%q: access %d", header, got)
		}
	}
}

// withoutToken makes a server have a token that it makes itself.
func withoutToken(o *Options) { o.Token = "" }

func TestATokenIsMadeOnceAndFoundByTheLocalUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	data := t.TempDir()
	o := Options{Listener: listenLoopback(t), Data: data, Log: slog.New(slog.DiscardHandler)}
	defer o.Listener.Close()
	token, left, err := findOrMakeToken(&o)
	if err != nil || left == "" || len(token) < api.MinTokenChars {
		t.Fatalf("%q, %q, %v", token, left, err)
	}
	path := filepath.Join(data, api.TokenFile)
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), data); found != token || err != nil {
		t.Errorf("it is found as %q, %v", found, err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), ""); found != token || err != nil {
		t.Errorf("by the address alone it is found as %q, %v", found, err)
	}
	if err := os.WriteFile(left, []byte("of a server that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := findOrMakeToken(&o); again != token || err != nil {
		t.Errorf("the next time it is %q, %v", again, err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), ""); found != token || err != nil {
		t.Errorf("after a crash it is found as %q, %v", found, err)
	}
	for _, bad := range []string{"short", "with spaces in it, many", "ünprintable-enough"} {
		if _, _, err := findOrMakeToken(&Options{Token: bad, Listener: o.Listener}); err == nil {
			t.Errorf("%q is used", bad)
		}
	}
}

// Whatever has become of the file, the server starts, says so, and has a token.
func TestToken_AFileThatHasNoneOfUse_IsMadeAnewAndKeptAside(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"short":   func(path string) error { return os.WriteFile(path, []byte("abc\n"), 0o600) },
		"damaged": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{0, 0xff}, 20), 0o600) },
		"large": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("a"), maxTokenFileBytes+1), 0o600)
		},
		"a directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to nobody": func(path string) error { return os.Symlink(path+".none", path) },
		"unreadable":       func(path string) error { return os.WriteFile(path, []byte(testToken), 0) },
		"read by others": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(testToken), 0o600), os.Chmod(path, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(data, api.TokenFile)
			if err := spoil(path); err != nil {
				t.Skip(err)
			}
			if name == "unreadable" && os.Getuid() == 0 {
				t.Skip("root reads everything")
			}
			var said bytes.Buffer
			log := slog.New(slog.NewTextHandler(&said, nil))
			token, kept := loadOrMakeToken(path, log)
			if !kept || len(token) < api.MinTokenChars || token == testToken {
				t.Errorf("the token is %q, kept %v", token, kept)
			}
			if !strings.Contains(said.String(), path+unusableSuffix) || strings.Contains(said.String(), token) || strings.Contains(said.String(), testToken) {
				t.Errorf("it says %s", &said)
			}
			if _, err := os.Lstat(path + unusableSuffix); err != nil {
				t.Errorf("what was there is gone: %v", err)
			}
			said.Reset()
			if again, kept := loadOrMakeToken(path, log); again != token || !kept || said.Len() > 0 {
				t.Errorf("the next time it is %q, kept %v, and it says %s", again, kept, &said)
			}
		})
	}
}

func TestToken_WithoutAPlaceInTheData_IsLeftWithTheUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("LocalAppData", t.TempDir())
	var said bytes.Buffer
	o := Options{Listener: listenLoopback(t), Data: filepath.Join(t.TempDir(), "none"), Log: slog.New(slog.NewTextHandler(&said, nil))}
	defer o.Listener.Close()
	token, left, err := findOrMakeToken(&o)
	if err != nil || token == "" || left == "" || !strings.Contains(said.String(), "cannot be kept") {
		t.Errorf("%q, %q, %v: %s", token, left, err, &said)
	}
}

func TestAServerInMemoryLeavesItsTokenWithTheUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	l := startSmallServer(t, withoutToken)
	token, err := api.FindToken(l.addr, "")
	if err != nil || token == "" {
		t.Fatalf("%q, %v", token, err)
	}
	l.client.Token = token
	if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
		t.Error(err)
	}
	path := l.admin.tokenCopyPath
	if err := l.admin.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
}

// Without a place for the token clients are served, and nothing can be changed.
func TestAServerWithoutAPlaceForTheTokenCannotBeChanged(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the place is found in another way")
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	var said bytes.Buffer
	l := startSmallServer(t, withoutToken, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	if !strings.Contains(said.String(), "nothing can be changed over HTTP") {
		t.Errorf("it says %s", &said)
	}
	if _, err := l.client.Status(ctx); err != nil {
		t.Error(err)
	}
	if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("it says %v", err)
	}
}
