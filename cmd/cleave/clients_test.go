package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	osexec "os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// What rueidis has in its cache goes when another client writes it, and only then.
func TestTheCacheOfRueidisHearsOfWrites(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "4")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other := newRedisClient(p.addr)
	defer other.Close()
	read := func(key string) (string, bool) {
		t.Helper()
		r := c.DoCache(ctx, c.B().Get().Key(key).Cache(), time.Hour)
		v, err := r.ToString()
		if err != nil {
			t.Fatal(err)
		}
		return v, r.IsCacheHit()
	}
	for _, key := range []string{"a", "b"} {
		if err := other.Set(ctx, key, "old", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if v, hit := read(key); v != "old" || hit {
			t.Fatalf("at first %s is %q, from the cache: %v", key, v, hit)
		}
		// The client may be notified of that write after it has read it, and then reads once more.
		eventually.Holds(t, key+" from the cache", func() bool { v, hit := read(key); return v == "old" && hit })
	}
	if err := other.Set(ctx, "a", "new", 0).Err(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the new value of a", func() bool { v, _ := read("a"); return v == "new" })
	// The client is notified of writes in their order: after this there is no more to come about b.
	read("b")
	if v, hit := read("b"); v != "old" || !hit {
		t.Errorf("nobody has written b: it is %q, from the cache: %v", v, hit)
	}
	if err := other.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "an empty store", func() bool {
		return rueidis.IsRedisNil(c.DoCache(ctx, c.B().Get().Key("b").Cache(), time.Hour).Error())
	})
}

// A store in memory that has no room says so, and goes on to read and to delete.
func TestAServerInMemoryHasALimit(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--maxmemory", "64mb")
	c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: time.Minute})
	defer c.Close()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "k", "w", 0).Err(); err == nil || err.Error() != "OOM command not allowed when used memory > 'maxmemory'." {
		t.Errorf("SET: %v", err)
	}
	if v, err := c.Get(ctx, "k").Result(); v != "v" || err != nil {
		t.Errorf("GET: %q, %v", v, err)
	}
	if n, err := c.Del(ctx, "k").Result(); n != 1 || err != nil {
		t.Errorf("DEL: %d, %v", n, err)
	}
}

// Users survive a kill, and no client is served without them.
func TestUsersOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", dir)
	c := newRedisClient(p.addr)
	if err := c.Do(ctx, "acl", "setuser", "default", "resetpass", ">secret").Err(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	_ = p.stopWith(syscall.SIGKILL)
	p = startServer(t, "--data", dir)
	for password, ok := range map[string]bool{"": false, "wrong": false, "secret": true} {
		c := redis.NewClient(&redis.Options{Addr: p.addr, Password: password, MaxRetries: -1, ReadTimeout: time.Minute})
		if err := c.Ping(ctx).Err(); (err == nil) != ok {
			t.Errorf("with password %q: %v", password, err)
		}
		c.Close()
	}
}

// redisTool returns a command of Redis' own tools that talks to a server.
func redisTool(t *testing.T, p *serverProcess, name string, args ...string) *osexec.Cmd {
	t.Helper()
	path, err := osexec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here: scripts/deps installs it", name)
	}
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	return osexec.Command(path, append([]string{"-p", port}, args...)...)
}

func TestRedisCliWorksWithTheServer(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "4")
	for _, c := range []struct {
		args, stdin, want string
	}{
		{args: "set greeting hello", want: "OK\n"},
		{args: "get greeting", want: "hello\n"},
		{args: "get nothing", want: "\n"},
		{args: "incr greeting", want: "ERR value is not an integer or out of range"},
		{args: "-3 hset h f1 v1 f2 v2", want: "2\n"},
		{args: "-3 --json hgetall h", want: `{"f1":"v1","f2":"v2"}`},
		{args: "-x set document", stdin: "two\nlines", want: "OK\n"},
		{args: "strlen document", want: "9\n"},
		{stdin: "multi\nset {x}a 1\nincr {y}b\nexec\n", want: "OK\nQUEUED\nQUEUED\nOK\n1\n"},
		{args: "--pipe", stdin: "SET p1 one\r\nSET p2 two\r\n*3\r\n$3\r\nSET\r\n$2\r\np3\r\n$5\r\nthree\r\n", want: "errors: 0, replies: 3"},
		{args: "mget p1 p2 p3", want: "one\ntwo\nthree\n"},
		{args: "--scan --pattern p?", want: "p2\n"},
		{args: "--bigkeys", want: "Biggest   hash found '\"h\"' has 2 fields"},
		{args: "--memkeys", want: "1 hashs with "},
		{args: "-c get p1", want: "one\n"},
		{args: "info server", want: "redis_version:7."},
		{args: "command docs get", want: "Returns the string value of a key."},
		{args: "-n 1 get greeting", want: "DB index is out of range"},
		{args: "--cluster check " + p.addr, want: "is not configured as a cluster node"},
	} {
		cmd := redisTool(t, p, "redis-cli", strings.Fields(c.args)...)
		if strings.HasPrefix(c.args, "--cluster") {
			cmd.Args = append(cmd.Args[:1], strings.Fields(c.args)...)
		}
		cmd.Stdin = strings.NewReader(c.stdin)
		out, _ := cmd.CombinedOutput() // how it ends differs between versions
		if !strings.Contains(string(out), c.want) || strings.Contains(string(out), "Warning") {
			t.Errorf("redis-cli %s: %s: %s", c.args, out, p.stderrText.String())
		}
	}
}

