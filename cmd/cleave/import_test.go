package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/ops/importer"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// startRedis starts a Redis and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	path, err := osexec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server to import from")
	}
	dir := t.TempDir()
	for range 5 { // a port that is free now may be taken a moment later
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		l.Close()
		cmd := osexec.Command(path, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{}) // at once if the port is taken
		go func() { _ = cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		c := newRedisClient(addr)
		defer c.Close()
		listens := false
		eventually.Holds(t, "redis-server listens or has ended", func() bool {
			listens = c.Ping(ctx).Err() == nil
			select {
			case <-ended:
				return true
			default:
				return listens
			}
		})
		if listens {
			return addr
		}
	}
	t.Fatal("redis-server does not listen")
	return ""
}

// fillRedis gives a Redis keys of every kind.
func fillRedis(t *testing.T, c *redis.Client, keys int) {
	t.Helper()
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(ctx, fmt.Sprint("s", i), fmt.Sprint("value ", i, "\x00\xff"), time.Duration(i%3)*time.Hour)
			if i%10 == 0 {
				p.HSet(ctx, fmt.Sprint("h", i), "a", i, "b\r\n", "x")
			}
		}
		for i := range 1000 {
			p.HSet(ctx, "large", fmt.Sprint("field", i), strings.Repeat("v", i))
		}
		p.Expire(ctx, "large", time.Hour)
		p.Set(ctx, "big", strings.Repeat("b", 9<<20), 0)
		p.Set(ctx, "empty", "", 0)
		p.RPush(ctx, "list", 1, 2)
		p.SAdd(ctx, "set", 1)
		p.ZAdd(ctx, "zset", redis.Z{Score: 1, Member: "m"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// copiedKey is what a server has of a key.
type copiedKey struct {
	absent bool
	text   string
	fields map[string]string
	ttl    time.Duration
}

// readContents reads strings and hashes of a server, some hundred at a time.
func readContents(t *testing.T, c *redis.Client, kinds map[string]string) map[string]copiedKey {
	t.Helper()
	all := map[string]copiedKey{}
	for names := range slices.Chunk(slices.Collect(maps.Keys(kinds)), 500) {
		var replies []redis.Cmder
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, k := range names {
				if kinds[k] == "hash" {
					replies = append(replies, p.HGetAll(ctx, k))
				} else {
					replies = append(replies, p.Get(ctx, k))
				}
				replies = append(replies, p.PTTL(ctx, k))
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) { // which is one that is not there
			t.Fatal(err)
		}
		for i, k := range names {
			v := copiedKey{ttl: replies[2*i+1].(*redis.DurationCmd).Val()}
			switch r := replies[2*i].(type) {
			case *redis.StringCmd:
				v.text, v.absent = r.Val(), r.Err() != nil
			case *redis.MapStringStringCmd:
				v.fields = r.Val()
			}
			all[k] = v
		}
	}
	return all
}

// compareKeys holds all strings and hashes of one against the other.
func compareKeys(t *testing.T, from, to *redis.Client) (compared int) {
	t.Helper()
	kinds := map[string]string{}
	for _, kind := range []string{"string", "hash"} {
		for it := from.ScanType(ctx, 0, "*", 1000, kind).Iterator(); it.Next(ctx); {
			kinds[it.Val()] = kind
		}
	}
	there := readContents(t, to, kinds)
	for k, a := range readContents(t, from, kinds) {
		b := there[k]
		same := a.absent == b.absent && a.text == b.text && maps.Equal(a.fields, b.fields)
		if !same || (a.ttl > 0) != (b.ttl > 0) || (a.ttl-b.ttl).Abs() > 10*time.Minute {
			t.Errorf("%q: equal %v, lives for %v and %v", k, same, a.ttl, b.ttl)
		}
	}
	return len(kinds)
}

// stallingProxy forwards connections to an address, and holds them up from a moment on until it is
// opened.
type stallingProxy struct {
	addr    string
	opened  chan struct{}
	stalled chan struct{}
	once    sync.Once
}

func newStallingProxy(t *testing.T, to string, hold func() bool) *stallingProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &stallingProxy{addr: l.Addr().String(), opened: make(chan struct{}), stalled: make(chan struct{})}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(in, out); in.Close() }()
			go func() {
				defer out.Close()
				for b := make([]byte, 4096); ; {
					n, err := in.Read(b)
					if hold() {
						g.once.Do(func() { close(g.stalled) })
						<-g.opened
					}
					if _, failed := out.Write(b[:n]); err != nil || failed != nil {
						return
					}
				}
			}()
		}
	}()
	return g
}

