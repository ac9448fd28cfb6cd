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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

var ctx = context.Background()

const testToken = "a-token-of-the-tests"

// testServer is a server with operators.
type testServer struct {
	t         testing.TB
	db        *cleave.DB
	server    *server.Server
	admin     *Admin
	redisAddr string // the address for Redis clients
	addr      string
	dataDir   string
	// client has the token.
	client *api.Client
}

// startServer starts a server: in memory, or on disk if it is given a directory.
func startServer(t *testing.T, data string, change ...func(*Options)) *testServer {
	t.Helper()
	return startServerOn(t, openDB(t, data, cleave.Options{Stores: 2, Groups: 4, QueueLimit: 1 << 12, CacheBytes: 4 << 20, BlockCacheBytes: 1 << 20}), data, change...)
}

// startSmallServer starts a server that is there at once: in memory, with one store.
func startSmallServer(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	return startServerOn(t, openDB(t, "", cleave.Options{Groups: 2, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20}), "", change...)
}

// startFullServer starts a server as cleave serve does: on disk, with heat on and all figures.
func startFullServer(t *testing.T) *testServer {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	db, err := cleave.Open(data, cleave.Options{Groups: 4, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20, Durability: cleave.EverySec})
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, db, data)
}

// openDB opens a store, in memory if there is no directory.
func openDB(t *testing.T, dir string, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := smallstore.Open(dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func startServerOn(t testing.TB, db *cleave.DB, data string, change ...func(*Options)) *testServer {
	t.Helper()
	clients, operators := listenLoopback(t), listenLoopback(t)
	o := Options{DB: db, Listener: operators, Token: testToken, Data: data, Version: "test", Durability: "always"}
	if data != "" {
		o.Backups = filepath.Join(filepath.Dir(data), "backups")
	}
	for _, f := range change {
		f(&o)
	}
	s := server.New(db, server.Options{Fsync: "always", Memory: data == "", Version: "test", Observe: o.Tracer.Observer()})
	o.Server = s
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(clients) }()
	go func() { ended <- a.Serve() }()
	l := &testServer{t, db, s, a, clients.Addr().String(), o.Listener.Addr().String(), data, nil}
	l.client = &api.Client{Addr: l.addr, Token: o.Token, Actor: "tester", Timeout: time.Minute}
	t.Cleanup(func() {
		s.Close()
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-ended
		<-ended
		stopped := a.hasFailedStore()
		if err := db.Close(); err != nil && !stopped {
			t.Error(err)
		}
	})
	return l
}

func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// forMemoryAndDisk runs a test on a server in memory and on one on disk, side by side.
func forMemoryAndDisk(t *testing.T, test func(t *testing.T, l *testServer)) {
	for _, kind := range []string{"memory", "disk"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			data := ""
			if kind == "disk" {
				data = filepath.Join(t.TempDir(), "data")
			}
			test(t, startServer(t, data))
		})
	}
}

// writeKeys writes some keys.
func (l *testServer) writeKeys(n int) {
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

// sendRequest sends a request as it is, and returns the status and the body.
func (l *testServer) sendRequest(method, target, body string, header ...string) (int, string, http.Header) {
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

// authHeaders are the headers of a request that may act.
var authHeaders = []string{"Authorization", "Bearer " + testToken, "Content-Type", "application/json"}

// checkRefusal checks that an answer is an error of a code.
func checkRefusal(t *testing.T, what string, status int, body, code string, want int) {
	t.Helper()
	var f api.Failure
	if err := json.Unmarshal([]byte(body), &f); err != nil || f.Error.Code != code || status != want {
		t.Errorf("%s: status %d and %s, want %d and %s", what, status, body, want, code)
	}
}

// waitJobDone waits for a job and fails if it is not done.
func (l *testServer) waitJobDone(a api.Action, err error) api.Job {
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
	l.waitDriverEnded(j.ID)
	return j
}

// waitDriverEnded waits until nothing of a job goes on: its record is done a moment before the
// map that it has made is published.
func (l *testServer) waitDriverEnded(id string) {
	l.t.Helper()
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return // a backup has no driver
	}
	j, err := l.db.Job(ctx, cleave.JobID(n))
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := j.Wait(ctx); err != nil {
		l.t.Fatal(err)
	}
}