// Forms of redis-cli that go on until they are ended say something soon.
func TestRedisCliWatchesTheServer(t *testing.T) {
	p := startServer(t, "--storage", "memory")
	for args, want := range map[string]string{
		"--latency -i 0.1 --raw": " ",          // one line of figures, as it is not a terminal
		"-r 3 -i 0.01 ping":      "PONG\nPONG", // thrice
		"-r 1 info clients":      "connected_clients:1",
	} {
		if out, err := redisTool(t, p, "redis-cli", strings.Fields(args)...).CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("redis-cli %s: %s, %v", args, out, err)
		}
	}
	cmd := redisTool(t, p, "redis-cli", "--stat", "-i", "0.05")
	out := new(lineCounter)
	cmd.Stdout = out
	cmd.Env = append(cmd.Environ(), "TERM=dumb")
	if stdbuf, err := osexec.LookPath("stdbuf"); err == nil { // it would keep its lines to itself
		cmd.Path, cmd.Args = stdbuf, append([]string{stdbuf, "-oL"}, cmd.Args...)
	} else {
		t.Skip("there is no stdbuf here")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a line of redis-cli --stat", func() bool { return out.countLines() > 2 })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestRedisBenchmarkWorksWithTheServer(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "4")
	const n = 1000
	for _, c := range []struct {
		tests, keys string
		want        []string
	}{
		{"ping,set,get,incr,hset", "100", []string{"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET"}},
		{"mset", "100000", []string{"MSET (10 keys)"}},
	} {
		out, err := redisTool(t, p, "redis-benchmark", "-t", c.tests, "-r", c.keys, "-P", "16", "-c", "50", "-n", strconv.Itoa(n), "--csv").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, test := range c.want {
			if !strings.Contains(string(out), fmt.Sprintf("\n%q,", test)) {
				t.Errorf("no figures of %s: %s", test, out)
			}
		}
		if strings.Contains(string(out), "rror") {
			t.Errorf("it was refused something: %s", out)
		}
	}
	c := newRedisClient(p.addr)
	defer c.Close()
	sum := int64(0)
	for i := range 100 {
		got, err := c.Get(ctx, fmt.Sprintf("counter:%012d", i)).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		sum += got
	}
	if sum < n {
		t.Errorf("INCR was answered %d times, and the counters make %d", n, sum)
	}
}

// Ten thousand connections that say nothing take little memory, and others are served.
func TestTenThousandIdleConnections(t *testing.T) {
	const n = 10_000
	p := startServer(t, "--storage", "memory", "--maxclients", strconv.Itoa(n+100))
	c := newRedisClient(p.addr)
	defer c.Close()
	heap := func() int {
		m := regexp.MustCompile(`heap_bytes:(\d+)`).FindStringSubmatch(c.Info(ctx, "memory").Val())
		if m == nil {
			t.Fatal("INFO memory does not tell heap_bytes")
		}
		bytes, _ := strconv.Atoi(m[1])
		return bytes
	}
	before := heap()
	idle := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	for range n {
		conn, err := net.Dial("tcp", p.addr)
		if errors.Is(err, syscall.EMFILE) {
			t.Skipf("this machine lets a process have %d connections, not %d", len(idle), n)
		}
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	eventually.Holds(t, "all of them are there", func() bool {
		m := regexp.MustCompile(`connected_clients:(\d+)`).FindStringSubmatch(c.Info(ctx, "clients").Val())
		there, _ := strconv.Atoi(m[1])
		return there > n
	})
	// What is garbage counts too, so that this is a bound and not the figure.
	if each := (heap() - before) / n; each > 32<<10 {
		t.Errorf("an idle connection takes %d bytes", each)
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		reply := make([]byte, 7)
		if _, err := idle[i].Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := idle[i].Read(reply); err != nil || string(reply) != "+PONG\r\n" {
			t.Errorf("connection %d: %q, %v", i, reply, err)
		}
	}
}

// lineCounter counts the lines that a program has written so far.
type lineCounter struct {
	mu sync.Mutex
	n  int
}

// Write implements [io.Writer].
func (l *lineCounter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

func (l *lineCounter) countLines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
