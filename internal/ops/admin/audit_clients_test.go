package admin

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// redisClient sends lines to the port of Redis clients.
func (l *testServer) redisClient(t *testing.T, lines ...string) (from string, replies []string) {
	t.Helper()
	c, err := net.Dial("tcp", l.redisAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for _, line := range lines {
		fmt.Fprintf(c, "%s\r\n", line)
		reply, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		replies = append(replies, strings.TrimSpace(reply))
		items := 0 // of an array of simple replies
		_, _ = fmt.Sscanf(reply, "*%d", &items)
		for range items {
			if _, err := in.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	return c.LocalAddr().String(), replies
}

func TestAudit_HasWhatRedisClientsChange(t *testing.T) {
	forMemoryAndDisk(t, func(t *testing.T, l *testServer) {
		from, replies := l.redisClient(t,
			"ACL SETUSER ann on >s3cret +@all ~* &* typeds3cret", "ACL SETUSER ann on >s3cret +@all ~*", "AUTH ann s3cret", "ACL SETUSER bob",
			"CONFIG SET timeout 9 requirepass s3cret", "CONFIG SET requirepass ''", "CONFIG SET s3cret requirepass", "CONFIG SET maxmemory-policy allkeys-lru",
			"CLEAVE.INDEX CREATE i COLUMNS a", "CLEAVE.INDEX DROP i", "MULTI", "FLUSHDB", "SET x y", "EXEC", "FLUSHALL ASYNC", "CLIENT KILL ID 999999", "ACL DELUSER bob",
			"ACL LOAD", "SHUTDOWN", "GET x")
		all, err := l.client.Audit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := len(all) - 1; i >= 0; i-- {
			if e := all[i]; e.Outcome != api.AuditBegun {
				if e.From != from || e.ID == "" || e.Claims != "" {
					t.Errorf("it is from %s: %+v", from, e)
				}
				got = append(got, fmt.Sprintf("%s: %s: %s: %s %s", e.Who, e.Action, e.What, e.Outcome, e.Detail))
			}
		}
		want := []string{
			"user default: acl setuser: ACL SETUSER ann on >(hidden) +@all ~* &* (hidden): failed the rules are refused",
			"user default: acl setuser: ACL SETUSER ann on >(hidden) +@all ~*: done ",
			"user ann: acl setuser: ACL SETUSER bob: done ",
			"user ann: config set: CONFIG SET timeout 9 requirepass (hidden): done ",
			"user ann: config set: CONFIG SET requirepass (hidden): done ",
			"user ann: config set: CONFIG SET (hidden) (hidden): failed ERR Unknown option or number of arguments for CONFIG SET",
			"user ann: config set: CONFIG SET maxmemory-policy allkeys-lru: failed ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - Cleave evicts nothing: noeviction is the only policy",
			"user ann: cleave.index create: CLEAVE.INDEX CREATE i COLUMNS a (keyspace default): done ",
			"user ann: cleave.index drop: CLEAVE.INDEX DROP i (keyspace default): done ",
			"user ann: flushdb: FLUSHDB (keyspace default): done ",
			"user ann: flushall: FLUSHALL ASYNC: done ",
			"user ann: client kill: CLIENT KILL ID 999999: done ",
			"user ann: acl deluser: ACL DELUSER bob: done ",
			"user ann: acl load: ACL LOAD: done ",
			"user ann: shutdown: SHUTDOWN: failed ERR SHUTDOWN is not served here: end the program that the server is part of",
		}
		for i := range max(len(got), len(want)) {
			var g, w string
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if g != w {
				t.Errorf("entry %d:\n%s, want\n%s", i, g, w)
			}
		}
		if t.Failed() {
			t.Log(replies)
		}
		if l.dataDir == "" {
			return
		}
		text, err := os.ReadFile(filepath.Join(l.dataDir, auditFileName))
		if err != nil || strings.Contains(string(text), "s3cret") {
			t.Errorf("the file has a secret, or %v:\n%s", err, text)
		}
	})
}

// A log that cannot be written lets Redis clients change nothing.
func TestAudit_ThatCannotBeWrittenStopsRedisClients(t *testing.T) {
	l := startServer(t, filepath.Join(t.TempDir(), "data"))
	if err := l.admin.audit.files.file.Close(); err != nil {
		t.Fatal(err)
	}
	_, replies := l.redisClient(t, "SET k v", "FLUSHALL", "DBSIZE")
	if replies[0] != "+OK" || !strings.HasPrefix(replies[1], "-ERR nothing was changed: the audit log cannot be written") || replies[2] != ":1" {
		t.Error(replies)
	}
}
