package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
)

var ctx = context.Background()

// binary builds the program once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cleave-serve")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cleave")
	out, err := osexec.Command("go", "build", "-race", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// process is a server that runs.
type process struct {
	*osexec.Cmd
	addr  string
	http  string // for operators, empty if there is none
	plain said   // on stderr
}

// said is what a process says while it runs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// client is one that waits for a busy machine.
func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// serving starts a server and waits until it is ready.
func serving(t *testing.T, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM here")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // of the tokens of servers in memory
	p := &process{Cmd: osexec.Command(path, append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)...)}
	p.Stderr = &p.plain
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	port := regexp.MustCompile(`redis-cli -p (\d+)`).FindStringSubmatch(line)
	if err != nil || port == nil {
		t.Fatalf("it says %q and %s, %v", line, p.plain.String(), err)
	}
	p.addr = "127.0.0.1:" + port[1]
	if at := regexp.MustCompile(`http://([^ )]+)`).FindStringSubmatch(line); at != nil {
		p.http = at[1]
	}
	return p
}

// end sends a signal and waits.
func (p *process) end(s syscall.Signal) error {
	_ = p.Process.Signal(s)
	return p.Wait()
}

func TestClientsOfGoRedisWorkWithTheServer(t *testing.T) {
	p := serving(t, "--storage", "memory", "--groups", "4")
	plain := client(p.addr)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{p.addr}, ReadTimeout: time.Minute})
	for name, c := range map[string]redis.UniversalClient{"plain": plain, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			defer c.Close()
			if err := c.Set(ctx, "k", "v", time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			if v, err := c.Get(ctx, "k").Result(); v != "v" || err != nil {
				t.Errorf("GET: %q, %v", v, err)
			}
			if _, err := c.Get(ctx, "none").Result(); !errors.Is(err, redis.Nil) {
				t.Errorf("GET of nothing: %v", err)
			}
			if err := c.HSet(ctx, "h", "a", 1, "b", 2).Err(); err != nil {
				t.Error(err)
			}
			if m, err := c.HGetAll(ctx, "h").Result(); len(m) != 2 || err != nil {
				t.Errorf("HGETALL: %v, %v", m, err)
			}
			_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "{t}n")
				p.IncrBy(ctx, "{t}m", 5)
				return nil
			})
			if err != nil {
				t.Errorf("MULTI: %v", err)
			}
			err = c.Watch(ctx, func(tx *redis.Tx) error {
				if err := c.Incr(ctx, "{t}n").Err(); err != nil {
					return err
				}
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "{t}n", 0, 0).Err() })
				return err
			}, "{t}n")
			if !errors.Is(err, redis.TxFailedErr) {
				t.Errorf("a WATCH that must fail: %v", err)
			}
			sub := c.Subscribe(ctx, "news")
			defer sub.Close()
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Publish(ctx, "news", "hello").Result(); n != 1 || err != nil {
				t.Errorf("PUBLISH: %d, %v", n, err)
			}
			if m := <-sub.Channel(); m.Payload != "hello" {
				t.Errorf("the message is %q", m.Payload)
			}
		})
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.plain.String())
	}
}

func TestAClientEndsTheServerAndNothingIsLost(t *testing.T) {
	dir := t.TempDir()
	p := serving(t, "--data", dir)
	// Others would try again to end what has ended.
	c := redis.NewClient(&redis.Options{Addr: p.addr, ReadTimeout: time.Minute, MaxRetries: -1})
	if got := c.ConfigGet(ctx, "dir").Val()["dir"]; got != dir {
		t.Errorf("the data is in %s, it says %s", dir, got)
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(ctx).Err(); err != nil {
		t.Errorf("SHUTDOWN: %v", err)
	}
	c.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, p.plain.String())
	}
	again := client(serving(t, "--data", dir).addr)
	defer again.Close()
	if v, err := again.Get(ctx, "k").Result(); v != "v" || err != nil {
		t.Errorf("then the key holds %q, %v", v, err)
	}
}

