package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTestClient returns a client of a server that answers in one way.
func newTestClient(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return &Client{Addr: s.Listener.Addr().String(), Token: "a token of some length"}
}

func TestTheClientTellsWhyThereIsNoAnswer(t *testing.T) {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // no listener is left at the address
	if _, err := (&Client{Addr: l.Addr().String()}).Status(ctx); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody listens: %v", err)
	}
	stop := make(chan struct{})
	defer close(stop)
	slow := newTestClient(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	slow.Timeout = 50 * time.Millisecond
	if _, err := slow.Status(ctx); !errors.Is(err, ErrTimeout) {
		t.Errorf("no answer in time: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := slow.Status(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"verdict":`)
	})
	if _, err := broken.Status(ctx); !errors.Is(err, ErrBroken) {
		t.Errorf("half an answer: %v", err)
	}
	for _, text := range []string{"<html>", `{"error":"no"}`} {
		foreign := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusTeapot) })
		if _, err := foreign.Status(ctx); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "418") {
			t.Errorf("something else: %v", err)
		}
	}
	refusing := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"error":{"code":"busy","message":"job 3 is at work there","hint":"wait for it"}}`)
	})
	_, err = refusing.Post(ctx, PathMerge, Merge{1, 2}, false)
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusConflict || !errors.Is(err, &Error{Code: CodeBusy}) || err.Error() != "job 3 is at work there: wait for it" {
		t.Errorf("refused: %v", err)
	}
}

func TestTheTokenGoesToTheServerAlone(t *testing.T) {
	var seen []string
	other := newTestClient(t, func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Get("Authorization")) })
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+other.Addr+"/", http.StatusTemporaryRedirect)
	})
	if _, err := c.Status(context.Background()); !errors.Is(err, ErrForeign) {
		t.Errorf("a redirect: %v", err)
	}
	if len(seen) > 0 {
		t.Errorf("the other server was asked with %q", seen)
	}
	for _, addr := range []string{"ftp://x", "http://x/path", "http://u:p@x", "http://", "a b:1"} {
		if _, err := (&Client{Addr: addr}).Status(context.Background()); err == nil || !strings.Contains(err.Error(), "want host:port") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestListsAreReadToTheirEnd(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get(QueryAfter) {
		case "":
			io.WriteString(w, `{"items":[{"id":1},{"id":2}],"next":"2"}`)
		case "2":
			io.WriteString(w, `{"items":[{"id":3}]}`)
		}
	})
	if g, err := c.Groups(context.Background()); err != nil || len(g) != 3 || g[2].ID != 3 {
		t.Errorf("%v, %v", g, err)
	}
}

func TestWhereATokenIsFound(t *testing.T) {
	t.Setenv(EnvToken, "")
	t.Setenv(EnvTokenFile, "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	data := t.TempDir()
	find := func(want string) {
		t.Helper()
		if got, err := FindToken("127.0.0.1:7380", data); got != want || err != nil {
			t.Errorf("it is %q, %v, not %q", got, err, want)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	find("")
	write(filepath.Join(data, TokenFile), "of the data\n")
	find("of the data")
	path, err := TokenPath("127.0.0.1:7380")
	if err != nil {
		t.Fatal(err)
	}
	write(path, "of the address\n")
	find("of the address")
	for _, name := range []string{"localhost:7380", "http://127.0.0.1:7380", "[::1]:7380"} {
		if got, err := FindToken(name, data); got != "of the address" || err != nil {
			t.Errorf("by %s it is %q, %v", name, got, err)
		}
	}
	if got, err := FindToken("10.0.0.1:7380", ""); got != "" || err != nil {
		t.Errorf("of another machine it is %q, %v", got, err)
	}
	write(filepath.Join(data, "mine"), "of a file\n")
	t.Setenv(EnvTokenFile, filepath.Join(data, "mine"))
	find("of a file")
	t.Setenv(EnvToken, "of the environment")
	find("of the environment")
	t.Setenv(EnvToken, "")
	t.Setenv(EnvTokenFile, filepath.Join(data, "none"))
	if _, err := FindToken("127.0.0.1:7380", data); err == nil {
		t.Error("a file that is named and not there is no error")
	}
}
