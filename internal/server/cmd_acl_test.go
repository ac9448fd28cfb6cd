package server

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

// startWithUsers is a server on a directory, with its users.
func startWithUsers(t *testing.T, dir string, settings map[string]string) (c *testConn, end func()) {
	t.Helper()
	db := openDB(t, dir, cleave.Options{Groups: 3})
	s := New(db, Options{})
	if err := s.LoadUsers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Configure(settings); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c = (&testServer{t: t, addr: l.Addr().String()}).dial()
	return c, func() {
		s.Close()
		<-done
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUsersAreKeptOverARestart(t *testing.T) {
	dir, none := t.TempDir(), map[string]string{"requirepass": ""}
	c, end := startWithUsers(t, dir, none)
	c.runScript(`
		ACL SETUSER ann on >secret ~a* +@all -> OK
		ACL SETUSER bob on nopass ~b* +get -> OK
		ACL SETUSER tmp on nopass -> OK
		ACL DELUSER tmp -> (1)
		ACL SAVE -> OK
		CONFIG SET requirepass boss -> OK
	`)
	end()
	c, end = startWithUsers(t, dir, none) // a file without a password does not take away one that was set
	c.runScript(`
		GET a -> -NOAUTH*
		AUTH boss -> OK
		ACL USERS -> [ann bob default]
		AUTH ann wrong -> -WRONGPASS*
		AUTH ann secret -> OK
		SET a1 1 -> OK
		SET b1 1 -> -NOPERM*
		AUTH boss -> OK
		CONFIG REWRITE -> -ERR CONFIG REWRITE is not served*
		CONFIG SET requirepass '' -> OK
		FLUSHALL -> OK
		ACL DELUSER bob -> (1)
	`)
	if got := c.ask("CLEAVE.SHARDS"); strings.Contains(got, "user/") {
		t.Error(got)
	}
	end()
	c, end = startWithUsers(t, dir, map[string]string{"requirepass": "of the file"})
	c.runScript("ACL LIST -> -NOAUTH*")
	end()
	c, end = startWithUsers(t, dir, none)
	c.runScript("ACL USERS -> [ann default]\nGET x -> (nil)")
	end()
}

// A user whose rules may be read in another way than they were meant may do nothing, and the
// others are served.
func TestAUserWhoseRulesAreNotUnderstoodIsOff(t *testing.T) {
	dir := t.TempDir()
	c, end := startWithUsers(t, dir, nil)
	c.runScript("ACL SETUSER ann on nopass ~a* +@all -> OK")
	c.sendWords("ACL", "SETUSER", "bob", "on", ">secret", "~a nopass", "+@all")
	if got := c.readReply(); !resp.IsError([]byte(got)) {
		t.Errorf("a pattern with a space: %s", got)
	}
	end()
	db := openDB(t, dir, cleave.Options{Groups: 3})
	for _, name := range []string{"bob", acl.DefaultUser} {
		if err := smallstore.Engine(db).Node().PutUser(ctx, name, "on ~a nopass resetchannels +@all"); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c, end = startWithUsers(t, dir, nil)
	defer end()
	c.runScript(`
		GET a -> -NOAUTH*
		AUTH bob x -> -WRONGPASS*
		AUTH ann x -> OK
		SET a 1 -> OK
		ACL SETUSER bob reset on nopass ~b +get -> OK
		AUTH bob x -> OK
		GET b -> (nil)
	`)
}

// ACL LOAD takes back what is not kept, but never the password of the settings.
func TestACLLoadKeepsThePasswordOfTheSettings(t *testing.T) {
	c, end := startWithUsers(t, t.TempDir(), map[string]string{"requirepass": "two words"})
	defer end()
	if _, err := c.Write([]byte("AUTH 'two words'\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := c.readReply(); got != "OK" {
		t.Fatal(got)
	}
	c.runScript("ACL SETUSER ann on nopass +@all -> OK\nACL LOAD -> OK\nACL USERS -> [ann default]\nRESET -> RESET\nGET x -> -NOAUTH*")
}

// It does so too if the default user is kept, from a time when the settings had none.
func TestACLLoadKeepsThePasswordOfAUserThatIsKept(t *testing.T) {
	dir := t.TempDir()
	c, end := startWithUsers(t, dir, nil)
	c.runScript("ACL SETUSER default -config -> OK")
	end()
	c, end = startWithUsers(t, dir, map[string]string{"requirepass": "secret"})
	defer end()
	c.runScript(`
		GET x -> -NOAUTH*
		AUTH secret -> OK
		ACL LOAD -> OK
		CONFIG GET port -> -NOPERM*
		RESET -> RESET
		GET x -> -NOAUTH*
		AUTH secret -> OK
		ACL SETUSER default +config -> OK
		CONFIG SET requirepass other -> OK
		ACL SETUSER default resetpass >third -> OK
		ACL LOAD -> OK
		AUTH other -> -WRONGPASS*
		AUTH third -> OK
	`)
}

// What SETUSER has answered is not taken back by an ACL LOAD that was under way.
func TestACLLoadTakesBackNothingThatIsKept(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	var loading sync.WaitGroup
	over := make(chan struct{})
	defer loading.Wait()
	defer close(over)
	for range 2 {
		c := l.dial()
		loading.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					c.runScript("ACL LOAD -> OK")
				}
			}
		})
	}
	c := l.dial()
	for i := range 200 {
		word := []string{"on", "off"}[i%2]
		c.runScript("ACL SETUSER ann " + word + " -> OK")
		for range 10 {
			if u := l.s.users.Get("ann"); u == nil || u.IsOn != (word == "on") {
				t.Fatalf("try %d: ann is not %s, which was answered", i, word)
			}
			runtime.Gosched()
		}
	}
}

// What a user may do counts when it is done, also for what MULTI has gathered, and a SET
// that answers with the old value reads it.
func TestUsersMayNotGetAroundTheirRules(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		admin, c := l.dial(), l.dial()
		admin.runScript("SET w:a secret -> OK\nACL SETUSER ann on nopass %W~w:* ~a:* +@all -> OK")
		c.runScript(`
			AUTH ann x -> OK
			GET w:a -> -NOPERM*
			SET w:a 1 GET -> -NOPERM*
			SET w:a 1 EX 100 get -> -NOPERM*
			SET w:a GET -> OK
			SET a:x 1 GET -> (nil)
			MULTI -> OK
			SET a:x 2 -> QUEUED
		`)
		admin.runScript("ACL SETUSER ann -set -> OK")
		c.runScript("EXEC -> -EXECABORT*\nGET a:x -> 1\nMULTI -> OK\nGET a:x -> QUEUED\nEXEC -> [1]")
	})
}
