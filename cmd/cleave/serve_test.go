package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
)

var ctx = context.Background()

// buildBinary builds the program once.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cleave-serve")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "cleave")
	args := []string{"build", "-ldflags=-w", "-o", path, "."} // to link takes half the time without what debuggers read
	if raceDetector {
		args = slices.Insert(args, 1, "-race")
	}
	out, err := osexec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// serverProcess is a server that runs.
type serverProcess struct {
	*osexec.Cmd
	addr       string
	httpAddr   string     // for operators, empty if there is none
	stderrText syncBuffer // on stderr
}

// syncBuffer is what a process says while it runs.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// newRedisClient is one that waits for a busy machine.
func newRedisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
}

// startServer starts a server and waits until it is ready.
func startServer(t *testing.T, args ...string) *serverProcess {
	t.Helper()
	return startServerBy(t, osexec.Command, args...)
}

// startServerBy starts a server by a command that becomes it.
func startServerBy(t *testing.T, command func(path string, args ...string) *osexec.Cmd, args ...string) *serverProcess {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM here")
	}
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // of the tokens of servers in memory
	p := &serverProcess{Cmd: command(path, append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)...)}
	p.Stderr = &p.stderrText
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
		t.Fatalf("it says %q and %s, %v", line, p.stderrText.String(), err)
	}
	p.addr = "127.0.0.1:" + port[1]
	if at := regexp.MustCompile(`https?://([^ )]+)`).FindStringSubmatch(line); at != nil {
		p.httpAddr = at[1]
	}
	return p
}

// stopWith sends a signal and waits.
func (p *serverProcess) stopWith(s syscall.Signal) error {
	_ = p.Process.Signal(s)
	return p.Wait()
}

func TestClientsOfGoRedisWorkWithTheServer(t *testing.T) {
	p := startServer(t, "--storage", "memory", "--groups", "4")
	plain := newRedisClient(p.addr)
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
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, p.stderrText.String())
	}
}

func TestAClientEndsTheServerAndNothingIsLost(t *testing.T) {
	dir := t.TempDir()
	p := startServer(t, "--data", dir)
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
		t.Errorf("it ends with %v: %s", err, p.stderrText.String())
	}
	again := newRedisClient(startServer(t, "--data", dir).addr)
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
				p := startServer(t, "--data", dir, "--appendfsync", fsync, "--groups", "3")
				check := newRedisClient(p.addr)
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
				_ = p.stopWith(syscall.SIGKILL)
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
	code, _, stderr := runCommand("serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "none", "--data", dir, "--stores", "3")
	if want := "cleave: " + dir + " has 2 stores, not 3: start it with --stores 0 or 2, or name a new directory with --data\n"; code != exitFailed || !strings.HasSuffix(stderr, want) { // behind the log
		t.Errorf("exit %d, %q, want %q", code, stderr, want)
	}
}