// What was acknowledged is there after kill -9, at always and at everysec.
func TestNothingAcknowledgedIsLostWhenTheServerIsKilled(t *testing.T) {
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			dir := t.TempDir()
			const clients, kills, writes = 4, 2, 100
			var acked [clients]atomic.Int64
			for life := range kills + 1 {
				p := serving(t, "--data", dir, "--appendfsync", fsync, "--groups", "3")
				check := client(p.addr)
				for w := range clients {
					n, err := check.Get(ctx, fmt.Sprint("last", w)).Int64()
					if err != nil && !errors.Is(err, redis.Nil) {
						t.Fatal(err)
					}
					if n < acked[w].Load() {
						t.Errorf("life %d: client %d had %d acknowledged, and there are %d", life, w, acked[w].Load(), n)
					}
				}
				check.Close()
				if life == kills {
					break
				}
				var wg, busy sync.WaitGroup // busy until all have written some
				busy.Add(clients)
				for w := range clients {
					wg.Go(func() {
						written := 0
						defer func() {
							if written < writes {
								t.Errorf("life %d: client %d has written %d times", life, w, written)
								busy.Done()
							}
						}()
						c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: time.Minute})
						defer c.Close()
						for {
							n, err := c.Incr(ctx, fmt.Sprint("last", w)).Result()
							if err != nil {
								return
							}
							acked[w].Store(n)
							if written++; written == writes {
								busy.Done()
							}
						}
					})
				}
				busy.Wait()
				_ = p.end(syscall.SIGKILL)
				wg.Wait()
			}
		})
	}
}

func TestServeSaysWhatTheDirectoryHas(t *testing.T) {
	dir := t.TempDir()
	db, err := cleave.Open(dir, cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--groups 3": "cleave: there are 4 groups, not 3: change that with cleave group resize while it is served, and start it with --groups 0 or 4\n",
		"--stores 3": "cleave: " + dir + " has 2 stores, not 3: start it with --stores 0 or 2\n",
	} {
		code, _, stderr := exec(append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "none", "--data", dir}, strings.Fields(args)...)...)
		if code != exitFailed || stderr != want {
			t.Errorf("%s: exit %d, %q, want %q", args, code, stderr, want)
		}
	}
}

func TestServeWarnsOfAVariableThatIsMisspelt(t *testing.T) {
	for _, name := range []string{"CLEAVE_DAAT", "CLEAVE_SEED", "CLEAVE_PLANT", "CLEAVE_WRITE", "CLEAVE_SOAK", "CLEAVE_HTTP_TOKEN"} {
		t.Setenv(name, "value")
	}
	_, _, stderr := exec("serve", "--tls-port", "6380") // which ends at once: there is no certificate
	warnings, _, _ := strings.Cut(stderr, "cleave: --tls-port")
	if want := "cleave: CLEAVE_DAAT: nobody reads this variable: did you mean CLEAVE_DATA?\n"; warnings != want {
		t.Errorf("it says %q, want %q", warnings, want)
	}
}

func TestServeSaysWhatIsWrongWithItsFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--storage tape":                         `--storage "tape": want disk or memory`,
		"--appendfsync sometimes":                `--appendfsync "sometimes": want always, everysec or no`,
		"--resp-addr 127.0.0.1:x":                `--resp-addr "127.0.0.1:x": the port "x" is none: want 0 to 65535`,
		"--storage memory --groups -1":           `--groups "-1": want a whole number from 0 to 1024`,
		"--storage memory --stores 2 --groups 1": "cleave: --groups is 1: use 2 to 1024, or 0 for the default\n",
		"--data=":                                "--data is empty",
		"--tls-port 6380":                        "--tls-port: tls-port needs tls-cert-file",
		"--tls-cert-file x":                      "say where to listen",
		"--maxmemory lots":                       "want a number of bytes",
		"--config /nowhere/c.toml":               "/nowhere/c.toml",
		"--resp-addr 127.0.0.1:0 more":           "takes no arguments",
		"--data /dev/null/x --resp-addr [::]:0":  "/dev/null",
	} {
		code, _, stderr := exec(append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, strings.Fields(args)...)...)
		if code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	for _, args := range []string{"--resp-addr 127.0.0.1:99999", "--http-addr 127.0.0.1:99999", "--tls-port 99999", "--otlp-endpoint http://127.0.0.1:99999", "--otlp-endpoint here"} {
		flag, value, _ := strings.Cut(args, " ")
		data := filepath.Join(t.TempDir(), "data")
		code, _, stderr := exec("serve", "--data", data, flag, value)
		if _, err := os.Stat(data); code != exitUsage || !strings.Contains(stderr, flag+` "`+value+`": `) || err == nil {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	_, help, _ := exec("serve", "--help")
	checkWidth(t, help)
}
