package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/serve"
)

var ctx = context.Background()

const testToken = "a-token-of-the-tests"

// lab is a server with operators.
type lab struct {
	t     *testing.T
	db    *cleave.DB
	serve *serve.Server
	admin *Admin
	redis string // the address for Redis clients
	addr  string
	data  string
	// client has the token.
	client *api.Client
}

// start starts a server: in memory, or on disk if it is given a directory.
func start(t *testing.T, data string, change ...func(*Options)) *lab {
	t.Helper()
	return startOn(t, open(t, data, cleave.Options{Stores: 2, Groups: 4, Queue: 1 << 12, CacheBytes: 4 << 20, BlockCacheBytes: 1 << 20}), data, change...)
}

// small starts a server that is there at once: in memory, with one store.
func small(t *testing.T, change ...func(*Options)) *lab {
	t.Helper()
	return startOn(t, open(t, "", cleave.Options{Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}), "", change...)
}

// open opens a store, in memory if there is no directory.
func open(t *testing.T, dir string, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := inside.OpenSmall(dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db.(*cleave.DB)
}

func startOn(t *testing.T, db *cleave.DB, data string, change ...func(*Options)) *lab {
	t.Helper()
	clients, operators := listen(t), listen(t)
	o := Options{DB: db, Listener: operators, Token: testToken, Data: data, Version: "test", Durability: "always"}
	if data != "" {
		o.Backups = filepath.Join(filepath.Dir(data), "backups")
	}
	for _, f := range change {
		f(&o)
	}
	s := serve.New(db, serve.Options{Fsync: "always", Memory: data == "", Version: "test", Observe: o.Spans.Observer()})
	o.Server = s
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(clients) }()
	go func() { ended <- a.Serve() }()
	l := &lab{t, db, s, a, clients.Addr().String(), o.Listener.Addr().String(), data, nil}
	l.client = &api.Client{Addr: l.addr, Token: o.Token, Actor: "tester", Timeout: time.Minute}
	t.Cleanup(func() {
		s.Close()
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-ended
		<-ended
		stopped := a.stopped()
		if err := db.Close(); err != nil && !stopped {
			t.Error(err)
		}
	})
	return l
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// both runs a test on a server in memory and on one on disk, side by side.
func both(t *testing.T, test func(t *testing.T, l *lab)) {
	for _, kind := range []string{"memory", "disk"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			data := ""
			if kind == "disk" {
				data = filepath.Join(t.TempDir(), "data")
			}
			test(t, start(t, data))
		})
	}
}

// fill writes some keys.
func (l *lab) fill(n int) {
	l.t.Helper()
	k := l.db.Default()
	for from := 0; from < n; from += 1000 {
		var b cleave.Batch
		for i := from; i < min(n, from+1000); i++ {
			b.Set(k, fmt.Appendf(nil, "key%d", i), bytes.Repeat([]byte("v"), 50))
		}
		if err := l.db.Write(ctx, &b); err != nil {
			l.t.Fatal(err)
		}
	}
}

// ask sends a request as it is, and returns the status and the body.
func (l *lab) ask(method, target, body string, header ...string) (int, string, http.Header) {
	l.t.Helper()
	req, err := http.NewRequest(method, "http://"+l.addr+target, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// signed are the headers of a request that may act.
var signed = []string{"Authorization", "Bearer " + testToken, "Content-Type", "application/json"}

// refusal checks that an answer is an error of a code.
func refusal(t *testing.T, what string, status int, body, code string, want int) {
	t.Helper()
	var f api.Failure
	if err := json.Unmarshal([]byte(body), &f); err != nil || f.Error.Code != code || status != want {
		t.Errorf("%s: status %d and %s, want %d and %s", what, status, body, want, code)
	}
}

// done waits for a job and fails if it is not done.
func (l *lab) done(a api.Action, err error) api.Job {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	if a.Job == nil {
		l.t.Fatalf("%s: no job", a.Plan.Summary)
	}
	j, err := l.client.WaitJob(ctx, a.Job.ID, 5*time.Millisecond, nil)
	if err != nil || j.State != api.JobDone {
		l.t.Fatalf("%s: %+v, %v", a.Plan.Summary, j, err)
	}
	return j
}