// The command line that has made a directory serves it after its groups were resized, and a crash.
func TestServe_GroupsOfAResizedDirectory_AreKeptWithAWarning(t *testing.T) {
	dir := t.TempDir()
	start := func() *serverProcess { return startServer(t, "--data", dir, "--groups", "2") }
	p := start()
	const warning = "the setting groups is for a new directory"
	if said := p.stderrText.String(); strings.Contains(said, warning) {
		t.Errorf("of a new directory it says %q", said)
	}
	runAction(t, p, "group", "resize", "4", "--yes")
	_ = p.stopWith(syscall.SIGKILL)
	p = start()
	if n := len(runJSON[[]api.Group](t, p, "group", "list")); n != 4 {
		t.Errorf("there are %d groups", n)
	}
	if said := p.stderrText.String(); !strings.Contains(said, warning) || !strings.Contains(said, "cleave group resize 2") {
		t.Errorf("it says %q, want %q in it", said, warning)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

func TestServeWarnsOfAVariableThatIsMisspelt(t *testing.T) {
	for _, name := range []string{"CLEAVE_DAAT", "CLEAVE_SEED", "CLEAVE_PLANT", "CLEAVE_WRITE", "CLEAVE_SOAK", "CLEAVE_HTTP_TOKEN"} {
		t.Setenv(name, "value")
	}
	_, _, stderr := runCommand("serve", "--tls-port", "6380") // which ends at once: there is no certificate
	warnings, _, _ := strings.Cut(stderr, "cleave: --tls-port")
	if want := "cleave: CLEAVE_DAAT: the server does not read this variable: did you mean CLEAVE_DATA?\n"; warnings != want {
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
		"--port 1 --bind 127.0.0.2":              "--port: port is 1, and resp-addr at --resp-addr is 127.0.0.1:0: leave one of them out",
		"--loglevel loud":                        `--loglevel "loud": want debug, verbose, notice or warning`,
		"--logfile /nowhere/file":                "--logfile: open /nowhere/file",
		"--log-format xml":                       `--log-format "xml": want text or json`,
		"--http-tls-cert-file x":                 "http-tls-cert-file needs http-tls-key-file",
		"--http-read-token-file /nowhere/file":   "--http-read-token-file: open /nowhere/file",
		"--maxmemory lots":                       "want a number of bytes",
		"--config /nowhere/c.toml":               "/nowhere/c.toml",
		"--resp-addr 127.0.0.1:0 more":           "takes no arguments",
		"--data /dev/null/x --resp-addr [::]:0":  "/dev/null",
	} {
		code, _, stderr := runCommand(append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, strings.Fields(args)...)...)
		if code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	for _, args := range []string{"--resp-addr 127.0.0.1:99999", "--http-addr 127.0.0.1:99999", "--tls-port 99999", "--otlp-endpoint http://127.0.0.1:99999", "--otlp-endpoint here"} {
		flag, value, _ := strings.Cut(args, " ")
		data := filepath.Join(t.TempDir(), "data")
		code, _, stderr := runCommand("serve", "--data", data, flag, value)
		if _, err := os.Stat(data); code != exitUsage || !strings.Contains(stderr, flag+` "`+value+`": `) || err == nil {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	_, help, _ := runCommand("serve", "--help")
	checkWidth(t, help)
}

// serveOnce is serve where it is expected to refuse.
func serveOnce(args ...string) (code int, stderr string) {
	code, _, stderr = runCommand(append([]string{"serve", "--resp-addr", "127.0.0.1:0", "--http-addr", "none"}, args...)...)
	return code, stderr
}

func TestServe_BackupInPlace_IsRefusedWithTheCommandToType(t *testing.T) {
	root := t.TempDir()
	db, err := cleave.Open(filepath.Join(root, "data"), cleave.Options{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Default().Set(ctx, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(root, "the backup")
	if err := db.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	code, stderr := serveOnce("--data", backup)
	if code != exitUsage || !strings.Contains(stderr, "cleave restore '"+backup+"' --data 'the backup-restored'") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if logs, _ := filepath.Glob(filepath.Join(backup, "*", "log")); len(logs) > 0 {
		t.Errorf("the backup has %q: it was opened", logs)
	}
	restored := filepath.Join(root, "the backup-restored") // the directory that an operator types
	if code, _, stderr := runCommand("restore", backup, "--data", restored); code != exitOK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	p := startServer(t, "--data", restored)
	if v, err := newRedisClient(p.addr).Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("%q %v", v, err)
	}
}

func TestServe_MissingData_IsRefusedUntilTheLossIsAccepted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data)
	if err := newRedisClient(p.addr).Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	segments, err := filepath.Glob(filepath.Join(data, "0", "log", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%q %v", segments, err)
	}
	for _, name := range segments {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	code, stderr := serveOnce("--data", data)
	if code == exitOK || !strings.Contains(stderr, "--accept-data-loss") || !strings.Contains(stderr, "restore a backup") || !strings.Contains(stderr, filepath.Base(segments[0])) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	p = startServer(t, "--data", data, "--accept-data-loss")
	if n, err := newRedisClient(p.addr).Exists(ctx, "k").Result(); err != nil || n != 0 {
		t.Errorf("%d %v", n, err)
	}
	if said := p.stderrText.String(); !strings.Contains(said, "accepted data loss") || !strings.Contains(said, "committed behind position") || strings.Contains(said, "nothing is") {
		t.Errorf("it says %s", said)
	}
}

// writeCertificate writes a certificate of its own and its key.
func writeCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// freePort returns an address with no listener, and its port.
func freePort(t *testing.T) (addr, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr = l.Addr().String()
	_, port, _ = net.SplitHostPort(addr)
	return addr, port
}

func TestACertificateThatIsNoUseIsToldBeforeAnythingIsServed(t *testing.T) {
	certFile, _ := writeCertificate(t)
	_, port := freePort(t)
	data := filepath.Join(t.TempDir(), "data")
	code, stdout, stderr := runCommand("serve", "--data", data, "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", certFile)
	if _, err := os.Stat(data); code != exitFailed || !strings.Contains(stderr, "--tls-key-file") || stdout != "" || err == nil {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestClientsThatEncryptAreServedAtTheirPort(t *testing.T) {
	certFile, keyFile := writeCertificate(t)
	addr, port := freePort(t)
	file := writeTempFile(t, "c.toml", "storage = 'memory'\ntls-port = "+port+"\ntls-cert-file = '"+certFile+"'\ntls-key-file = '"+keyFile+"'\n")
	startServer(t, "--config", file)
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	defer c.Close()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}
