package serve

import (
	"sync/atomic"
	"testing"
)

func TestShutdownAsksForTheEndOnceItIsUnderstood(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			var asked atomic.Int64
			l := start(t, sh, Options{Dir: "/where/it/is", Shutdown: func() { asked.Add(1) }})
			c := l.dial()
			c.script(`
				CONFIG GET dir -> [dir /where/it/is]
				SHUTDOWN LATER -> -ERR syntax error
				SHUTDOWN SAVE NOSAVE -> -ERR syntax error
				SHUTDOWN ABORT NOW -> -ERR syntax error
				SHUTDOWN ABORT -> -ERR No shutdown in progress.
				MULTI -> OK
				SHUTDOWN -> -ERR Command not allowed inside a transaction
				DISCARD -> OK
				ACL SETUSER reader on nopass +@read +@connection ~* -> OK
				AUTH reader x -> OK`)
			if got := c.ask("SHUTDOWN"); got != "-NOPERM this user has no permissions to run the 'shutdown' command" {
				t.Errorf("a reader is told %s", got)
			}
			if n := asked.Load(); n != 0 {
				t.Fatalf("asked %d times for what is refused", n)
			}
			c.script("AUTH default x -> OK")
			for i, line := range []string{"SHUTDOWN", "shutdown nosave", "SHUTDOWN SAVE NOW FORCE"} {
				c.send(line)
				c.script("PING -> PONG") // there was no answer before
				if n := asked.Load(); n != int64(i+1) {
					t.Errorf("%s: asked %d times", line, n)
				}
			}
		})
	}
	c := start(t, shapes[0], Options{}).dial()
	c.script("SHUTDOWN -> -ERR SHUTDOWN is not served here: end the program that the server is part of")
}
