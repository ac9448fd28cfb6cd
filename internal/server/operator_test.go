package server

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// logBuffer is a log in memory.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// awaitText waits until the log has a text.
func (l *logBuffer) awaitText(t *testing.T, want string) {
	t.Helper()
	for range 6000 {
		if strings.Contains(l.String(), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nothing says %s:\n%s", want, l.String())
}

func TestLog_OfClients_SaysWhyTheyAreRefusedAndClosed(t *testing.T) {
	for _, sh := range shapes[:2] {
		t.Run(sh.name, func(t *testing.T) {
			var out logBuffer
			var level slog.LevelVar
			l := startServer(t, sh, Options{Clients: 2, Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &level})), LogLevel: &level})
			c := l.dial()
			c.runScript("CONFIG SET requirepass a-secret -> OK")
			c.sendWords("AUTH", "somebody\nelse", "wrong-secret")
			if got := c.readReply(); !strings.HasPrefix(got, "-WRONGPASS") {
				t.Errorf("AUTH: %s", got)
			}
			c.runScript("CONFIG SET loglevel verbose timeout 7 -> OK")
			bad := l.dial()
			_, _ = io.WriteString(bad, "*1\r\nnonsense\r\n")
			_, _ = io.ReadAll(bad)
			browser := l.dial()
			_, _ = io.WriteString(browser, "POST / HTTP/1.1\r\nHost: x\r\n\r\n")
			_, _ = io.ReadAll(browser)
			l.dial()
			out.awaitText(t, `msg="client connected"`)
			for range 8 {
				_, _ = io.ReadAll(l.dial())
			}
			c.runScript("CONFIG SET loglevel loud -> -ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning")
			c.runScript("CONFIG SET loglevel warning timeout 8 -> OK")
			for _, want := range []string{
				`msg="setting changed" by="CONFIG SET" addr=127.0.0.1:`, "setting=requirepass value=(hidden)", "setting=timeout value=7",
				`msg="authentication failed" user="somebody\nelse"`, `msg="client closed" reason="protocol error"`,
				`reason="it speaks HTTP on the port of Redis clients"`, `msg="client refused" reason=maxclients addr=127.0.0.1:`,
			} {
				out.awaitText(t, want)
			}
			if n := strings.Count(out.String(), "reason=maxclients addr"); n > 5 {
				t.Errorf("there are %d lines of one kind", n)
			}
			l.s.Close()
			if text := out.String(); strings.Contains(text, "a-secret") || strings.Contains(text, "wrong-secret") || strings.Contains(text, "value=8") {
				t.Errorf("it says what is secret, or what is below its level:\n%s", text)
			}
			out.awaitText(t, `msg="client refused" reason=maxclients suppressed=`)
		})
	}
}

func TestOperatorsSeeConnectionsAndSlowRequestsWithoutValues(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	if err := l.s.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	c := l.dial()
	c.runScript(`
		CLIENT SETNAME worker -> OK
		SET k secret -> OK
		MSET a secret b secret -> OK
	`)
	all := l.s.Connections()
	if len(all) != 1 || all[0].Name != "worker" || all[0].Command != "mset" || all[0].Keyspace != "default" || all[0].Protocol != 2 {
		t.Errorf("the connections are %+v", all)
	}
	told := map[string][]string{}
	for _, e := range l.s.Slowlog() {
		for _, k := range e.Keys {
			told[e.Command] = append(told[e.Command], k.String())
			if strings.Contains(k.String(), "secret") {
				t.Errorf("a value is told: %+v", e)
			}
		}
		if e.Command == "set" && (e.Arguments != 3 || e.Shard == 0 || e.Group == 0 || e.Client == "") {
			t.Errorf("SET: %+v", e)
		}
	}
	if strings.Join(told["set"], " ") != "k" || strings.Join(told["mset"], " ") != "a b" {
		t.Errorf("the slow requests are of %v", told)
	}
	if n := l.s.Counts(); n.Clients != 1 || n.Connections != 1 || len(n.Commands) == 0 {
		t.Errorf("the counts are %+v", n)
	}
	if err := l.s.Configure(map[string]string{"timeout": "5", "no-such": "1"}); err == nil || l.s.Setting("timeout") != "0" {
		t.Errorf("a setting that there is not: %v; timeout is %s", err, l.s.Setting("timeout"))
	}
}
