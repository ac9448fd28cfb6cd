package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
)

// Names that a client is remembered by are as long as keys at most, and count in what it takes.
func TestNames_OfChannelsAndWatchedKeys_AreBoundedAndCounted(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		c, admin := l.dial(), l.dial()
		long := strings.Repeat("n", command.MaxKeyBytes+1)
		for _, request := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH", "KEYS", "PUBSUB CHANNELS", "CONFIG GET"} {
			if got := c.ask(request + " " + long); !strings.HasPrefix(got, "-ERR too large:") || !strings.Contains(got, "of 16385 bytes, at most 16384") {
				t.Errorf("%s: %.100s", request, got)
			}
		}
		c.runScript("PUBLISH " + long + " m -> -ERR too large: channel*\nSCAN 0 MATCH " + long + " -> -ERR too large: pattern*")
		c.runScript("CLIENT TRACKING ON BCAST PREFIX " + strings.Repeat("p", 1025) + " -> -ERR too large: prefix of 1025 bytes, at most 1024*")
		id := strings.Trim(c.ask("CLIENT ID"), "()")
		total := func() (n int) {
			line := admin.ask("CLIENT LIST ID " + id)
			_, after, _ := strings.Cut(line, " tot-mem=")
			_, _ = fmt.Sscan(after, &n)
			return n
		}
		counted := func(what string, least, most int) {
			t.Helper()
			waitUntil(t, what, func() bool { n := total(); return least <= n && n < most })
		}
		names := func(n int) (line string) {
			for i := range n {
				line += fmt.Sprintf(" %016000d", i)
			}
			return line
		}
		c.runScript("WATCH" + names(20) + " -> OK")
		counted("watched keys to be counted", 320_000, 400_000)
		c.runScript("UNWATCH -> OK")
		counted("them to be forgotten", 0, 100_000)
		c.send("PSUBSCRIBE" + names(20))
		for range 20 {
			c.readReply()
		}
		counted("patterns to be counted", 320_000, 400_000)
		if used := l.s.clients.UsedBytes.Load(); used < 320_000 {
			t.Errorf("%d bytes are counted", used)
		}
		admin.runScript("CONFIG SET maxmemory-clients 1mb -> OK")
		c.send("SUBSCRIBE" + names(100))
		waitUntil(t, "the end of one that takes too much", func() bool { return l.s.clients.Len() == 1 })
		if !strings.Contains(said(), "maxmemory-clients") {
			t.Errorf("the log says %s", said())
		}
	})
}

// A PUBLISH that takes long to match delays no other client: patterns are matched by a goroutine of its client,
// and without the lock that subscribing clients need.
func TestPublish_AgainstPatternsThatTakeLong_HoldsUpNobody(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		listener, c, other := l.dial(), l.dial(), l.dial()
		slow := strings.Repeat("*a", 8000)
		listener.runScript("PSUBSCRIBE " + slow + "b -> [psubscribe*\nPSUBSCRIBE a*c -> [psubscribe a*c (2)]")
		channel := strings.Repeat("a", command.MaxKeyBytes-1) + "c"
		if !l.s.hub.IsPublishSlow([]byte(channel)) || l.s.hub.IsPublishSlow([]byte("news")) {
			t.Error("it is not known which takes long")
		}
		c.sendWords("PUBLISH", channel, "m")
		other.runScript("PING -> PONG\nSUBSCRIBE x -> [subscribe x (1)]\nUNSUBSCRIBE -> [unsubscribe x (0)]")
		c.expectReplies("(1)")
		if got := listener.readReply(); !strings.HasPrefix(got, "[pmessage a*c aaa") {
			t.Errorf("%.50s", got)
		}
		c.runScript("PUBLISH axc m -> (1)\nPUBLISH abd m -> (0)")
	})
}

func TestTrackingPrefixes_ThatOverlapOrAreTooMany_AreRefused(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.runScript(`
		HELLO 3 -> [server*
		CLIENT TRACKING ON BCAST PREFIX a PREFIX ab -> -ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single client must not overlap.
		CLIENT TRACKING ON BCAST PREFIX a PREFIX b -> OK
	`)
	many := []string{"CLIENT", "TRACKING", "ON", "BCAST"}
	for i := range 10_001 {
		many = append(many, "PREFIX", fmt.Sprintf("%06d", i))
	}
	c.sendWords(many...)
	c.expectReplies("-ERR too many prefixes: at most 10000 of a connection")
	l.dial().runScript("SET bk v -> OK")
	if got := c.readReply(); got != "[invalidate [bk]]" {
		t.Error(got)
	}
}

// A client that listens to what its user may not any more is closed, as by Redis 7.0.15; others go on.
func TestRevokedChannel_ClosesWhoListensToIt(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		admin := l.dial()
		for _, c := range []struct {
			listen, change string
			closed         bool
		}{
			{"SUBSCRIBE news", "ACL SETUSER u resetchannels", true},
			{"SUBSCRIBE news", "ACL SETUSER u resetchannels &other", true},
			{"SUBSCRIBE news", "ACL SETUSER u resetchannels &n*", false},
			{"SUBSCRIBE news", "ACL SETUSER u -get", false},
			{"SSUBSCRIBE news", "ACL SETUSER u resetchannels", true},
			{"PSUBSCRIBE n*", "ACL SETUSER u resetchannels &news &n?", true},
			{"PSUBSCRIBE n*", "ACL SETUSER u resetchannels &n*", false}, // the same pattern, letter by letter
			{"PSUBSCRIBE n*", "ACL SETUSER u allchannels", false},
			{"SUBSCRIBE news", "ACL DELUSER u", true},
			{"SUBSCRIBE news", "ACL SETUSER u reset", true},
		} {
			admin.runScript("ACL SETUSER u reset on >p ~* +@all &news &n* -> OK")
			user, calm := l.dial(), l.dial()
			user.runScript("AUTH u p -> OK\n" + c.listen + " -> [*")
			calm.runScript("AUTH u p -> OK")
			admin.ask(c.change)
			if !c.closed {
				user.runScript("PING x -> [pong x]")
				continue
			}
			if _, err := user.in.ReadByte(); err == nil {
				t.Errorf("%s: behind %s it goes on", c.listen, c.change)
			}
			if !strings.HasPrefix(c.change, "ACL DELUSER") {
				calm.send("PING")
				calm.readReply() // whatever it is: it is not closed
			}
		}
		// A user that changes its own rules is answered first.
		admin.runScript("ACL SETUSER u reset on >p ~* +@all &news -> OK")
		self := l.dial()
		self.runScript("AUTH u p -> OK\nHELLO 3 -> [server*\nSUBSCRIBE news -> [subscribe news (1)]\nACL SETUSER u resetchannels -> OK")
		if _, err := self.in.ReadByte(); err == nil {
			t.Error("it goes on")
		}
		// One whose user is kept no more is closed by LOAD.
		admin.runScript("ACL SETUSER u reset on >p ~* +@all &news -> OK")
		gone := l.dial()
		gone.runScript("AUTH u p -> OK\nSUBSCRIBE news -> [subscribe news (1)]")
		if err := l.s.node.PutUser(ctx, "u", ""); err != nil {
			t.Fatal(err)
		}
		admin.runScript("ACL LOAD -> OK")
		if _, err := gone.in.ReadByte(); err == nil {
			t.Error("it goes on")
		}
	})
}