// runBinary runs the binary in a directory and returns what a shell would see.
func runBinary(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut strings.Builder
	cmd := osexec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestAnImportThatIsInterruptedGoesOnAndBringsEverything(t *testing.T) {
	const keys = 6000
	from := startRedis(t)
	source := newRedisClient(from)
	defer source.Close()
	fillRedis(t, source, keys)
	p := startServer(t, "--storage", "memory", "--groups", "3")
	target := newRedisClient(p.addr)
	defer target.Close()
	dir := t.TempDir()
	state := filepath.Join(dir, "cleave-import-"+regexp.MustCompile(`[:/]`).ReplaceAllString(from, "-")+"-0.json")
	// The first page is acknowledged and written down; then nothing gets through.
	g := newStallingProxy(t, p.addr, func() bool { _, err := os.Stat(state); return err == nil })
	to := g.addr
	if testing.Short() {
		to = "redis://" + g.addr + "?read_timeout=5s" // what the interrupted one waits for
	}
	args := []string{"import", "redis://" + from, "--to", to, "-o", "json"}

	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	first := osexec.Command(path, args...)
	var errOut syncBuffer
	first.Dir, first.Stderr = dir, &errOut
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	select {
	case <-g.stalled:
	case err := <-ended:
		t.Fatalf("it has ended before it was interrupted: %v: %s", err, errOut.String())
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; first.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(errOut.String(), "interrupted after ") || !strings.Contains(errOut.String(), "again to go on") {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	if n := target.DBSize(ctx).Val(); n == 0 || n >= keys {
		t.Fatalf("there are %d keys in the middle", n)
	}
	close(g.opened)

	code, stdout, stderr := runBinary(t, dir, args...)
	var r importer.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitFailed { // three types are left out
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	if n := compareKeys(t, source, target); n != keys+keys/10+3 {
		t.Errorf("compared %d keys", n)
	}
	if !r.Resumed || !r.Complete || r.Keys != r.Total || r.Strings != keys+2 || r.Hashes != keys/10+1 || r.Skipped["list"] != 1 || r.Skipped["set"] != 1 || r.Skipped["zset"] != 1 {
		t.Errorf("the report is %+v", r)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state is still there")
	}
}

func TestImportSaysWhatItWouldDoAndAsksBeforeItReplaces(t *testing.T) {
	from := startRedis(t)
	source := newRedisClient(from)
	defer source.Close()
	source.MSet(ctx, "a", 1, "user:1", 2, strings.Repeat("k", 20_000), "too long")
	source.RPush(ctx, "list", 1)
	p := startServer(t, "--storage", "memory", "--requirepass", "secret")
	target := redis.NewClient(&redis.Options{Addr: p.addr, Password: "secret", ReadTimeout: time.Minute})
	defer target.Close()
	dir, to := t.TempDir(), "redis://:secret@"+p.addr
	code, stdout, _ := runBinary(t, dir, "import", "redis://"+from, "--to", to, "--dry-run")
	if want := "would copy 2 strings and 0 hashes\nwould leave out 1 key of type list, which is not served: list\n" +
		"would leave out 1 key with a name over 16.0 KiB: " + strings.Repeat("k", 60) + "…\n"; code != exitOK || stdout != want || target.DBSize(ctx).Val() != 0 {
		t.Errorf("exit %d, %q, %d keys", code, stdout, target.DBSize(ctx).Val())
	}
	code, stdout, stderr := runBinary(t, dir, "import", "redis://"+from, "--to", to, "--match", "user:*")
	if code != exitOK || !strings.HasPrefix(stdout, "copied 1 string and 0 hashes,") || target.DBSize(ctx).Val() != 1 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	code, _, stderr = runBinary(t, dir, "import", "redis://"+from, "--to", to, "--keyspace", "none")
	if code != exitFailed || !strings.Contains(stderr, "no such keyspace") {
		t.Errorf("a keyspace that is not there: exit %d, %q", code, stderr)
	}
	code, _, stderr = runBinary(t, dir, "import", "redis://"+from, "--to", to)
	if code != exitUsage || !strings.Contains(stderr, "say --yes") || target.DBSize(ctx).Val() != 1 {
		t.Errorf("without --yes: exit %d, %q", code, stderr)
	}
	code, _, stderr = runBinary(t, dir, "import", "redis://127.0.0.1:1", "--to", to)
	if code != exitUnreachable || !strings.Contains(stderr, "source 127.0.0.1:1/0: it does not answer") {
		t.Errorf("without a source: exit %d, %q", code, stderr)
	}
	code, stdout, stderr = runBinary(t, dir, "import", "redis://"+from, "--to", to, "--yes")
	if code != exitFailed || !strings.Contains(stdout, "left out 1 key with a name over 16.0 KiB: kkk") || !strings.Contains(stderr, "2 keys left out\n") || target.Get(ctx, "a").Val() != "1" {
		t.Errorf("a key that is too long: exit %d, %q, %q", code, stdout, stderr)
	}
}

// What cannot be copied does not hold up what can, and is reported by reason and name.
func TestImport_KeysThatCannotBeCopied_AreNamedAndTheOthersGoOn(t *testing.T) {
	from := startRedis(t)
	source := newRedisClient(from)
	defer source.Close()
	large := strings.Repeat("x", 64<<20+1)
	_, err := source.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "large\x1b[31m\n", large, 0)
		p.HSet(ctx, "small", "field", large)
		p.HSet(ctx, "long field", strings.Repeat("f", 16<<10+1), "v")
		for i := range 500 { // it is read in pieces, of which some are copied before the large one is met
			p.HSet(ctx, "many", fmt.Sprint("field", i), "v")
		}
		p.HSet(ctx, "many", "large", large)
		p.PFAdd(ctx, "visitors", 1, 2, 3)
		p.Set(ctx, "HYLL", "HYLL is the name of a magic", 0)
		p.RPush(ctx, "list", 1)
		for i := range 100 {
			p.Set(ctx, fmt.Sprint("key", i), "v", 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := startServer(t, "--storage", "memory")
	target := newRedisClient(p.addr)
	defer target.Close()
	dir := t.TempDir()
	want := []string{
		"1 key of type hyperloglog, which is not served: visitors", "1 key of type list, which is not served: list",
		`1 key with a value over 64.0 MiB: large\x1b[31m\x0a`, "2 keys with a field's value over 64.0 MiB: ", "1 key with a field's name over 16.0 KiB: long field",
	}
	code, stdout, stderr := runBinary(t, dir, "import", from, "--to", p.addr, "--dry-run")
	if code != exitOK || !strings.HasPrefix(stdout, "would copy 101 strings and 3 hashes\n") || strings.Count(stdout, "\n") != 4 { // fields are not looked at
		t.Errorf("dry run: exit %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = runBinary(t, dir, "import", from, "--to", p.addr)
	if code != exitFailed || !strings.HasPrefix(stdout, "copied 101 strings and 0 hashes, ") || !strings.HasSuffix(stderr, "not all was copied: 6 keys left out\n") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	for _, line := range want {
		if !strings.Contains(stdout, "left out "+line) {
			t.Errorf("it does not say %q:\n%s", line, stdout)
		}
	}
	if n := target.DBSize(ctx).Val(); n != 101 || target.Get(ctx, "HYLL").Err() != nil {
		t.Errorf("%d keys were copied", n)
	}
	code, stdout, _ = runBinary(t, dir, "import", from, "--to", p.addr, "--yes", "-o", "json")
	var r importer.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitFailed || r.Failed != 4 || len(r.Failures) != 4 || r.Skipped["hyperloglog"] != 1 || r.CountLeftOut() != 6 {
		t.Errorf("exit %d, %v, %s", code, err, stdout)
	}
}

// The cursors of a source that was started anew do not hold, and a target that was may have
// lost what it had acknowledged.
func TestAnImportBeginsAnewWhenOneOfBothWasStartedAnew(t *testing.T) {
	from := startRedis(t)
	source := newRedisClient(from)
	defer source.Close()
	fillRedis(t, source, 1000)
	for _, anew := range []string{"source", "target"} {
		t.Run(anew, func(t *testing.T) {
			p := startServer(t, "--storage", "memory")
			target := newRedisClient(p.addr)
			defer target.Close()
			runs := map[string]string{"source": fetchRunID(t, source), "target": fetchRunID(t, target)}
			runs[anew] = "of another life"
			state := writeTempFile(t, "s.json", fmt.Sprintf(`{"source": "%s/0", "target": "%s/0", "match": "*", "run_id": %q, "target_run_id": %q, "cursor": "7"}`,
				from, p.addr, runs["source"], runs["target"]))
			code, stdout, stderr := runBinary(t, t.TempDir(), "import", "redis://"+from, "--to", p.addr, "--state", state)
			if n := compareKeys(t, source, target); code != exitFailed || n != 1000+100+3 {
				t.Errorf("exit %d, %d compared, %s%s", code, n, stdout, stderr)
			}
		})
	}
}

// fetchRunID returns the run_id of a server.
func fetchRunID(t *testing.T, c *redis.Client) string {
	t.Helper()
	_, rest, _ := strings.Cut(c.Info(ctx, "server").Val(), "run_id:")
	id, _, ok := strings.Cut(rest, "\r\n")
	if !ok {
		t.Fatal("it does not tell its run_id")
	}
	return id
}

func TestImportRefusesWhatItCannotDo(t *testing.T) {
	other := writeTempFile(t, "s.json", `{"source": "elsewhere/0", "target": "x", "match": "*"}`)
	junk := writeTempFile(t, "j.json", "{")
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"import":                    {exitUsage, "import needs the address of a Redis"},
		"import a b":                {exitUsage, "takes one"},
		"import somewhere":          {exitUsage, "want host:port or redis://"},
		"import http://:secret@h:1": {exitUsage, "want redis://[user:password@]host:port[/db]"},
		"import redis://h:99999":    {exitUsage, "the port \"99999\" is none"},
		"import redis://h:1 --to 127.0.0.1:99999":           {exitUsage, "--to: the port \"99999\" is none"},
		"import redis://h:1 --to nowhere":                   {exitUsage, "--to: "},
		"import redis://127.0.0.1:1 --dry-run":              {exitUnreachable, "source 127.0.0.1:1/0: it does not answer"},
		"import redis://127.0.0.1:1 --to 127.0.0.1:1":       {exitUsage, "127.0.0.1:1/0 is the source and the target"},
		"import redis://127.0.0.1:1 --to 127.0.0.1:2":       {exitUnreachable, "target 127.0.0.1:2/0: it does not answer"},
		"import redis://127.0.0.1:1 --to 127.0.0.1:2 --yes": {exitUnreachable, "source 127.0.0.1:1/0: it does not answer"},
		"import redis://127.0.0.1:1 --yes --state " + other: {exitUsage, "is of another import"},
		"import redis://127.0.0.1:1 --yes --state " + junk:  {exitUsage, "is not the state of an import"},
		"import redis://127.0.0.1:1 --dry-run --output=xml": {exitUsage, "want table, json or jsonl"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel() // some wait for a server that does not answer
			code, _, stderr := runBinary(t, t.TempDir(), strings.Fields(args)...)
			if code != want.code || !strings.Contains(stderr, want.text) || strings.Contains(stderr, "secret") {
				t.Errorf("cleave %s: exit %d, %q", args, code, stderr)
			}
		})
	}
}
