package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// The life of a server is in its log: one line of JSON for each event, in the file that has the
// name now.
func TestLog_OfAServer_HasItsLifeAndFollowsTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data, "--logfile", file, "--log-format", "json", "--requirepass", "a-secret")
	c := newRedisClient(p.addr)
	defer c.Close()
	if err := c.Do(ctx, "auth", "a-secret").Err(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a new file", func() bool { text, _ := os.ReadFile(file); return strings.Contains(string(text), `"reloaded"`) })
	if err := p.operatorClient(t, data).Get(ctx, api.PathStatus, nil, new(api.Status)); err != nil {
		t.Error(err)
	}
	if err := p.stopWith(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	for name, want := range map[string][]string{
		file + ".1": {"starting", "requirepass is a flag", "store opened", "ready"},
		file:        {"reloaded", "shutting down", "stopped"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var event struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &event); err != nil || event.Time == "" || event.Level == "" {
				t.Errorf("%q: %v", line, err)
			}
			if len(want) > 0 && strings.HasPrefix(event.Msg, want[0]) {
				want = want[1:]
			}
		}
		if len(want) > 0 || strings.Contains(string(text), "a-secret") {
			t.Errorf("%s lacks %v in this order, or says a secret:\n%s", name, want, text)
		}
	}
	if text := p.stderrText.String(); text != "" {
		t.Errorf("on stderr it says %s", text)
	}
}

func TestLog_OfAServerThatCannotStart_SaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	code, _, stderr := runCommand("serve", "--data", "/dev/null/x", "--resp-addr", "127.0.0.1:0", "--http-addr", "none", "--logfile", file)
	text, err := os.ReadFile(file)
	if code != exitFailed || err != nil || !strings.Contains(string(text), `level=ERROR msg="the server ends" error=`) || !strings.Contains(stderr, "/dev/null") {
		t.Errorf("exit %d, %s, and the log says %s, %v", code, stderr, text, err)
	}
}

func TestLogLevels_OfTheSettings_AreThoseOfTheLog(t *testing.T) {
	for _, s := range config.Settings() {
		if s.Name == "loglevel" && strings.Join(s.EnumValues, " ") != strings.Join(oplog.LevelNames(), " ") {
			t.Errorf("the setting has %v, the log %v", s.EnumValues, oplog.LevelNames())
		}
	}
}

// Both ports encrypt, and no Redis client is served that does not.
func TestHTTPS_IsServedAndSpokenByTheCommandLine(t *testing.T) {
	certFile, keyFile := writeCertificate(t)
	_, port := freePort(t)
	read := writeTempFile(t, "read", "a-token-for-scrapers\n")
	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data, "--http-tls-cert-file", certFile, "--http-tls-key-file", keyFile, "--http-read-token-file", read,
		"--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile)
	_, operators, _ := strings.Cut(p.httpAddr, ":")
	addr := "https://localhost:" + operators
	for _, c := range []struct {
		what, args string
		code       int
		out, err   string
	}{
		{"trusted", "--addr " + addr + " --cacert " + certFile, exitOK, "healthy", ""},
		{"not trusted", "--addr " + addr, exitFailed, "", "--cacert"},
		{"another name", "--addr https://127.0.0.1:" + operators + " --cacert " + certFile, exitFailed, "", "not trusted"},
		{"not encrypted", "--addr localhost:" + operators, exitFailed, "", "write https:// before the address"},
		{"no certificate", "--addr " + addr + " --cacert " + read, exitUsage, "", "has no certificate in PEM"},
	} {
		code, out, err := runCommand(append([]string{"status"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(err, c.err) {
			t.Errorf("%s: exit %d, %s%s", c.what, code, out, err)
		}
	}
	create := []string{"keyspace", "create", "orders", "--range", "--addr", addr, "--cacert", certFile}
	if code, _, err := runCommand(append(create, "--token-file", read)...); code != exitFailed || !strings.Contains(err, "this token is for reading alone") {
		t.Errorf("with the token for reading: exit %d, %s", code, err)
	}
	if code, _, err := runCommand(append(create, "--data", data)...); code != exitOK {
		t.Errorf("with the token: exit %d, %s", code, err)
	}
	// A new certificate is used from the next connection on.
	newCert, newKey := writeCertificate(t)
	for to, from := range map[string]string{certFile: newCert, keyFile: newKey} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, err := runCommand("status", "--addr", addr, "--cacert", certFile); code != exitOK {
		t.Errorf("after the change: exit %d, %s", code, err)
	}
}

func TestServe_WithPortZero_ServesThoseAloneWhoEncrypt(t *testing.T) {
	certFile, keyFile := writeCertificate(t)
	_, port := freePort(t)
	file := writeTempFile(t, "c.toml", "storage = 'memory'\nport = 0\ntls-port = "+port+"\ntls-cert-file = '"+certFile+"'\ntls-key-file = '"+keyFile+"'\n")
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	l, err := openListeners(c)
	if err != nil {
		t.Fatal(err)
	}
	l.close()
	if l.plain != nil || l.encrypted == nil || !regexp.MustCompile(`--tls -p `+port).MatchString(l.formatTryCommand()) {
		t.Errorf("it listens at %v and %v: %s", l.plain, l.encrypted, l.formatTryCommand())
	}
}
