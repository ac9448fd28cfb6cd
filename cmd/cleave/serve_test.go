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
	plain bytes.Buffer // what it says on stderr
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
	p := &process{Cmd: osexec.Command(path, append([]string{"serve", "--resp-addr", "127.0.0.1:0"}, args...)...)}
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
	return p
}

// end sends a signal and waits.
func (p *process) end(s syscall.Signal) error {
	_ = p.Process.Signal(s)
	return p.Wait()
}

func TestClientsOfGoRedisWorkWithTheServer(t *testing.T) {
	p := serving(t, "--storage", "memory", "--groups", "4")
	plain := redis.NewClient(&redis.Options{Addr: p.addr})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{p.addr}})
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

// What was acknowledged is there after kill -9, at always and at everysec.
func TestNothingAcknowledgedIsLostWhenTheServerIsKilled(t *testing.T) {
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			dir := t.TempDir()
			const clients, lives = 4, 3
			var acked [clients]atomic.Int64
			for life := range lives {
				p := serving(t, "--data", dir, "--appendfsync", fsync, "--groups", "3")
				check := redis.NewClient(&redis.Options{Addr: p.addr})
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
				var wg sync.WaitGroup
				for w := range clients {
					wg.Go(func() {
						c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1})
						defer c.Close()
						for {
							n, err := c.Incr(ctx, fmt.Sprint("last", w)).Result()
							if err != nil {
								return
							}
							acked[w].Store(n)
						}
					})
				}
				time.Sleep(300 * time.Millisecond)
				_ = p.end(syscall.SIGKILL)
				wg.Wait()
			}
			for w := range clients {
				if acked[w].Load() == 0 {
					t.Errorf("client %d has written nothing", w)
				}
			}
		})
	}
}

func TestServeSaysWhatIsWrongWithItsFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--storage tape":                        "want disk or memory",
		"--appendfsync sometimes":               "want always, everysec or no",
		"--resp-addr 127.0.0.1:x":               "--resp-addr",
		"--storage memory --groups -1":          "Groups",
		"--tls-addr 127.0.0.1:0":                "needs --tls-cert and --tls-key",
		"--tls-cert x":                          "say where to listen",
		"--resp-addr 127.0.0.1:0 more":          "takes no arguments",
		"--data /dev/null/x --resp-addr [::]:0": "/dev/null",
	} {
		root := rootCommand()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"serve", "--resp-addr", "127.0.0.1:0"}, strings.Fields(args)...))
		if code := run(root); code == exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit %d, %s", args, code, out.String())
		}
	}
}
